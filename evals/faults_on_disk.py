"""The disk refuses: ENOSPC, EIO and short writes at every call of the engine, and what becomes of acknowledged rows.

    python -m evals.faults_on_disk [--runs 100] [--seed 1] [--lanes 2] [--only N] [--json]

    acknowledged_lost   rows that senders were told are stored, and that nobody can read after the fault and a restart
    silent              runs in which rows were lost, or not readable for 15 s, or lie in a broken part, and neither
                        /ready nor `leadline doctor` nor a counter said so

A real server under a library that strikes its calls (`disk_faults/preload.c`), real senders over HTTP. A fault that
struck nothing is no run: another is drawn. See docs/analyses/disk-faults.md.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import sys
import tempfile
import threading
import time
from collections import Counter as Tally
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.disk_faults.control import Site, built
from evals.disk_faults.judging import Outcome, unreadable_s
from evals.disk_faults.running import Lane, StoppedError
from leadline.model.errors import LeadlineError, WorldError

QUICK_RUNS = 3


@dataclass
class Ran:
    """All runs of all lanes."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # runs that were none, and why
    seen: Tally[Site] = field(default_factory=Tally)
    struck: Tally[Site] = field(default_factory=Tally)


def run(directory: Path, numbers: Sequence[int], seed: int, lanes: int, ran: Ran) -> None:
    """Make these runs, `lanes` at a time, into `ran`. Errors: WorldError without a compiler; KeyboardInterrupt, with
    everything ended and removed, and in `ran` what was made."""
    library = built(directory)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in numbers:
        waiting.put(number)
    stopping = threading.Event()

    def work(lane: Lane) -> None:
        try:
            with contextlib.suppress(queue.Empty, StoppedError):
                while not stopping.is_set():
                    _make(lane, waiting.get_nowait(), ran)
        finally:
            lane.close()
            ran.seen.update(lane.seen)
            ran.struck.update(lane.struck)

    made = [Lane(directory / f"lane-{name}", library, seed, stopping) for name in range(min(lanes, len(numbers)))]
    with ThreadPoolExecutor(len(made)) as pool:
        futures = [pool.submit(work, lane) for lane in made]
        try:
            for each in futures:
                each.result()
        finally:
            stopping.set()


def _make(lane: Lane, number: int, ran: Ran) -> None:
    began = time.monotonic()
    try:
        outcome = lane.run(number)
    except WorldError as error:  # the others are still worth their time
        lane.close()
        ran.failed.append(f"run {number}: {error}")
        print(ran.failed[-1], file=sys.stderr, flush=True)
        return
    ran.outcomes.append(outcome)
    print(f"{told(outcome)}; {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def told(outcome: Outcome) -> str:
    """A run in one line."""
    notes = [f"{sum(outcome.struck.values())} struck", f"{outcome.acknowledged} rows acknowledged"]
    notes += [f"{outcome.refused} requests refused"] if outcome.refused else []
    notes += [f"LOST {outcome.lost}"] if outcome.lost else []
    notes += [f"DOUBLED {outcome.doubled}"] if outcome.doubled else []
    notes += ["SILENT"] if outcome.silent else []
    notes += [f"{outcome.crashes} crashes"] if outcome.crashes else []
    notes += [f"unreadable for {unreadable_s(outcome.looks):.0f} s"] if len(outcome.looks) > 1 else []
    notes += [f"said: {outcome.said[0][:120]}"] if outcome.said else []
    return f"{outcome.number}: {outcome.fault}: {', '.join(notes)}"


def figures(ran: Ran) -> list[Figure]:
    """Over all runs."""
    runs = ran.outcomes
    if not runs:
        return [Figure("acknowledged_lost", None, "rows", 0.0, "lower", reason="no run was made")]
    return [
        Figure("acknowledged_lost", float(sum(each.lost for each in runs)), "rows", 0.0, "lower"),
        Figure("silent", float(sum(each.silent for each in runs)), "runs", 0.0, "lower"),
        Figure("duplicated", float(sum(each.doubled for each in runs)), "rows", 0.0, "lower"),
        Figure("not_started", float(sum(each.restarted is None for each in runs)), "runs", 0.0, "lower"),
        Figure("unreadable_s_max", round(max(unreadable_s(each.looks) for each in runs), 1), "s", better="lower"),
        Figure("crashes", float(sum(each.crashes for each in runs)), "1", better="lower"),
        Figure("runs", float(len(runs)), "runs"),
        Figure("struck", float(sum(ran.struck.values())), "calls"),
        Figure("sites_struck", float(len(ran.struck)), "sites"),
        Figure("redrawn", float(sum(each.redrawn for each in runs)), "faults", better="lower"),
        Figure("failed", float(len(ran.failed)), "runs", 0.0, "lower"),
        Figure("acknowledged", float(sum(each.acknowledged for each in runs)), "rows"),
        Figure("refused", float(sum(each.refused for each in runs)), "requests"),
        Figure("runs_said", float(sum(bool(each.said) for each in runs)), "runs"),
    ]


def as_row(outcome: Outcome) -> dict[str, Any]:
    """A run, for the JSON."""
    restarted = outcome.restarted
    return {
        "run": outcome.number, "fault": outcome.fault, "redrawn": outcome.redrawn, "struck": outcome.struck,
        "acknowledged": outcome.acknowledged, "refused": outcome.refused, "lost": outcome.lost,
        "doubled": outcome.doubled, "silent": outcome.silent, "crashes": outcome.crashes,
        "unreadable_s": round(unreadable_s(outcome.looks), 1), "said": outcome.said, "aside": outcome.aside,
        "missing": [look.missing for look in outcome.looks], "strikes": outcome.strikes,
        "spoilt": [*(outcome.looks[-1].spoilt if outcome.looks else ()), *(restarted.spoilt if restarted else ())],
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and report. Exit code 2 if nothing could be run, 130 if interrupted, else 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    numbers = [given.only] if given.only is not None else range(QUICK_RUNS if given.quick else given.runs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up then too
    under, ran = conditions(given.seed, lanes=given.lanes), Ran()
    began, code = time.monotonic(), 0
    try:
        with contextlib.ExitStack() as stack:
            made = tempfile.TemporaryDirectory(prefix="leadline-disk-faults-", ignore_cleanup_errors=True)
            run(Path(stack.enter_context(made)), numbers, given.seed, given.lanes, ran)
    except (LeadlineError, OSError) as error:
        print(f"evals.faults_on_disk: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted after {len(ran.outcomes)} runs; everything it started has ended", file=sys.stderr)
        code = 130
    ran.outcomes.sort(key=lambda outcome: outcome.number)
    under |= {"seconds": round(time.monotonic() - began, 1)}
    under |= {"struck": _named(ran.struck), "seen": _named(ran.seen)}
    if given.json:
        under |= {"failed": ran.failed, "ran": [as_row(each) for each in ran.outcomes]}
    tell("evals.faults_on_disk", under, figures(ran), given.json)
    return code or (0 if ran.outcomes else 2)


def _named(sites: Tally[Site]) -> dict[str, int]:
    return {str(site): times for site, times in sorted(sites.items(), key=lambda item: str(item[0]))}


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="evals.faults_on_disk", description="Faults of the disk under the store.")
    found.add_argument("--runs", type=int, default=100, help="faults that strike, each some 15 s")
    found.add_argument("--seed", type=int, default=1, help="what strikes where, and when")
    found.add_argument("--lanes", type=int, default=2, help="runs beside each other, each on a server of its own")
    found.add_argument("--only", type=int, help="the run of this number alone")
    found.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs")
    found.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return found


if __name__ == "__main__":
    sys.exit(main())
