"""vision, recommendation and finetune on a realised cluster, and what every training does: resume, obey."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.torch.job import rows_of

from leadline.lab.faults.application.slow_loader import SlowLoader
from leadline.lab.harmless.job import ExtraCheckpoint, Recompilation, Reinitialisation, VariableSequences
from leadline.lab.harmless.preemption import Preemption
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.topology import load
from leadline.lab.workloads.bert.job import Bert
from leadline.lab.workloads.finetune.job import Finetune
from leadline.lab.workloads.recommendation.job import Recommendation
from leadline.lab.workloads.training.job import TrainingJob
from leadline.lab.workloads.vision.job import Vision

pytestmark = pytest.mark.slow

START_S, END_S = 120.0, 90.0
SMALL: dict[str, Any] = {"batch": 2, "hidden": 64, "layers": 1}


@pytest.fixture
def tiny(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as cluster:
        yield cluster


def told(job: TrainingJob, rank: int, event: str) -> list[dict[str, Any]]:
    lines = job.ranks[rank].log.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [each for each in found if each["event"] == event]


def until(job: TrainingJob, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not reached():
        assert not any(job.poll().values()), job.ranks[0].log.read_text()
        assert time.monotonic() < deadline, job.ranks[0].log.read_text()
        time.sleep(0.05)


def test_vision_learns_and_is_watched(tiny: Cluster) -> None:
    job = Vision(steps=60, batch=16, width=24, evaluate_every=60, checkpoint_every=30)
    job.start(tiny)
    assert job.wait(START_S + END_S) == {0: 0, 1: 0}, job.ranks[0].log.read_text()
    losses = [each["loss"] for each in told(job, 0, "step")]
    assert len(losses) == 60
    assert sum(losses[-8:]) < sum(losses[:8]) - 8 * 0.2
    assert len({each["digest"] for rank in (0, 1) for each in told(job, rank, "end")}) == 1
    rows = rows_of(tiny.state / "hosts/h1/ring")
    assert {"loss", "accuracy"} <= dict(rows["step"][0]["metrics"]).keys()
    stored = (tiny.state / "jobs/vision-1/storage.log").read_text()
    assert "checkpoint/step000059.pt" in stored
    job.stop()


def test_recommendation_learns_is_preempted_and_goes_on(tiny: Cluster) -> None:
    """Parameters that lie on one rank only are in that rank's checkpoint; numbers, loss and communicators go on."""
    job = Recommendation(evaluate_every=0, checkpoint_every=0)
    job.start(tiny)
    until(job, lambda: len(job.steps_done()) >= 40)
    assert job.preempt() == {0: 0, 1: 0}
    lines = (tiny.state / "jobs/recommendation-1/rank0.log").read_text().splitlines()
    steps = [json.loads(line) for line in lines if '"event": "step"' in line]
    job.evaluate_every = 10
    job.start(tiny)
    until(job, lambda: bool(told(job, 0, "evaluation")))
    again = told(job, 0, "step")
    assert again[0]["number"] == steps[-1]["number"] + 1
    assert told(job, 1, "resume")[0]["number"] == steps[-1]["number"]
    losses = [each["loss"] for each in steps]
    mean = {part: sum(values) / len(values) for part, values in (("first", losses[:5]), ("last", losses[-10:]))}
    gone_on = sum(each["loss"] for each in again[:10]) / 10
    assert abs(gone_on - mean["last"]) < abs(gone_on - mean["first"])
    assert told(job, 0, "evaluation")[0]["auroc"] > 0.6
    assert len(job.steps_done()) > len(steps)  # those of the first attempt, too
    job.stop()
    rows = [rows_of(tiny.state / "hosts" / host / "ring") for host in ("h1", "h2")]
    comms = [[row["comm"] for row in found["collective"]] for found in rows]
    assert set(comms[0]) == set(comms[1])
    assert len(set(comms[0])) == 2  # one of each attempt
    assert {"all_to_all", "all_reduce"} <= {row["op"] for row in rows[0]["collective"]}
    assert "resume" in {row["kind"] for row in rows[1]["event"]}


