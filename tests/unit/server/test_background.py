"""Whatever a background part raises, the server goes on: every place where something is begun beside the requests.

The places are read from the source, so that a new one without a test here fails.
"""

from __future__ import annotations

import ast
import asyncio
import threading
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.senders.running import wait_for

from leadline.ingest.config import IngestConfig, ScrapeJob, SflowConfig
from leadline.ingest.counts import Counts
from leadline.ingest.intake import Intake
from leadline.ingest.lanes import Lane
from leadline.ingest.limits import Room
from leadline.ingest.scrape import Scraper, static_targets
from leadline.ingest.sflow_listener import SflowListener
from leadline.ingest.sources import Sources
from leadline.model.counters import Counter, counter
from leadline.model.errors import DataError, LeadlineError, RefusedError, StoreError
from leadline.model.principal import Principal
from leadline.runner import execute
from leadline.runner.calls import ray_executor
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.run import Runner
from leadline.server import main
from leadline.server.analyses import life_findings
from leadline.server.background import kernels
from leadline.server.background.keeping import Background, findings, in_order
from leadline.server.config import Flag, load
from leadline.server.main import ServerProcess
from leadline.server.memory.watch import MemoryWatch
from leadline.server.supervisor import CANNOT_START, CRASHED
from leadline.store import Store, StoreConfig
from leadline.store.disk.watch import DiskWatch
from leadline.testing import MemoryStore
from leadline.testing.analyses import volumes

SOURCE = Path(__file__).resolve().parents[3] / "src" / "leadline"
BEGINS = {"create_task", "ensure_future", "run_in_executor", "to_thread", "Thread", "Timer", "ThreadPoolExecutor",
          "ProcessPool", "ProcessPoolExecutor", "Process"}  # fmt: skip

ANSWERED = "what it raises is the answer of the request that waits for it"
TOLD = "what it raises is told by `progress`; nothing is taken in where a recording plays"
WORKER = "what a call raises is its outcome; a worker that dies is replaced (tests/unit/runner/test_execute.py)"
# Where something is begun beside the requests, and which test below holds it against every error.
COVERED = {
    "server/main.py ServerProcess._serve create_task": "test_no_part_ends_the_server",
    "server/main.py ServerProcess.__init__ ThreadPoolExecutor": ANSWERED,
    "server/metrics/verdicts.py Verdicts.run to_thread": "test_no_part_ends_the_server",
    "server/background/kernels.py Kernels.start Thread": "test_compiling_goes_on",
    "server/background/kernels.py Kernels.run Thread": "test_compiling_goes_on",
    "server/background/keeping.py Background.step run_in_executor": "test_no_part_ends_the_server",
    "server/background/keeping.py in_order run_in_executor": "test_a_stop_stops_everything",
    "alerts/alerts.py Alerts.run create_task": "test_no_part_ends_the_server",
    "alerts/alerts.py Alerts.run run_in_executor": "test_no_part_ends_the_server",
    "alerts/delivery.py Delivery._keep to_thread": "Alerts._kept goes on (tests/unit/alerts/test_alerts.py)",
    "store/asking/behind.py Behind.begin Thread": ANSWERED,
    "server/replay_process.py ReplayProcess.run create_task": TOLD,
    "server/replay_process.py ReplayProcess.run run_in_executor": TOLD,
    "runner/replay.py Replay.__init__ Thread": TOLD,
    "server/shared.py SharedAnswers.answer ensure_future": ANSWERED,
    "server/metrics/cpu.py _looked_at Process": "this process as psutil sees it; none is begun",
    "server/memory/watch.py MemoryWatch.__init__ Thread": "test_the_watch_of_memory_goes_on",
    "runner/run.py Runner.__init__ Thread": "test_the_runner_goes_on",
    "runner/execute.py WorkerProcesses._pool_of ProcessPool": WORKER,
    "runner/execute.py WorkerProcesses.submit Thread": "test_the_watch_of_the_workers_goes_on",
    "runner/calls/ray_executor.py RayExecutor.start Thread": "test_what_takes_answers_from_ray_goes_on",
    "runner/calls/ray_executor.py RayExecutor._connect Process": "driver: tests/unit/runner/test_ray.py",
    "store/disk/watch.py DiskWatch.__init__ Thread": "test_the_watch_of_the_disk_goes_on",
    "ingest/limits.py Turns.run run_in_executor": ANSWERED,
    "server/main.py _Listener.shutdown create_task": "test_a_stop_stops_everything",
    "ingest/grpc_server.py OtlpGrpcServer.start ThreadPoolExecutor": ANSWERED,
    "ingest/together.py Gathering._close ensure_future": ANSWERED,
    "ingest/lanes.py Lane.__init__ Thread": "test_a_lane_goes_on",
    "ingest/scrape.py Scraper._follow create_task": "test_a_scrape_goes_on",
    "ingest/scrape.py Scraper._read run_in_executor": "test_a_scrape_goes_on",
    "ingest/sflow_listener.py SflowListener.run ThreadPoolExecutor": "test_sflow_goes_on",
    "ingest/sflow_listener.py SflowListener.run run_in_executor": "test_sflow_goes_on",
}


