"""The runner in virtual time: one seed says when rows come, which calls of an analysis or of the store fail, when the
runner dies, and when the clock is set back.

A run has 200 s of rows and judges about 160 windows, some of them more than once. Not simulated: a clock that is
wrong at the start or is set forward; clock steps with watermarks; rows later than `late_s`; the runner's own thread
and real worker processes (tests/unit/runner has these). A call that failed is not tried again by itself, nor is it
told after a death which window was to be judged again: where those happen, verdicts are compared after the whole was
back-filled.
"""

from __future__ import annotations

import random
from concurrent.futures import Future
from typing import Any, cast

import pyarrow as pa
from tests.doubles.failing_store import FailingStore
from tests.doubles.shuffled_calls import ShuffledCalls
from tests.unit.runner.toy_rows import BEGIN_NS, S, flows, steps

from leadline.model.errors import StoreError
from leadline.model.tables import BY_NAME
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess, Task
from leadline.runner.run import Runner
from leadline.runner.worker import CRASHED, TIMEOUT, Outcome
from leadline.store import Store
from leadline.store.bundle_rows import in_order
from leadline.testing import FakeClock
from leadline.testing.analyses import TOYS

SECONDS = 200  # of rows
LATE_S_MAX = 40  # of the 60 s that late rows change windows
SETTLED_S = 200  # longer than rows come late and wait for more
WRITTEN = ("flow_volume", "ecmp_group", "ledger")


class FailingCalls(InProcess):
    """Calls in this process, of which a share crash or hang until they are stopped."""

    def __init__(self, random_: random.Random, share: float) -> None:
        self._random, self.share, self.failed = random_, share, 0

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        if self._random.random() >= self.share:
            return super().submit(task)
        self.failed += 1
        done: Future[Outcome] = Future()
        done.set_result(Outcome(self._random.choice([CRASHED, TIMEOUT]), {}, error="simulated"))
        return done


class RunnerWorld:
    """`troubles`: calls crash or hang, and the runner dies now and then. `forgets`: late rows are not told. Of several
    `workers` each answers when it is drawn, some of them seconds later."""

    def __init__(
        self, store: Store, seed: int, *, troubles: bool, forgets: bool = False, loses: bool = False, workers: int = 1
    ) -> None:
        self.random, self.troubles, self.forgets = random.Random(seed), troubles, forgets
        self.store = FailingStore(store, self.random, 0.01, loses_revisions=loses)
        share = 0.05 if troubles else 0.0
        self.calls = FailingCalls(self.random, share) if workers == 1 else ShuffledCalls(self.random, share)
        self.workers = workers
        self.clock, self.elapsed = FakeClock(BEGIN_NS), FakeClock(0)
        self.late = self.deaths = self.clock_steps = 0
        self.runner = self._started()

    def _started(self) -> Runner:
        runner = Runner(
            RunnerConfig(workers=self.workers), cast(Any, self.store), lambda *_: None, self.clock, TOYS, self.calls,
            elapsed_ns=self.elapsed, waited_s=lambda: self.elapsed() / S,
        )  # fmt: skip
        runner.prepare()
        return runner

    def run(self) -> None:
        """Rows come, second by second, some late; then all is quiet."""
        come: dict[int, list[tuple[str, pa.Table, bool]]] = {}
        for second in range(SECONDS):
            for name, rows in (
                ("flow_sample", flows(range(second, second + 1))),
                ("step", steps(range(second, second + 1))),
            ):
                late_s = self.random.randint(15, LATE_S_MAX) if self.random.random() < 0.05 else 0
                self.late += bool(late_s)
                come.setdefault(second + 1 + late_s, []).append((name, rows, bool(late_s)))
        for second in range(SECONDS + SETTLED_S):
            for each in come.get(second, []):
                self._come(*each)
            if second < SECONDS:
                self._trouble()
            self._go()
        self.store.share = self.calls.share = 0.0
        if self.troubles:
            self.runner.backfill(BEGIN_NS - 60 * S, BEGIN_NS + (SECONDS + 60) * S)
        for _ in range(SETTLED_S):
            self._go()

    def _come(self, name: str, rows: pa.Table, late: bool) -> None:
        self.store.store.append(BY_NAME[name], rows)
        if not (late and self.forgets):
            self.runner.touched("acme", "lab", BY_NAME[name], {"rows": rows}, rows.num_rows)

    def _trouble(self) -> None:
        if self.random.random() < 0.01:
            self.clock.advance(-self.random.randint(1, 5))
            self.clock_steps += 1
        if self.troubles and self.random.random() < 0.01:
            self.deaths += 1
            self.runner.stop()
            self.runner = self._started()

    def _answered(self) -> bool:
        """Whether one more of the calls that wait is answered, at this time."""
        if not isinstance(self.calls, ShuffledCalls):
            return False
        return (self.store.share == 0.0 or self.random.random() < 0.7) and self.calls.answer()

    def _go(self) -> None:
        self.clock.advance(1)
        self.elapsed.advance(1)
        try:
            self.runner.look_at_clock()
            while self.runner.step() or self._answered():
                pass
        except StoreError:  # it is tried again, as the runner's thread does
            pass


def quiet(store: Store) -> None:
    """All rows are there, and each window is judged once."""
    clock = FakeClock(BEGIN_NS)
    runner = Runner(RunnerConfig(), store, lambda *_: None, clock, TOYS, InProcess(), from_ns=BEGIN_NS - 60 * S)
    runner.prepare()
    store.append(BY_NAME["flow_sample"], flows(range(SECONDS)))
    store.append(BY_NAME["step"], steps(range(SECONDS)))
    clock.advance(SECONDS + SETTLED_S)
    while runner.step():
        pass
    runner.stop()


def verdicts(store: Store) -> dict[str, list[dict[str, Any]]]:
    """What plain SQL gives, without revisions."""
    found = {}
    for name in WRITTEN:
        table = BY_NAME[name]
        columns = ", ".join(column.name for column in table.columns)
        rows = in_order(table, store.query(f"SELECT {columns} FROM leadline.{name}"))
        found[name] = rows.drop_columns(["revision"]).to_pylist()
    return found
