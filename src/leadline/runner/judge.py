"""One window of one analysis, from its rows to its outcomes: what a live run, a replay and an offline run share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from leadline.analysis.spec import Analysis, Window
from leadline.runner.execute import Executor, Task
from leadline.runner.load import Rows, given, rows_in
from leadline.runner.parts import calls, goes_on
from leadline.runner.together import Together
from leadline.runner.worker import Outcome, of_tenant

LOOK_EVERY_S = 0.2  # how soon a wait notices that it is to stop


@dataclass(frozen=True, slots=True)
class Judged:
    """One call: what it judged, what came of it, how many rows it read, and since when (a monotonic clock, ns)."""

    window: Window
    outcome: Outcome
    rows_in: int
    began_ns: int


class StoppedError(Exception):
    """The wait for an outcome was given up because the process stops."""


def judge(
    analysis: Analysis,
    end_ns: int,
    rows: Rows,
    executor: Executor,
    provider: str,
    *,
    at_once: int = 1,
    stopping: Callable[[], bool] = lambda: False,
    wanted: Callable[[Window], bool] = lambda _: True,
) -> Iterator[Judged]:
    """Judge one window: every cluster or job that has rows in it and is `wanted`. Nothing comes of a window without
    rows.

    At most `at_once` calls are loaded or run at a time, so that a thousand jobs do not fill the memory.
    Errors: StoreError, RefusedError("limit") of loading; StoppedError.
    """
    running: deque[tuple[Window, int, int, Future[Outcome]]] = deque()
    rows = Together(rows)
    windows = [each for each in calls(analysis, end_ns - analysis.window_ns, end_ns, rows, provider) if wanted(each)]
    rows.expect(len(windows))
    for window in windows:
        began_ns = time.monotonic_ns()
        tables = given(analysis, window, rows)
        told = [table for table, read in zip(tables, analysis.reads, strict=True) if not read.valid or goes_on(read)]
        if told and not rows_in(told):  # by their host's clock they were in the window, by cluster time they are not
            continue
        task = Task(analysis, window, tables)
        running.append((window, rows_in(tables), began_ns, executor.submit(task)))
        if len(running) >= at_once:
            yield _awaited(*running.popleft(), stopping)
    while running:
        yield _awaited(*running.popleft(), stopping)


def _awaited(window: Window, rows: int, began_ns: int, future: Future[Outcome], stopping: Callable[[], bool]) -> Judged:
    while True:
        try:
            outcome = future.result(LOOK_EVERY_S)
        except TimeoutError:
            outcome = None
        if stopping():
            raise StoppedError
        if outcome is not None:
            return Judged(window, of_tenant(outcome, window.own), rows, began_ns)
