"""How analyses do: their states, and what is wrong with them for `leadline doctor`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from leadline.runner.clock.steps import ClockStep
from leadline.runner.lanes import FAILING_MAX, AnalysisState, Life
from leadline.runner.run import Runner

HIDDEN = "its last window failed; the role operator can see why"
# Counts over all tenants: from their growth one could read how much another one sends.
_OF_ALL = dict.fromkeys(("windows", "failures", "revisions", "late_rows", "waiting", "past", "rows_in", "rows_out"), 0)


def told(runner: Runner | None) -> list[dict[str, Any]]:
    """The states of analyses as plain values."""
    return [] if runner is None else [dataclasses.asdict(state) for state in runner.states()]


def told_to_tenants(runner: Runner | None) -> list[dict[str, Any]]:
    """The same for anyone but the operator: without counts over all tenants, and without errors, which quote rows."""
    return [
        {**each, **_OF_ALL, "last_took_s": None, "last_error": HIDDEN if each["last_error"] else ""}
        for each in told(runner)
    ]


def findings(states: Sequence[AnalysisState], up_s: float, *, recorded: bool = False) -> Iterator[dict[str, str]]:
    """What is wrong with analyses: those whose last window failed, and, in one line, those that do not keep up.

    `up_s`: how long Leadline runs. What lies farther back than its start was waiting for it, and is caught up with.
    """
    for each in states:
        if each.state == "failed":
            yield {
                "state": "warning",
                "text": f"analysis {each.name} failed: {each.last_error}",
                "do": "Report it; `leadline backfill` analyses the window again.",
            }
    behind = [each for each in states if each.state == "behind"]
    if behind:
        last = max(behind, key=lambda each: each.lag_s or 0.0)
        lag_s, waiting = last.lag_s or 0.0, sum(each.waiting for each in behind)
        windows = f"{waiting} window{'' if waiting == 1 else 's'} left"
        if recorded:
            text, do = f"analysing the recording: {windows}", "Wait: what is found is shown as it is found."
        elif lag_s > up_s:
            text = f"catching up with what was stored before the start, {up_s:.0f} s ago: {windows}"
            do = "Wait; give Leadline more CPU only if this number does not fall."
        else:
            of = last.name if len(behind) == 1 else f"{len(behind)} of {len(states)}, the farthest {last.name}"
            text = f"analyses are behind: {of}, {lag_s:.0f} s, {windows}"
            do = "Give Leadline more CPU, or raise runner.workers."
        yield {"state": "warning", "text": text, "do": do}
    past = sum(each.past for each in states)
    if past:
        yield {
            "state": "warning",
            "text": f"{past} window{'' if past == 1 else 's'} of the past left to analyse: what closes now goes first",
            "do": "Wait; give Leadline more CPU if this number does not fall.",
        }


def life_findings(life: Life) -> Iterator[dict[str, str]]:
    """What is wrong with the thread that judges."""
    if life.runs and not life.alive:
        yield {
            "state": "critical",
            "text": f"no analysis is running: the runner's thread has ended ({life.last_error or 'its log says why'})",
            "do": "Restart Leadline, and report the trace in its log; windows of the last hour are analysed then.",
        }
    elif life.runs and life.failing >= FAILING_MAX:
        yield {
            "state": "critical",
            "text": f"no analysis is running: the runner failed {life.failing} times in a row, the last time with: "
            f"{life.last_error}",
            "do": "It goes on trying; see whether the store answers, else report the trace in its log.",
        }
    elif not life.well:
        yield {
            "state": "critical",
            "text": f"no analysis is running: the runner has done nothing for {life.quiet_s:.0f} s",
            "do": "See whether the disk of store.path answers; restart Leadline if it does.",
        }


def gap_findings(not_judged: tuple[int, int] | None) -> Iterator[dict[str, str]]:
    """The time that was not analysed because Leadline was down, until somebody asks for it."""
    if not_judged is not None:
        begin, end = (datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for ns in not_judged)
        yield {
            "state": "warning",
            "text": f"not analysed: {begin} to {end}, when Leadline was down, longer ago than runner.backfill_s_max",
            "do": f"`leadline backfill --from {begin} --to {end}` analyses what was stored of it meanwhile or since.",
        }


CLOCK_RECENT_NS = 600 * 10**9  # as long as errors of senders are told


def clock_findings(steps: Sequence[ClockStep], elapsed_ns: int) -> Iterator[dict[str, str]]:
    """Steps of this machine's clock within the last minutes."""
    for each in steps:
        ago_ns = elapsed_ns - each.elapsed_ns
        if ago_ns < CLOCK_RECENT_NS:
            way = "forward" if each.by_ns > 0 else "back"
            yield {
                "state": "warning",
                "text": f"the clock of this machine was set {way} by {abs(each.by_ns) / 1e9:.1f} s, "
                f"{ago_ns / 1e9:.0f} s ago",
                "do": "See what set it (chronyc tracking); what was analysed with the wrong time is analysed again.",
            }
