"""Trace files of three formats as operations: what is kept, how it is placed, what bad files are told."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.errors import DataError
from leadline.wire.rows import decode_arrow
from leadline.wire.traces.kineto import kind_of
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import numbered, operation_rows

GOLDEN = Path(__file__).parents[2] / "golden"
WHATIF = GOLDEN / "straggler_whatif" / "trace-ST.csv.gz"
KINETO = GOLDEN / "kineto_traces" / "ranks2_cut.json.gz"
CHAKRA = GOLDEN / "chakra" / "small_chakra.0.json.gz"
END_NS = 1_750_000_000 * 10**9


def test_a_what_if_csv_is_read_whole() -> None:
    found = read_trace_file("t", WHATIF.read_bytes())
    assert (found.format, len(found), found.notes) == ("what-if CSV", 6784, [])
    assert sorted(set(found.rank_N.tolist())) == list(range(8))
    assert len(set(found.step_N.tolist())) == 32


def test_its_steps_are_placed_one_after_the_other_and_end_when_asked() -> None:
    found = read_trace_file("t", WHATIF.read_bytes())
    rows = operation_rows([found], "j", END_NS)
    start_N, took_N = (rows[name].to_numpy() for name in ("start_ns", "duration_ns"))
    assert int((start_N + took_N).max()) == END_NS
    last = -(2**62)
    for step in np.unique(found.step_N):
        of_step = found.step_N == step
        shift_N = start_N[of_step] - found.begin_N[of_step]
        assert len(set(shift_N.tolist())) == 1, "within a step nothing moves"
        assert start_N[of_step].min() >= last
        last = (start_N + took_N)[of_step].max()


def test_rows_are_what_the_way_in_takes() -> None:
    import pyarrow as pa

    from leadline.model.tables.training import OPERATION

    rows = operation_rows([read_trace_file("t", CHAKRA.read_bytes())], "j", END_NS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    assert decode_arrow(sink.getvalue().to_pybytes(), OPERATION).num_rows == 7


def test_kineto_keeps_what_ran_on_the_gpu_by_step() -> None:
    found = read_trace_file("t", KINETO.read_bytes())
    assert Counter(found.kinds) == {"compute": 57, "all-reduce": 15, "broadcast": 6, "memory": 3}
    assert Counter(found.step_N.tolist()) == {6: 67, 4: 7, 5: 7}
    assert set(found.rank_N.tolist()) == {0}
    assert found.notes == ["23 events of the host or without a time are not kept"]
    first = min(found.begin_N.tolist())
    assert first > 1_711_964_646 * 10**9, "baseTimeNanoseconds counts"


def test_times_since_1970_are_right_to_the_nanosecond() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1682725898236763, "dur": 1.001}
    found = read_trace_file("t", json.dumps({"traceEvents": [event]}).encode())
    assert (found.begin_N[0], found.duration_N[0]) == (1682725898236763000, 1001)
    assert "no ProfilerStep" in found.notes[0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce-scatter"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send-recv"),
        ("void at::native::vectorized_elementwise_kernel", "compute"),
    ],
)
def test_collectives_have_their_names(name: str, kind: str) -> None:
    assert kind_of({"cat": "kernel", "name": name}) == kind


def test_chakra_begins_each_node_when_what_it_waits_for_has_ended() -> None:
    found = read_trace_file("t", CHAKRA.read_bytes())
    assert len(found) == 7
    assert found.notes[0].startswith("7 nodes, 6 dependencies")
    nodes = [
        {"Id": 1, "Name": "a", "runtime": 5, "data_deps": [2, 99]},
        {"Id": 2, "Name": "ncclKernel_AllReduce", "runtime": 3},
    ]
    small = read_trace_file("t", json.dumps({"workload_graph": nodes}).encode())
    assert dict(zip(small.kinds, small.begin_N.tolist(), strict=True)) == {"all-reduce": 0, "compute": 3000}


BAD: list[tuple[Any, str]] = [
    ({"a": 1}, "got an object with a"),
    ({"traceEvents": 3}, "expected `traceEvents`, a list of events, got int"),
    ({"traceEvents": [{"ph": "X", "cat": "cpu_op"}]}, "expected events of a GPU .* got 1 cpu_op"),
    ({"workload_graph": []}, "a list of nodes"),
    ({"workload_graph": [{"Name": "x"}]}, "node 0: expected an object with a whole number `Id`"),
    ({"workload_graph": [{"Id": 1, "data_deps": [2]}, {"Id": 2, "data_deps": [1]}]}, r"nodes \[1, 2\] that wait"),
]


@pytest.mark.parametrize(("whole", "said"), BAD)
def test_what_is_no_trace_is_told(whole: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_trace_file("bad.json", json.dumps(whole).encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected a trace of the PyTorch profiler .* got an empty file"),
        (b"a,b\n1,2\n", "begins with 'a, b'"),
        (b"rank,step\n1,2\n", "got rank, step, without dp_rank"),
        (b"{", "no JSON"),
        (gzip.compress(b"{" + b" " * 4000)[:-9], "JSON that ends or is damaged after [0-9]+ characters"),
        (gzip.compress(b"a" * 4000)[:12], "a gzip file that ends or is damaged after 12 bytes"),
        (b"dp_rank,stage,rank,step,optype,start_ts,duration\nx,0,0,0,gc,0,0\n", "1 lines that cannot be read"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "dur": 1, "ts": ' + b"9" * 400 + b"}]}", "got 1 kernel"),
    ],
    ids=["empty", "other-csv", "no-times", "cut-json", "cut-gzip", "cut-at-once", "no-number", "deep", "long-number"],
)
def test_files_that_hold_nothing_are_told(data: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_trace_file("bad", data)


@pytest.mark.parametrize("waits", [5, "12", {"1": 1}, [[1]], [{}], [None, 1.5, "1"]], ids=str)
def test_what_is_no_list_of_nodes_is_waited_for_by_nobody(waits: Any) -> None:
    nodes = [{"Id": 1, "runtime": 5}, {"Id": 2, "runtime": 3, "data_deps": waits, "ctrlDeps": waits}]
    found = read_trace_file("t", json.dumps({"workload_graph": nodes}).encode())
    assert found.begin_N.tolist() == [0, 0]


def test_nodes_that_last_for_ever_are_told() -> None:
    nodes = [{"Id": n, "runtime": 2**40 - 1, "data_deps": [n - 1]} for n in range(2200)]
    with pytest.raises(DataError, match="within 73 years"):
        read_trace_file("t", json.dumps({"workload_graph": nodes}).encode())


def test_a_step_whose_number_has_no_room_is_none() -> None:
    events = [{"ph": "X", "cat": "kernel", "ts": 5, "dur": 1},
              {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#" + "9" * 30, "ts": 1, "dur": 9}]  # fmt: skip
    found = read_trace_file("t", json.dumps({"traceEvents": events}).encode())
    assert found.step_N.tolist() == [0]
    assert "no ProfilerStep" in found.notes[0]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_trace_or_an_error(data: bytes) -> None:
    with suppress(DataError):
        read_trace_file("any", data)


def test_operations_are_numbered_by_begin_within_step_rank_and_kind() -> None:
    step_N, rank_N = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])
    assert numbered(step_N, rank_N, ["a", "a", "b", "a"], np.array([5, 2, 1, 9])).tolist() == [1, 0, 0, 0]
