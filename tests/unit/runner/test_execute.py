"""Where calls run: worker processes that are killed, die, hang, and do not outlive who started them."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from typing import Any

import psutil
import pyarrow as pa
import pytest
from tests.unit.runner.toy_rows import BEGIN_NS, S, edges, flows

from leadline.analysis.spec import Analysis, Window
from leadline.model.errors import WorldError
from leadline.runner import execute
from leadline.runner.execute import InProcess, Task, WorkerProcesses
from leadline.runner.worker import CRASHED, DONE, FAILED, TIMEOUT, Outcome, digest, judged
from leadline.testing.analyses import REGISTRY, seconds, trouble, volumes

WINDOW = Window(BEGIN_NS, BEGIN_NS + 10 * S, "acme", "lab")
WAIT_S = 120


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    made = WorkerProcesses(REGISTRY)
    yield made
    made.close()


def volume_task() -> Task:
    samples = flows(range(10)).select(["flow", "rate", "frame_bytes"])
    return Task(volumes, WINDOW, [samples, edges().select(["child", "to_ns"])])


def trouble_task(asked: str, analysis: Analysis = trouble) -> Task:
    return Task(analysis, WINDOW, [flows(range(1), switch=asked).select(["switch"])])


def run(workers: WorkerProcesses, task: Task) -> Outcome:
    return workers.submit(task).result(WAIT_S)


def test_a_worker_says_what_this_process_says(workers: WorkerProcesses) -> None:
    here, there = InProcess().submit(volume_task()).result(), run(workers, volume_task())
    assert here.state == there.state == DONE
    assert here.rows == there.rows > 0
    assert here.digest == there.digest == digest(there.tables)
    assert here.tables["flow_volume"].equals(there.tables["flow_volume"])


def test_an_error_is_told_with_its_place_and_the_worker_goes_on(workers: WorkerProcesses) -> None:
    found = run(workers, trouble_task("raise"))
    assert found.state == FAILED
    assert found.error.startswith("ValueError: asked to raise (analyses.py, line ")
    assert run(workers, trouble_task("nothing")).state == DONE


def test_another_table_than_declared_is_an_error(workers: WorkerProcesses) -> None:
    found = run(workers, trouble_task("other"))
    assert (found.state, found.error) == (
        FAILED,
        "verdicts of toy-trouble: expected rows of flow_volume, got rows of event",
    )


def says(rows: object, analysis: Analysis = volumes, window: Window = WINDOW) -> Outcome:
    """What becomes of a call that returns this."""
    answer: Any = lambda *_, window: rows  # noqa: E731
    return judged(dataclasses.replace(analysis, judge=answer), window, [])


def one_volume(**more: object) -> dict[str, dict[str, object]]:
    row = {
        "flow": [1], "link": ["link:a~b"], "job": [None], "end_ns": [WINDOW.to_ns], "window_ns": [WINDOW.window_ns],
        "bytes": [1.0], "low": [1.0], "high": [1.0], **more,
    }  # fmt: skip
    return {"flow_volume": row}


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [1],
        {"flow_volume": None},
        {"flow_volume": {"flow": 3}},
        one_volume(end_ns=[float("nan")]),
        one_volume(link=[None]),
        one_volume(bytes=3.0),
        one_volume(flow=[-1]),
        one_volume(link=["\ud800"]),
        one_volume(revision=[7]),
        one_volume(end_ns=[WINDOW.to_ns - S]),
        one_volume(window_ns=[S]),
    ],
)
def test_what_cannot_be_stored_as_the_verdicts_of_the_window_is_a_failure_that_is_told(rows: object) -> None:
    found = says(rows)
    assert (found.state, found.rows) == (FAILED, 0)
    assert found.error
    assert says(one_volume()).rows == 1


def test_a_job_has_no_verdicts_on_another_job_or_of_another_tenant() -> None:
    window = dataclasses.replace(WINDOW, job="bert")

    def of(job: str, **more: object) -> Outcome:
        row = {
            "job": [job], "end_ns": [window.to_ns], "window_ns": [window.window_ns], "category": ["compute"],
            "owner": [None], "seconds": [1.0], "gpu_seconds": [1.0], "confidence": [1.0],
            "lost_seconds": [0.0], "lost_gpu_seconds": [0.0], "depth": ["steps"], **more,
        }  # fmt: skip
        return says({"ledger": row}, seconds, window)

    assert of("bert").rows == 1
    assert "expected bert, as the window has it, got gpt" in of("gpt").error
    assert "tenant: expected acme" in of("bert", tenant=["other"]).error


def test_an_analysis_that_ends_its_process_ends_nothing() -> None:
    def leave(*_: pa.Table, window: Window) -> dict[str, dict[str, object]]:
        sys.exit(3)

    assert judged(dataclasses.replace(volumes, judge=leave), WINDOW, []).error.startswith("SystemExit: 3")


def test_a_call_that_hangs_is_stopped_and_one_that_dies_fails_alone(workers: WorkerProcesses) -> None:
    asked = [workers.submit(trouble_task(each)) for each in ("hang", "nothing", "die", "nothing")]
    found = [each.result(WAIT_S) for each in asked]
    assert [each.state for each in found] == [TIMEOUT, DONE, "crashed", DONE]
    assert found[0].error == "took longer than 1 s and was stopped"
    assert "died, 2 times" in found[2].error


def processes(workers: WorkerProcesses) -> list[psutil.Process]:
    """The process of each worker, once all have started."""
    for _ in range(WAIT_S):
        found = [list(each.pool._pool_manager.worker_manager.workers) for each in workers._workers if each.pool]
        if len(found) == len(workers._workers) and all(found):
            return [psutil.Process(pid) for pids in found for pid in pids]
        time.sleep(0.1)
    raise AssertionError("the workers did not start")


@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_that_takes_no_calls_is_replaced_and_loses_none(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = WorkerProcesses(REGISTRY, number)
    try:
        asked = [workers.submit(volume_task()) for _ in range(number)]
        assert [each.result(WAIT_S).state for each in asked] == [DONE] * number
        stopped = processes(workers)[0]
        stopped.suspend()
        given = [workers.submit(volume_task()) for _ in range(2 * number)]
        monkeypatch.setattr(execute, "STUCK_S", 1.0)
        stopped.wait(WAIT_S)
        monkeypatch.setattr(execute, "STUCK_S", 60.0)  # a new one takes its time to load
        assert [each.result(WAIT_S).state for each in given] == [DONE] * 2 * number
    finally:
        workers.close()


def test_a_pool_that_breaks_while_all_is_closed_is_nobodys_error() -> None:
    """Its call had been taken back by then, which was a traceback at the end of an interrupted run."""
    workers = WorkerProcesses(REGISTRY)
    asked = workers.submit(volume_task())
    (worker,) = workers._workers
    given, broken = worker.asked, Future[Any]()
    assert given is not None
    worker.taken = broken
    workers.close()
    assert asked.result(WAIT_S).state == CRASHED
    broken.set_exception(BrokenExecutor())
    workers._ended(worker, given, broken)
    assert worker.asked is None


def test_a_call_that_no_worker_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = WorkerProcesses(REGISTRY)
    monkeypatch.setattr(execute, "STUCK_S", 0.0)  # also the one that takes its place has no time to load
    try:
        outcome = run(workers, volume_task())
        assert outcome.state == CRASHED
        assert re.fullmatch(r"no worker process took the call for \d+ s, the last of 2 times", outcome.error)
        monkeypatch.setattr(execute, "STUCK_S", 60.0)
        assert run(workers, volume_task()).state == DONE
    finally:
        workers.close()


def test_calls_of_workers_that_are_killed_are_tried_again_by_others() -> None:
    workers = WorkerProcesses(REGISTRY, 2)
    try:
        workers.start()
        first = [workers.submit(volume_task()) for _ in range(2)]
        for each in processes(workers):  # while they load, before they take what they were given
            each.kill()
        more = [workers.submit(volume_task()) for _ in range(4)]
        assert [each.result(WAIT_S).state for each in first + more] == [DONE] * 6
        for each in processes(workers):  # while they wait
            each.kill()
        last = [workers.submit(volume_task()) for _ in range(4)]
        assert [each.result(WAIT_S).state for each in last] == [DONE] * 4
    finally:
        workers.close()


def test_calls_run_beside_each_other() -> None:
    workers = WorkerProcesses(REGISTRY, 2)
    try:
        loaded = [workers.submit(volume_task()) for _ in range(2)]
        assert [each.result(WAIT_S).state for each in loaded] == [DONE] * 2
        hanging = workers.submit(trouble_task("hang"))
        assert run(workers, volume_task()).state == DONE
        assert not hanging.done()
        assert hanging.result(WAIT_S).state == TIMEOUT
    finally:
        workers.close()


def test_what_is_closed_answers_and_takes_nothing_more() -> None:
    workers = WorkerProcesses(REGISTRY)
    running = [workers.submit(trouble_task("hang")) for _ in range(3)]
    workers.close()
    assert [each.result(WAIT_S).state for each in running] == ["crashed"] * 3
    assert run(workers, volume_task()).error == "the workers were stopped"
    workers.close()


def test_inputs_are_let_go(workers: WorkerProcesses) -> None:
    run(workers, volume_task())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run(workers, volume_task())
    assert len(os.listdir("/proc/self/fd")) <= before + 1


PARENT = """
import sys
from leadline.runner.execute import WorkerProcesses
from tests.unit.runner.test_execute import trouble_task, volume_task
workers = WorkerProcesses("leadline.testing.analyses:ALL")
workers.submit(volume_task()).result()
workers.submit(trouble_task("hang"))
print("running", flush=True)
sys.stdin.read()
"""


def test_workers_do_not_outlive_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    assert parent.stdin
    assert parent.stdout.readline() == "running\n"
    children = psutil.Process(parent.pid).children(recursive=True)
    working = [each for each in children if "spawn_main" in " ".join(each.cmdline())]
    assert working
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    began = time.monotonic()
    assert not psutil.wait_procs(working, 10)[1]
    assert time.monotonic() - began < 5
    parent.stdin.close()
    parent.stdout.close()


def test_a_digest_is_of_values_alone() -> None:
    table = run_here(volume_task()).tables["flow_volume"]
    again = pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert digest({"flow_volume": table}) == digest({"flow_volume": again})
    assert digest({"flow_volume": table}) == digest({"flow_volume": chunked})
    assert digest({"flow_volume": table}) != digest({"flow_volume": table.slice(1)})


def run_here(task: Task) -> Outcome:
    return InProcess().submit(task).result()


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("there is none", "need a writable .*there is none, and it is not; mount a tmpfs there"),
        ("/tmp", "no process can be started for analyses: .*Too many open files.*; see how many files"),
    ],
)
def test_a_machine_that_can_start_no_process_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, folder: str, words: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("pebble.ProcessPool", fails)
    monkeypatch.setattr(execute, "SHARED", folder)
    workers = WorkerProcesses(REGISTRY)
    with pytest.raises(WorldError, match=words):
        workers.start()
    outcome = run(workers, volume_task())
    assert outcome.state == "crashed", "a call is answered all the same"
    assert re.search(words, outcome.error)
    workers.close()