def begun(path: Path) -> Iterator[str]:
    """`file Class.function call` of every place in a file that begins something beside its caller."""

    def visit(node: ast.AST, within: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            within = (*within, node.name)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in BEGINS:
                yield f"{path.relative_to(SOURCE)} {'.'.join(within)} {name}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, within)

    yield from visit(ast.parse(path.read_text()), ())


def test_every_place_is_covered() -> None:
    found = {
        place
        for package in ("server", "alerts", "views", "explain", "runner", "ingest", "store")
        for path in sorted((SOURCE / package).rglob("*.py"))
        for place in begun(path)
    }
    assert found == set(COVERED), "add what is new to COVERED, with a test that it goes on whatever it raises"
    for name in COVERED.values():
        assert not name.startswith("test_") or callable(globals().get(name)), name


def every_error(kind: type[Exception] = LeadlineError) -> list[Exception]:
    """One of each error of Leadline's tree."""
    made: Exception
    if kind is DataError:
        made = DataError("there", "this", "that")
    elif kind is RefusedError:
        made = RefusedError("limit", "Code: 241. memory limit")
    else:
        made = kind("it failed")
    below = [each for each in kind.__subclasses__() if each.__module__ == kind.__module__]
    return [made, *(error for each in below for error in every_error(each))]


ERRORS = [*every_error(), RuntimeError("a bug of ours"), MemoryError()]
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


class Counting:
    """A function that counts, and what it counted."""

    def __init__(self) -> None:
        self.counted: Tally[str] = Tally()

    def __call__(self, which: Counter, amount: int) -> None:
        self.counted[f"{which.family}/{which.reason}"] += amount


def failing_first(error: Exception) -> tuple[Callable[[], None], threading.Event]:
    """Something that raises when it is called first, and an event that is set when it is called again."""
    calls, again = iter(range(10**6)), threading.Event()

    def call(*_: object, **__: object) -> None:
        if next(calls) == 0:
            raise error
        again.set()

    return call, again


async def until(event: threading.Event) -> None:
    """Wait without holding up the loop. Errors: TimeoutError."""
    async with asyncio.timeout(10):
        while not event.is_set():
            await asyncio.sleep(0.001)


# --- the server ---


@each_error
def test_no_part_ends_the_server(tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "create_api", lambda *_: None)  # which takes half a second
    made = ServerProcess(load(None, {}, [Flag("--store", "store", "path", str(tmp_path))]))
    made._listeners = []
    again: list[threading.Event] = []

    def part() -> Callable[[], Awaitable[None]]:
        call, event = failing_first(error)
        again.append(event)

        async def run() -> None:
            call()
            await asyncio.Event().wait()

        return run

    def step() -> Callable[[], None]:
        call, event = failing_first(error)
        again.append(event)
        return call

    monkeypatch.setattr(main, "MAINTAIN_EVERY_S", 0.001)
    monkeypatch.setattr("leadline.server.background.keeping.WAIT_S_MAX", 0.0)
    monkeypatch.setattr(asyncio, "sleep", _quick(asyncio.sleep))
    monkeypatch.setattr(made._scraper, "run", part())
    monkeypatch.setattr(made._sflow, "run", part())
    monkeypatch.setattr(made.alerts, "run", part())
    monkeypatch.setattr(made.intake, "save_streams", step())
    monkeypatch.setattr(made.store, "maintain", step())
    monkeypatch.setattr(made.verdicts, "refresh", step())

    async def served() -> None:
        made._compiled.set()  # scraper and sFlow wait for their scanners
        serving = asyncio.create_task(made._serve([]))
        for event in again:
            await until(event)
        assert not serving.done()
        made.stop()
        await asyncio.wait_for(serving, 10)

    asyncio.run(served())
    assert made.ready
    totals = made.counts.totals()
    for reason in ("scraper", "sflow", "alerts", "metrics"):
        assert totals[counter("background_failed", reason)] == 1
    for reason in ("streams", "rollup"):
        assert totals[counter("store_failed", reason)] == 1
    told = {finding["text"].split()[2] for finding in findings(made.background.states())}
    assert told == {"scraper", "sflow", "alerts", "metrics", "streams", "rollup"}


@each_error
def test_compiling_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    call, then = failing_first(error)[0], threading.Event()
    monkeypatch.setattr(kernels.subprocess, "Popen", lambda *_, **__: call())
    monkeypatch.setattr(kernels, "is_compiled", lambda kind: False)
    monkeypatch.setattr(kernels, "_note", lambda kind: pytest.fail("what failed is not compiled"))
    failing = kernels.Kernels()

    def begin() -> None:
        then.set()
        raise error

    failing.start(begin)
    assert then.wait(10), "the server works without: whoever needs a kernel first compiles it"
    assert failing.failed


def _quick(sleep: Callable[[float], Awaitable[None]]) -> Callable[[float], Awaitable[None]]:
    async def slept(seconds: float) -> None:
        await sleep(min(seconds, 0.001))

    return slept


@pytest.mark.parametrize(("ready", "code"), [(False, CANNOT_START), (True, CRASHED)])
@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_it_cannot_start_only_before_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: bool, code: int, error: Exception
) -> None:
    async def run(process: ServerProcess) -> None:
        process.ready = ready
        raise error

    monkeypatch.setattr(main, "create_api", lambda *_: None)  # which takes half a second
    monkeypatch.setattr(ServerProcess, "run", run)
    flags = [Flag("--store", "store", "path", str(tmp_path))]
    assert main.run_server(None, {}, flags) == code


