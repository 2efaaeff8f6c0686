"""`bert` on a realised cluster: it trains, it is watched, and it fails as real jobs fail."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.torch.job import rows_of

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.lab.workloads.base import signal_process
from leadline.lab.workloads.bert.job import Bert
from leadline.model.errors import UsageError

pytestmark = pytest.mark.slow

START_S = 120.0  # two ranks import torch in 3 s, on a machine that does nothing else
END_S = 90.0


@pytest.fixture
def tiny(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as cluster:
        yield cluster


def until_ready(bert: Bert) -> None:
    deadline = time.monotonic() + START_S
    while not bert.ready():
        assert not any(bert.poll().values()), bert.ranks[0].log.read_text()
        assert time.monotonic() < deadline, "no first step"
        time.sleep(0.05)


def told(bert: Bert, rank: int) -> list[dict[str, Any]]:
    lines = bert.ranks[rank].log.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_it_trains_and_is_watched(tiny: Cluster) -> None:
    bert = Bert(steps=12, batch=4, hidden=64, layers=1, evaluate_every=6, checkpoint_every=6)
    bert.start(tiny)
    assert bert.wait(START_S + END_S) == {0: 0, 1: 0}, bert.ranks[0].log.read_text()
    said = told(bert, 0)
    losses = [one["loss"] for one in said if one["event"] == "step"]
    assert len(losses) == 12
    assert losses[-1] < losses[0] - 0.3
    digests = {one["digest"] for rank in (0, 1) for one in told(bert, rank) if one["event"] == "end"}
    assert len(digests) == 1  # they trained together
    stored = sorted((tiny.state / "jobs" / "bert-1" / "storage" / "checkpoint").iterdir())
    assert [path.name for path in stored] == ["step000005.pt", "step000011.pt"]

    rows = [rows_of(tiny.state / "hosts" / host / "ring") for host in ("h1", "h2")]
    for rank, found in enumerate(rows):
        assert [row["step"] for row in found["step"]] == list(range(12))
        assert {row["rank"] for row in found["step"]} == {rank}
        assert all(row["forward_ns"] and row["backward_ns"] and row["tokens"] == 256 for row in found["step"])
        kinds = [row["kind"] for row in found["event"]]
        assert kinds.count("evaluation-begin") == kinds.count("evaluation-end") == 2
        assert kinds.count("checkpoint") == (2 if rank == 0 else 0)
    assert rows[0]["step"][5]["checkpoint_ns"] > 0
    collectives = [{(row["comm"], row["seq"], row["op"]) for row in found["collective"]} for found in rows]
    assert collectives[0] == collectives[1]
    # The flows that the ranks own are those between their fabric addresses, seen from both ends.
    flows = [{row["child"] for row in found["relation"] if row["kind"] == "owns"} for found in rows]
    assert flows[0] & flows[1]
    bert.stop()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGSEGV, -11)], ids=lambda one: str(getattr(one, "name", one))
)
def test_a_rank_that_dies_takes_the_job_with_it(tiny: Cluster, number: signal.Signals, code: int) -> None:
    bert = Bert(batch=2, hidden=64, layers=1, evaluate_every=0, checkpoint_every=0)
    bert.start(tiny)
    until_ready(bert)
    signal_process(bert.ranks[1].process, number)
    assert bert.wait(END_S) == {0: 1, 1: code}
    assert "a collective failed" in bert.ranks[0].log.read_text()
    bert.stop()


def test_divergence_and_a_slow_loader_by_control_file(tiny: Cluster) -> None:
    bert = Bert(batch=2, hidden=64, layers=1, evaluate_every=0, checkpoint_every=0)
    bert.start(tiny)
    until_ready(bert)
    bert.tell(1, data_delay_s=0.4)
    time.sleep(3)
    bert.tell(1, diverge=True)
    codes = bert.wait(END_S)
    assert all(codes.values()), codes
    assert -signal.SIGABRT in codes.values()  # gloo ends the rank that received too much
    steps = rows_of(tiny.state / "hosts" / "h2" / "ring")["step"]
    assert any(row["data_ns"] >= 400_000_000 for row in steps)
    assert steps[0]["data_ns"] < 400_000_000
    bert.stop()


def test_told_to_stop_all_ranks_end_after_the_same_step(tiny: Cluster) -> None:
    bert = Bert(batch=2, hidden=64, layers=1, evaluate_every=0, checkpoint_every=0)
    bert.start(tiny)
    until_ready(bert)
    signal_process(bert.ranks[1].process, signal.SIGTERM)
    assert bert.wait(END_S) == {0: 0, 1: 0}
    assert bert.storage is None
    bert.stop()


def test_a_topology_without_storage_is_said_before_anything_starts(tiny: Cluster) -> None:
    with pytest.raises(UsageError, match="needs storage host nfs"):
        Bert(storage_host="nfs").start(tiny)
