"""This machine's own clock as the runner goes by it: what it was set by, what is told of it, how to go on after it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pyarrow as pa

from leadline.model.units import S
from leadline.runner.clock.steps import ClockStep, ClockSteps, clock_event
from leadline.runner.lanes import Lane

log = logging.getLogger("leadline.runner")

KEPT = 10  # steps that are remembered. Source: bound; who sets a clock that often has another trouble


class OwnClock:
    """Not thread-safe. Without `steps` (a recording) it is never set."""

    def __init__(self, steps: ClockSteps | None) -> None:
        self._steps = steps
        self.steps: tuple[ClockStep, ...] = ()  # the last ones, oldest first
        self._news: tuple[ClockStep, ...] = ()  # that are not stored yet

    @property
    def in_doubt(self) -> bool:
        """Whether it was just set forward: nothing is judged until it has proved to stay."""
        return self._steps is not None and self._steps.in_doubt

    def look(self) -> ClockStep | None:
        """The step that happened since the last look, if one did."""
        step = self._steps.look() if self._steps is not None else None
        if step is not None:
            log.warning("the clock of this machine was set %+.1f s", step.by_ns / S)
            self.steps, self._news = (*self.steps, step)[-KEPT:], (*self._news, step)[-KEPT:]
        return step

    def untold(self, tenant: str) -> pa.Table | None:
        """Events of the steps that nobody was told of, once the clock is not in doubt; None: there are none."""
        return clock_event(self._news, tenant) if self._news and not self.in_doubt else None

    def told(self) -> None:
        """These are stored."""
        self._news = ()


def set_right(lanes: Iterable[Lane], step: ClockStep, wrong_ns: int) -> None:
    """It was set back. As after a start, the present goes first; the windows of the time for which it was wrong are
    judged again after it."""
    for lane in lanes:
        lane.back_after_ns = min(lane.back_after_ns, step.at_ns)
        lane.schedule.clock_stepped(step.at_ns)
        if lane.behind is not None:
            lane.behind.clock_stepped(lane.schedule.judged_to_ns, step.at_ns)
        try:
            lane.schedule.backfill(step.at_ns - wrong_ns, lane.schedule.judged_to_ns)
        except OverflowError:  # somebody has asked for a hundred spans
            lane.schedule.set_back(step.at_ns - wrong_ns, step.at_ns)
