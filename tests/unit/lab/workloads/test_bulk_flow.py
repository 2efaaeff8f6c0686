"""Bulk flows as data, and the sender and sink over loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.workloads.bulk.flow import FLOWS_MAX, BulkFlow, dumped, loaded
from leadline.lab.workloads.bulk.job import Bulk, Transfer
from leadline.model.errors import DataError, UsageError

PROGRAM = [sys.executable, "-m", "leadline.lab.workloads.bulk.rank"]
SINK, SENDER = "127.0.61.1", "127.0.61.2"


@given(
    flows=st.lists(
        st.builds(
            BulkFlow,
            st.just("10.1.1.1"),
            st.just("10.2.1.1"),
            st.integers(1, 65_535),
            st.integers(0, 65_535),
            st.integers(0, 10**12),
            st.floats(0, 100),
            st.floats(0.1, 100),
            st.integers(1, 10**9),
        ),
        max_size=5,
    )
)
def test_what_is_dumped_is_loaded(flows: list[BulkFlow]) -> None:
    assert loaded(dumped(flows)) == flows


@given(text=st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        loaded(text)
    except DataError:
        return


GOOD = {"source": "10.1.1.1", "target": "10.2.1.1", "target_port": 5201}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"target_port": 0}, "ports from 1"),
        ({"source_port": 70_000}, "ports from 1"),
        ({"seconds": 0}, "seconds above 0"),
        ({"seconds": 1e9}, "seconds above 0"),
        ({"bytes_most": 0}, "bytes_most from 1"),
        ({"rate_bps": -1}, "rate_bps from 0"),
        ({"colour": "red"}, "a JSON list of flows"),
    ],
)
def test_a_wrong_flow_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        loaded(json.dumps([{**GOOD, **wrong}]))


def test_the_number_of_flows_is_bounded() -> None:
    with pytest.raises(DataError, match="at most 256"):
        loaded(json.dumps([GOOD] * (FLOWS_MAX + 1)))


def test_bulk_needs_to_know_from_where_to_where() -> None:
    with pytest.raises(UsageError, match="src, dst"):
        Bulk(name="b")


def test_bulk_makes_a_transfer_per_source_port() -> None:
    bulk = Bulk(src="h1", dst="h2", src_ports=[40_000, 40_007], rate_mbit=2.5, seconds=3)
    assert list(bulk.transfers) == [
        Transfer("h1", "h2", port, rate_bps=2_500_000, seconds=3) for port in (40_000, 40_007)
    ]
    assert bulk.hosts == ["h1", "h2"]
    assert len(Bulk(src="h1", dst="h2", flows=3).transfers) == 3


def run_pair(flows: list[dict[str, Any]], port: int, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sink and a sender over loopback. Returns the last report of each."""
    sink_log = tmp_path / "sink"
    with sink_log.open("w") as log:
        sink = subprocess.Popen([*PROGRAM, "--listen", f"{SINK}:{port}", "--seconds", "20"], stdout=log)
        try:
            sent = subprocess.run([*PROGRAM, "--flows", json.dumps(flows)], capture_output=True, timeout=30, check=True)
        finally:
            sink.terminate()
            assert sink.wait(10) == 0
    return json.loads(sent.stdout.splitlines()[-1]), json.loads(sink_log.read_text().splitlines()[-1])


def test_bytes_are_counted_at_both_ends(tmp_path: Path) -> None:
    flow = {"source": SENDER, "target": SINK, "target_port": 5211, "seconds": 5}
    sent, received = run_pair(
        [{**flow, "bytes_most": 3_000_001, "source_port": 41_201}, {**flow, "bytes_most": 500}], 5211, tmp_path
    )
    assert [each["sent_bytes"] for each in sent["flows"]] == [3_000_001, 500]
    assert sorted(received["received"].values()) == [500, 3_000_001]
    assert received["received"][f"{SENDER}:41201"] == 3_000_001
    assert all(len(each["flow"]) == 32 and not each["error"] for each in sent["flows"])


def test_a_rate_is_kept_and_the_time_ends_it(tmp_path: Path) -> None:
    flow = {"source": SENDER, "target": SINK, "target_port": 5212, "seconds": 1.5, "rate_bps": 8_000_000}
    sent, received = run_pair([flow], 5212, tmp_path)
    (told,) = sent["flows"]
    assert 0 < told["sent_bytes"] < 4_000_000  # 1.5 MB at the rate; greedy would be a thousand times that
    # What the kernel still held when the sink was told to go has not arrived.
    assert 0 < sum(received["received"].values()) <= told["sent_bytes"]


def test_nobody_listens() -> None:
    flow = {"source": SENDER, "target": SINK, "target_port": 5213, "seconds": 0.5}
    done = subprocess.run([*PROGRAM, "--flows", json.dumps([flow])], capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "refused" in json.loads(done.stdout.splitlines()[-1])["flows"][0]["error"]
