"""Kernels of symptoms say what the plain words say, of rows in any order and of nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import symptom_oracle as plain
from tests.builders.small_job import JOB, table

from leadline.analysis.symptoms.calls import GROUPS_MORE, Calls, calls_of
from leadline.analysis.symptoms.excursions import excursion, level_of, onset
from leadline.analysis.symptoms.job_ranks import job_ranks
from leadline.analysis.symptoms.lateness import lateness, meetings_of

TO_NS = 60
COLUMNS = (
    dict.fromkeys(("comm", "op", "dtype", "state"), pa.dictionary(pa.int32(), pa.string()))
    | dict.fromkeys(("ranks", "rank", "enqueued_ns", "started_ns", "finished_ns"), pa.int64())
    | dict.fromkeys(("seq", "bytes"), pa.uint64())
)
many = settings(deadline=None, max_examples=80)
Row = dict[str, Any]

numbers = st.one_of(st.integers(0, 3), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 5000]))
rows_of_calls = st.lists(
    st.fixed_dictionaries(
        {
            "comm": st.sampled_from(["0x1", "0x2", None]),
            "ranks": st.sampled_from([2, 3, 0, -1, 2**40]),
            "rank": st.one_of(st.integers(0, 3), st.sampled_from([-1, 999_999, 1_000_000, 2**40])),
            "seq": numbers,
            "op": st.sampled_from(["all_reduce", "broadcast", "send", "recv", None]),
            "bytes": numbers,
            "dtype": st.sampled_from(["float32", "bfloat16", None]),
            "enqueued_ns": st.one_of(
                st.integers(1, 4), st.sampled_from([0, -5, 40, TO_NS - 1, TO_NS, 2**62, 2**63 - 1])
            ),
            "started_ns": st.one_of(st.none(), st.integers(0, TO_NS + 2)),
            "finished_ns": st.one_of(st.none(), st.integers(0, TO_NS + 2), st.just(2**63 - 1)),
            "state": st.sampled_from(["enqueued", "finished", "failed", None]),
        }
    ),
    max_size=40,
)


def told(calls: Calls) -> list[Row]:
    """Calls with their names."""
    texts: Row = {
        name: np.array([*names, ""], object)[code_N].tolist()
        for name, names, code_N in (
            ("comm", calls.comms, calls.comm_N), ("op", calls.ops, calls.op_N), ("dtype", calls.dtypes, calls.dtype_N)
        )
    }  # fmt: skip
    plain_: Row = {"seq": calls.seq_N, "rank": calls.rank_N, "bytes": calls.bytes_N, "size": calls.size_N}
    plain_ |= {"entered": calls.entered_N, "started": calls.started_N, "ended": calls.ended_N, "failed": calls.failed_N}
    columns: Row = {**texts, **{name: values.tolist() for name, values in plain_.items()}}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def collectives(rows: Sequence[Row], cut: int = 0) -> pa.Table:
    """Rows as a table, in one piece or two; what its schema forbids, too."""
    whole = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()})
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]) if cut else whole


@many
@given(rows_of_calls, st.integers(0, 40))
def test_calls_of_any_rows(rows: list[Row], cut: int) -> None:
    found = calls_of(collectives(rows, min(cut, len(rows))), TO_NS)
    assert told(found) == plain.calls(rows, TO_NS)
    assert found.ranks() == {row["rank"] for row in plain.calls(rows, TO_NS)}
    assert found.kinds() == plain.kinds(found)


@many
@given(rows_of_calls)
def test_calls_of_rows_in_order(rows: list[Row]) -> None:
    """As a store has them: nothing is sorted then."""
    rows = sorted(
        rows, key=lambda row: (row["comm"] or "", row["seq"], row["rank"], row["enqueued_ns"], row["op"] or "")
    )
    assert told(calls_of(collectives(rows), TO_NS)) == plain.calls(rows, TO_NS)


def test_calls_of_rows_that_are_not_sorted_by_counting() -> None:
    """Numbers with gaps, and one rank that entered one collective a thousand times, newest first."""
    row: Row = {"comm": "0x1", "ranks": 2, "rank": 0, "seq": 0, "op": "send", "bytes": 1, "dtype": "float32"}
    row |= {"started_ns": None, "finished_ns": None, "state": "enqueued"}
    gaps = [{**row, "seq": 9 * GROUPS_MORE * at, "enqueued_ns": 5} for at in (3, 1, 2, 0, 1)]
    again = [{**row, "enqueued_ns": 1001 - at} for at in range(1000)]
    for rows in (gaps, again, [*again, *gaps]):
        assert told(calls_of(collectives(rows), 2000)) == plain.calls(rows, 2000)


@st.composite
def meeting_rows(draw: st.DrawFn) -> list[Row]:
    """Two communicators of three ranks that mostly meet: entries close together, some who never come or fail."""
    rows: list[Row] = []
    for comm, seq, rank in ((comm, seq, rank) for comm in ("0x1", "0x2") for seq in range(6) for rank in range(3)):
        entered = 10 * seq + 1 + draw(st.integers(0, 6))
        state = draw(st.sampled_from(["finished"] * 12 + ["failed", "absent"]))
        size = draw(st.sampled_from([3] * 12 + [2]))
        op = draw(st.sampled_from(["all_reduce"] * 6 + ["broadcast", "send"]))
        row = {"comm": comm, "ranks": size, "rank": rank, "seq": seq, "op": op, "bytes": draw(st.integers(1, 2))}
        row |= {"dtype": "float32", "enqueued_ns": entered, "started_ns": None, "state": state}
        if state != "absent":
            rows.append({**row, "finished_ns": entered + draw(st.integers(0, 9))})
    return draw(st.permutations(rows))


@many
@given(meeting_rows(), st.integers(0, 70), st.integers(0, 70), st.integers(0, 70))
def test_lateness_of_any_meetings(rows: list[Row], since_ns: int, until_ns: int, calm_ns: int) -> None:
    calls = calls_of(collectives(rows), 100)
    found = lateness(meetings_of(calls), since_ns, until_ns, calm_ns)
    assert (found.by_rank_s, found.by_comm_s) == plain.lateness(calls, since_ns, until_ns, calm_ns)


@many
@given(rows_of_calls)
def test_lateness_of_nonsense(rows: list[Row]) -> None:
    calls = calls_of(collectives(rows), TO_NS)
    found = lateness(meetings_of(calls), 0, TO_NS, 30)
    assert (found.by_rank_s, found.by_comm_s) == plain.lateness(calls, 0, TO_NS, 30)


@many
@given(st.lists(st.one_of(st.floats(0.9, 1.1), st.floats(1e-9, 1e4)), max_size=60))
def test_levels_and_excursions(units: list[float]) -> None:
    unit_s_B = np.array(units)
    level, wanted = level_of(unit_s_B), plain.level_of(unit_s_B)
    assert (level and (level.unit_s, level.scatter)) == wanted
    found, told_ = excursion(unit_s_B), plain.excursion(unit_s_B)
    assert (found is None) == (told_ is None)
    if found is not None and told_ is not None:
        assert (found.level.unit_s, found.level.scatter) == told_[1]
        assert found.first == onset(unit_s_B, told_[0], len(unit_s_B) - 1, found.level)


names = st.sampled_from(
    [f"rank:{JOB}/0", f"rank:{JOB}/1", f"rank:{JOB}/01", f"rank:{JOB}/x", f"rank:{JOB}/", "rank:other/0", "host:h1"]
)
parents = st.sampled_from([f"job:{JOB}", "host:h1", "host:h2", "host", "gpu:g1", "gpu:g2", "process:p", ""])
relations_ = st.lists(
    st.fixed_dictionaries(
        {
            "child": names,
            "parent": parents,
            "kind": st.sampled_from(["in", "runs-on", "member"]),
            "from_ns": st.integers(0, 3),
            "to_ns": st.one_of(st.none(), st.integers(0, 12)),
            "source": st.just("test"),
            "confidence": st.just(1.0),
        }
    ),
    max_size=25,
)


@many
@given(relations_, st.integers(0, 25))
def test_places_of_any_rows(rows: list[Row], cut: int) -> None:
    whole = table("relation", rows)
    cut = min(cut, len(rows))
    found = job_ranks(pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]), JOB)
    wanted = plain.places(whole, JOB)
    assert (found.host_of, dict(found.gpus_of), found.left_ns) == (
        wanted.host_of, dict(wanted.gpus_of), wanted.left_ns
    )  # fmt: skip