def test_a_part_that_fails_on_waits_longer_and_is_told_as_not_running() -> None:
    now_s, slept, counting = [0.0], list[float](), Counting()
    background = Background(counting, lambda: now_s[0])

    async def fails() -> None:
        raise StoreError("no")

    async def sleep(seconds: float) -> None:
        (told,) = findings(background.states())
        assert (told["state"], "does not run: StoreError: no" in told["text"]) == ("critical", True)
        slept.append(seconds)
        now_s[0] += seconds
        if len(slept) == 9:
            raise asyncio.CancelledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("leadline.server.background.keeping.asyncio.sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(background.keep(counter("background_failed", "alerts"), fails))
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert counting.counted == {"background_failed/alerts": 9}


@each_error
def test_a_stop_stops_everything(error: Exception) -> None:
    stopped: list[str] = []

    def fails() -> None:
        raise error

    steps = [("first", lambda: stopped.append("first")), ("second", fails), ("third", lambda: stopped.append("third"))]
    assert asyncio.run(in_order(steps)) == [error]
    assert stopped == ["first", "third"]


@each_error
def test_the_stop_of_the_intake_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts()
    intake = Intake(IngestConfig(), MemoryStore(), counts, Sources(counts))  # type: ignore[arg-type]
    intake.start()

    def fails(by_ns: int) -> None:
        raise error

    monkeypatch.setattr(intake, "save_streams", fails)
    intake.stop()
    assert counts.totals()[counter("store_failed", "streams")] == 1


# --- the runner ---


class BrokenStore:
    """A store whose first calls of one kind raise; all others find nothing."""

    config = StoreConfig(url="http://nowhere")

    def __init__(self, error: Exception, times: int, where: str) -> None:
        self.error, self.left, self.where = error, times, where
        self.asked = 0

    def query(self, sql: str, parameters: Any = None) -> Any:
        raise AssertionError("the parts that ask are replaced")

    def call(self, where: str, answer: Any) -> Callable[..., Any]:
        def called(*_: object, **__: object) -> Any:
            self.asked += where == self.where
            if where == self.where and self.left:
                self.left -= 1
                raise self.error
            return answer

        return called


def hurried(stop: threading.Event) -> Callable[[float], bool]:
    """A `wait` of an event that waits a millisecond: its threads still see that they are to end."""

    def wait(_: float) -> bool:
        time.sleep(0.001)
        return stop.is_set()

    return wait


PLACES = ("_executor.start", "_resume", "step", "close_unwatched")


@pytest.mark.parametrize("place", PLACES)
@each_error
def test_the_runner_goes_on(error: Exception, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of its thread, each with every error; the audit's was a limit of the engine in a query of ours."""
    store, counting = BrokenStore(error, 2, place), Counting()
    runner = Runner(RunnerConfig(), store, counting, analyses=[volumes], executor=InProcess())  # type: ignore[arg-type]
    for name in PLACES[1:]:
        monkeypatch.setattr(runner, name, store.call(name, False))
    monkeypatch.setattr(runner._executor, "start", store.call(PLACES[0], None))
    monkeypatch.setattr(runner._stop, "wait", hurried(runner._stop))
    runner.start()
    wanted = 3
    wait_for("the third try", lambda: store.asked >= wanted, 10)
    wait_for("a good look", lambda: runner.life().failing == 0, 10)
    assert runner.life().alive
    assert list(life_findings(runner.life())) == []
    runner.stop()
    # An error is told under what it is about: the store's, or a bug of ours.
    assert sum(counting.counted.values()) == 2
    of_store = isinstance(error, StoreError | RefusedError)
    assert counting.counted["store_failed/analysis" if of_store else "background_failed/runner"] == 2


@each_error
def test_how_senders_are_is_stored_after_any_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread of its own, which nothing may end: without its rows no silence is ever told."""
    call, again = failing_first(error)
    runner = Runner(RunnerConfig(), BrokenStore(error, 0, ""), Counting(), analyses=[volumes], executor=InProcess())  # type: ignore[arg-type]
    monkeypatch.setattr("leadline.runner.run.keep_states", call)
    monkeypatch.setattr("leadline.runner.run.SENDERS_EVERY_NS", 10**6)
    for name in PLACES[1:]:
        monkeypatch.setattr(runner, name, lambda: False)
    runner.start()
    assert again.wait(10)
    runner.stop()


def test_what_can_never_be_resumed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store, counting = BrokenStore(RefusedError("limit", "241"), 10**6, "_resume"), Counting()
    runner = Runner(RunnerConfig(), store, counting, analyses=[volumes], executor=InProcess())  # type: ignore[arg-type]
    stepped = threading.Event()

    def step() -> bool:
        stepped.set()
        return False

    monkeypatch.setattr(runner, "_resume", store.call("_resume", None))
    monkeypatch.setattr(runner, "step", step)
    monkeypatch.setattr(runner, "close_unwatched", lambda: 0)
    monkeypatch.setattr(runner, "_keep_senders", lambda: None)
    monkeypatch.setattr(runner._stop, "wait", hurried(runner._stop))
    runner.start()
    assert stepped.wait(10)
    runner.stop()
    assert store.asked == 3


@each_error
def test_the_watch_of_the_disk_goes_on(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.store.disk.watch.FREE_EVERY_S", 0.001)
    monkeypatch.setattr("leadline.store.disk.watch.FAILED_WAIT_S", 0.001)
    counting = Counting()
    watch = DiskWatch(Store(StoreConfig(path=str(tmp_path))), counting)
    call, again = failing_first(error)
    monkeypatch.setattr(watch, "look_aside", lambda: None)
    monkeypatch.setattr(watch, "look", call)
    watch.start()
    assert again.wait(10)
    watch.stop()
    assert counting.counted == {"background_failed/disk": 1}


@each_error
@pytest.mark.parametrize("part", ["look", "_trim"])
def test_the_watch_of_memory_goes_on(error: Exception, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.server.memory.watch.LOOK_EVERY_S", 0.001)
    monkeypatch.setattr("leadline.server.memory.watch.TRIM_EVERY_S", 0.001)
    counting = Counting()
    watch = MemoryWatch(1 << 40, Room(1 << 20, 1), [], counting)
    call, again = failing_first(error)
    monkeypatch.setattr(watch, part, call)
    watch.start()
    assert again.wait(10)
    watch.stop()
    assert counting.counted == {"background_failed/memory": 1}


@each_error
def test_the_watch_of_the_workers_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fail, again = failing_first(error)
    workers = execute.WorkerProcesses()
    monkeypatch.setattr(execute, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(workers, "_replace_stuck", fail)
    watch = threading.Thread(target=workers._watch, daemon=True)
    watch.start()
    assert again.wait(10)
    workers.close()
    watch.join(10)
    assert not watch.is_alive()


@each_error
def test_what_takes_answers_from_ray_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fail, again = failing_first(error)
    monkeypatch.setattr(ray_executor, "RETRY_S", 0.0)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    executor = ray_executor.RayExecutor("auto")
    monkeypatch.setattr(executor, "_connect", lambda: None)
    monkeypatch.setattr(executor, "_take_in", fail)
    executor.start()
    assert again.wait(10)
    executor.close()
    assert executor._thread is not None
    assert not executor._thread.is_alive()


def test_a_runner_that_is_dead_or_fails_on_is_told() -> None:
    well = SimpleNamespace(runs=True, alive=True, quiet_s=1.0, failing=0, last_error="", well=True)
    assert list(life_findings(well)) == []  # type: ignore[arg-type]
    for changed in ({"alive": False}, {"quiet_s": 601.0}, {"failing": 5}):
        life = SimpleNamespace(**{**vars(well), **changed, "well": False})
        (told,) = life_findings(life)  # type: ignore[arg-type]
        assert told["state"] == "critical"
        assert told["text"].startswith("no analysis is running")


# --- the ways in ---


@each_error
def test_a_lane_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.lanes.FIRST_WAIT_S", 0.0)
    broken = [True]

    def append(batches: list[int]) -> None:
        if broken[0]:
            raise error

    failures: list[StoreError] = []
    lane: Lane[int] = Lane("test", append, batch_rows=10, linger_s=0.0, queue_rows_max=10, queue_bytes_max=100,
                           on_failure=failures.append)  # fmt: skip
    lane.start()
    with pytest.raises(StoreError):  # so that the sender is answered 503 and keeps what it has
        lane.offer(1, 1, 1).result(10)
    # A limit that no user asked into may pass, as the store's own errors may; a bug does not.
    assert len(failures) == (4 if isinstance(error, StoreError | RefusedError) else 1)
    broken[0] = False
    lane.offer(2, 1, 1).result(10)
    lane.stop()


@each_error
def test_a_scrape_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts()
    intake = Intake(IngestConfig(), MemoryStore(), counts, Sources(counts))  # type: ignore[arg-type]
    jobs = [ScrapeJob(job="node", targets=["127.0.0.1:1"], interval_s=1.0)]
    scraper = Scraper(jobs, intake, None, Principal())  # type: ignore[arg-type]
    call, again = failing_first(error)

    async def read(client: object, page: object) -> None:
        call()

    monkeypatch.setattr(scraper, "_read", read)
    monkeypatch.setattr(asyncio, "sleep", _quick(asyncio.sleep))

    async def scraped() -> None:
        (target,) = static_targets(jobs)
        reading = asyncio.create_task(scraper._keep_reading(None, target))  # type: ignore[arg-type]
        await until(again)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(scraped())
    assert counts.totals()[counter("background_failed", "scraper")] == 1


@each_error
def test_sflow_goes_on(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of senders that cannot be looked at keeps no datagram waiting; a thread that ended is begun again."""
    monkeypatch.setattr("leadline.ingest.sflow_listener.IDLE_S", 0.01)
    counts = Counts()
    intake = Intake(IngestConfig(), MemoryStore(), counts, Sources(counts))  # type: ignore[arg-type]
    listener = SflowListener(SflowConfig(port=0, accept_unknown=True), "127.0.0.1", intake)
    refresh, _ = failing_first(error)
    monkeypatch.setattr(listener._taker, "refresh", refresh)
    taken = threading.Event()
    monkeypatch.setattr(listener._taker, "take", lambda datagrams: taken.set())
    receive, again = failing_first(error)
    whole = listener._receive

    def received() -> None:
        try:
            receive()
        except BaseException:
            listener._queue.put(None)
            raise
        whole()

    monkeypatch.setattr(listener, "_receive", received)
    listener.open()
    background = Background(counts.add)

    async def listened() -> None:
        kept = asyncio.create_task(background.keep(counter("background_failed", "sflow"), listener.run, 0.001))
        await until(again)
        async with asyncio.timeout(10):
            while not listener.addresses:
                await asyncio.sleep(0.001)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=listener.addresses[0])
        transport.sendto(b"\0" * 40)
        await until(taken)
        transport.close()
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)

    asyncio.run(listened())
    assert counts.totals()[counter("background_failed", "sflow")] == 2  # the files, and the thread
