"""`pipeline` on a realised cluster: two stages train, their messages are seen at both ends, one of them is slowed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.torch.job import rows_of

from leadline.lab.faults.application.imbalanced_stage import ImbalancedStage
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.topology import load
from leadline.lab.workloads.base import signal_process
from leadline.lab.workloads.pipeline.job import Pipeline, events_in
from leadline.model.errors import UsageError

pytestmark = pytest.mark.slow

START_S = 120.0  # two ranks import torch in 3 s, on a machine that does nothing else
END_S = 60.0


@pytest.fixture
def tiny(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as cluster:
        yield cluster


def until(true: Callable[[], bool], pipeline: Pipeline, timeout_s: float = START_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert not any(pipeline.poll().values()), pipeline.ranks[0].log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def seen_ratio(fault: ImbalancedStage, lab: RunningLab) -> float:
    return float(fault.seen(lab)["ratio"] or 0.0)  # type: ignore[arg-type]


def test_it_trains_is_watched_and_its_imbalance_shows(tiny: Cluster) -> None:
    pipeline = Pipeline(micro_batches=4, device_ms=8.0, hidden=64, checkpoint_every=5)
    lab = RunningLab(tiny, jobs={"pipeline-1": pipeline})
    pipeline.start(tiny)
    until(lambda: len(pipeline.steps_done()) >= 12, pipeline)

    fault = ImbalancedStage(factor=3.0).chosen(lab, random.Random(1))
    assert fault.component(lab) == (f"rank:pipeline-1/{fault.rank}",)
    assert seen_ratio(fault, lab) < 1.6
    fault.start(lab)
    until(lambda: seen_ratio(fault, lab) > 2.0, pipeline, END_S)
    waiting = {rank: steps[-1].waiting_s / steps[-1].seconds for rank, steps in pipeline.stage_steps().items()}
    assert waiting[1 - (fault.rank or 0)] > waiting[fault.rank or 0], "the other stage waits for the slow one"
    fault.stop(lab)
    until(lambda: seen_ratio(fault, lab) < 1.6, pipeline, END_S)

    signal_process(pipeline.ranks[1].process, 15)  # type: ignore[arg-type]
    assert pipeline.wait(END_S) == {0: 0, 1: 0}, pipeline.ranks[0].log.read_text()
    losses = [one["loss"] for one in events_in(pipeline.ranks[1].log.read_text(), "step")]
    assert min(losses) < losses[0] - 0.3
    stored = {path.name.partition("-")[2] for path in (tiny.state / "jobs" / "pipeline-1" / "checkpoint").iterdir()}
    assert stored == {"stage0.pt", "stage1.pt"}
    its_rows_are_whole([rows_of(tiny.state / "hosts" / host / "ring") for host in ("h1", "h2")])
    pipeline.stop()


def its_rows_are_whole(rows: list[dict[str, list[dict[str, Any]]]]) -> None:
    """Every message is told at both ends under one number, every step with its phases."""
    ends = [
        {(row["comm"], row["channel"], row["seq"], row["bytes"]) for row in found["message_end"] if row["side"] == side}
        for found, side in ((rows[0], "send"), (rows[1], "recv"), (rows[1], "send"), (rows[0], "recv"))
    ]
    assert ends[0] == ends[1]  # activations
    assert ends[2] == ends[3]  # gradients
    assert {channel for _, channel, _, _ in ends[0]} == {0}
    assert {channel for _, channel, _, _ in ends[2]} == {1}
    for rank, found in enumerate(rows):
        assert all(row["peer"] == 1 - rank and row["end_ns"] >= row["begin_ns"] for row in found["message_end"])
        steps = found["step"]
        assert [row["step"] for row in steps] == list(range(len(steps)))
        assert all(row["forward_ns"] > 0 and row["backward_ns"] > 0 for row in steps)
        assert all((row["tokens"] is not None) == (rank == 0) for row in steps)
        assert all((row["loss"] is not None) == (rank == 1) for row in steps)
        assert len(found["message_end"]) == 8 * len(steps)


def test_hosts_that_are_no_pipelines_are_refused_before_anything_starts(tiny: Cluster) -> None:
    for wrong in ({"stages": 3}, {"replicas": 3}, {"stages": 2, "hosts": ["h1"]}):
        with pytest.raises(UsageError, match="stages x"):
            Pipeline(**wrong).start(tiny)  # type: ignore[arg-type]
    assert not (tiny.state / "jobs" / "pipeline-1").exists()