def test_what_the_control_file_asks_for_is_done(tiny: Cluster) -> None:
    job = Bert(evaluate_every=0, checkpoint_every=0, **SMALL)
    job.start(tiny)
    until(job, job.ready)
    job.tell(0, reinit_number=1, checkpoint_number=1)  # one rank asks, all do it
    until(job, lambda: bool(told(job, 0, "checkpoint")))
    job.tell(1, pause_s=0.2, pause_number=1, operator_repeats=5, operator_version="2.99", scan_mb_per_step=2)
    done = len(job.steps_done())
    until(job, lambda: len(job.steps_done()) > done + 5)
    job.tell(1, sequence_factor=2, vary_sequences=True, checkpoint_mb_per_step=1)
    done = len(job.steps_done())
    until(job, lambda: len(job.steps_done()) > done + 10)
    job.tell(1)
    job.tell(0, loop_batch=True)
    until(job, lambda: len(told(job, 0, "work")) > 10)
    assert job.preempt() == {0: 0, 1: 0}

    rows = [rows_of(tiny.state / "hosts" / host / "ring") for host in ("h1", "h2")]
    kinds = [[row["kind"] for row in found["event"]] for found in rows]
    assert kinds[0].count("communicator-init") == kinds[1].count("communicator-init") == 2
    assert (kinds[0].count("recompilation"), kinds[1].count("recompilation")) == (0, 1)
    assert any(dict(row["attributes"]).get("layer_norm") == "2.99" for row in rows[1]["event"])
    # The new group is another communicator, on both ranks alike, and the buckets of the model are seen in it.
    comms = [list(dict.fromkeys(row["comm"] for row in found["collective"])) for found in rows]
    assert comms[0] == comms[1]
    assert len(comms[0]) == 2
    second = [row["bytes"] for row in rows[0]["collective"] if row["comm"] == comms[0][1]]
    assert max(second) > 100_000
    tokens = [{row["tokens"] for row in found["step"]} for found in rows]
    assert len(tokens[0]) > 4  # they vary
    assert max(tokens[1]) == 2 * max(tokens[0])
    stored = (tiny.state / "jobs/bert-1/storage.log").read_text()
    assert "burst-rank1/" in stored
    assert "burst-rank0/" not in stored


def test_what_healthy_training_does_now_and_then(tiny: Cluster) -> None:
    """The harmless things that only a training program can do; see test_harmless for the others."""
    lab = RunningLab(tiny)
    job = lab.jobs["bert-1"] = Bert(evaluate_every=0, checkpoint_every=0, **SMALL)
    job.start(tiny)
    until(job, job.ready)
    for kind in (Recompilation, VariableSequences, Reinitialisation, ExtraCheckpoint):
        parameters = {"pause_s": 0.2} if kind is Recompilation else {}
        one = kind(job="bert-1", **parameters).chosen(lab, random.Random(1))  # type: ignore[arg-type]
        one.start(lab)
        done = len(job.steps_done())
        until(job, lambda done=done: len(job.steps_done()) > done + 5)  # type: ignore[misc]
        one.stop(lab)
    preemption = Preemption(job="bert-1")
    slow = SlowLoader(job="bert-1", rank=1, delay_s=0.1)
    slow.start(lab)
    preemption.start(lab)
    assert job.ranks == []
    assert job.poll() == {}
    preemption.stop(lab)
    until(job, job.ready)
    assert told(job, 0, "step")[0]["number"] >= 20  # went on after those steps
    assert job.attempt == 1
    assert json.loads(job.ranks[1].control.read_text()) == {"data_delay_s": 0.1}  # it is slow still
    slow.stop(lab)
    assert json.loads(job.ranks[1].control.read_text()) == {}
    job.stop()
    for host in ("h1", "h2"):
        rows = rows_of(tiny.state / "hosts" / host / "ring")
        kinds = [row["kind"] for row in rows["event"]]
        assert kinds.count("communicator-init") == 3  # at first, anew, and in the second attempt
        assert (kinds.count("recompilation"), kinds.count("resume")) == (1, 1)
        assert kinds.count("checkpoint") == (2 if host == "h1" else 0)
        assert len({row["tokens"] for row in rows["step"]}) > 3


def test_finetune_ends_by_itself_and_the_next_one_starts_from_the_same_base(tiny: Cluster) -> None:
    sizes: dict[str, Any] = {"batch": 4, "hidden": 64, "layers": 2, "steps": 6, "evaluate_every": 6}
    base = tiny.state / "jobs/finetune-base/storage"
    made = set()
    for number in (1, 2):
        job = Finetune(name=f"finetune-{number}", seed=0, **sizes)
        job.start(tiny)
        assert job.wait(START_S + END_S) == {0: 0, 1: 0}, job.ranks[0].log.read_text()
        assert len(told(job, 0, "step")) == 6
        assert len(told(job, 0, "evaluation")) == 1
        stored = (tiny.state / f"jobs/finetune-{number}/storage.log").read_text()
        assert f"finetune-{number}-checkpoint/step000005.pt" in stored
        job.stop()
        made |= {(path.name, path.stat().st_mtime_ns) for path in (base / "checkpoint").iterdir()}
    assert [name for name, _ in made] == ["step000029.pt"]  # by the first of them only
    small = (base / "finetune-2-checkpoint/step000005.pt").stat().st_size
    assert small < 3 * (base / "checkpoint/step000029.pt").stat().st_size
