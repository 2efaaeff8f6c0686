"""One window of one analysis, from its rows to its outcomes: what a live run, a replay and an offline run share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leadline.analysis.spec import Analysis, Window
from leadline.runner.execute import Executor, Task
from leadline.runner.load import Rows, given, rows_in
from leadline.runner.parts import calls, goes_on
from leadline.runner.together import Together
from leadline.runner.worker import Outcome, of_tenant


@dataclass(frozen=True, slots=True)
class Judged:
    """One call: what it judged, what came of it, how many rows it read, and since when (a monotonic clock, ns)."""

    window: Window
    outcome: Outcome
    rows_in: int
    began_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call whose tables are loaded."""

    task: Task
    rows_in: int
    began_ns: int  # a monotonic clock

    def judged(self, outcome: Outcome) -> Judged:
        """What came of it."""
        return Judged(self.task.window, of_tenant(outcome, self.task.window.own), self.rows_in, self.began_ns)


class Calls:
    """The calls that judge a window: one for every cluster or job that has rows in it and is `wanted`; none without
    rows. Each is loaded when it is asked for, so that a thousand jobs do not fill the memory.

    Errors, of construction and of `load`: StoreError, RefusedError("limit").
    """

    def __init__(
        self,
        analysis: Analysis,
        end_ns: int,
        rows: Rows,
        provider: str,
        wanted: Callable[[Window], bool] = lambda _: True,
    ) -> None:
        self._analysis, self._rows = analysis, Together(rows)
        every = calls(analysis, end_ns - analysis.window_ns, end_ns, self._rows, provider)
        self._left = [window for window in reversed(every) if wanted(window)]
        self._rows.expect(len(self._left))

    @property
    def left(self) -> int:
        """How many are not loaded yet."""
        return len(self._left)

    def load(self) -> Call | None:
        """Load the next one; None: there are no rows of it after all."""
        began_ns, window = time.monotonic_ns(), self._left.pop()
        reads = self._analysis.reads
        tables = given(self._analysis, window, self._rows)
        told = [table for table, read in zip(tables, reads, strict=True) if not read.valid or goes_on(read)]
        if told and not rows_in(told):  # by their host's clock they were in the window, by cluster time they are not
            return None
        return Call(Task(self._analysis, window, tables), rows_in(tables), began_ns)


def judge(analysis: Analysis, end_ns: int, rows: Rows, executor: Executor, provider: str) -> Iterator[Judged]:
    """Judge one window, one call after another. Nothing comes of a window without rows.

    Errors: StoreError, RefusedError("limit") of loading.
    """
    found = Calls(analysis, end_ns, rows, provider)
    while found.left:
        call = found.load()
        if call is not None:
            yield call.judged(executor.submit(call.task).result())
