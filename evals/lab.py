"""Whether incidents name what was broken: recorded lab runs, judged as in production, held against their truth.

    python -m evals.lab [--incidents DIR] [--quick] [--only TEXT] [--missing SHARE] [--cache DIR] [--wrong] [--json]

Judged is every NAME.leadline with NAME.truth.json beside it: those in DIR, or those that come with Leadline. The whole
is judged again with a share of the telemetry missing. Method, and what each figure is: docs/analyses/lab-evals.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.runs.judged import NOTHING_MISSING, Judged, Missing, Run, judged, runs_in
from evals.runs.report import (
    Scores,
    as_row,
    figures,
    named,
    part_figures,
    print_failures,
    print_false,
    print_faults,
    print_reliability,
    print_rows,
)
from evals.runs.scores import forecasts, reliability
from leadline.lab.incidents import HERE
from leadline.model.errors import LeadlineError

QUICK = ("demo", "healthy", "oom-kill")
MISSING_SHARE = 0.3
IN_MISSING = ("top1", "top3", "unknown_share", "missed_share", "wrong_share", "false_incidents")


def all_judged(runs: Sequence[Run], missing: Missing, cache: Path | None, processes: int) -> Iterator[Judged]:
    """Each run with its verdicts, in order. Errors: LeadlineError."""
    work = partial(judged, cache_in=cache, missing=missing)
    if processes <= 1 or len(runs) <= 1:
        yield from map(work, runs)
        return
    # Spawned, as the workers of a live run are: the readers of bundles have threads.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, runs)


def of_all(runs: Sequence[Run], missing: Missing, cache: Path | None, processes: int) -> tuple[Scores, dict[str, int]]:
    """The scores of all runs, and when each begins, ns."""
    scores, from_ns = Scores(), {}
    for number, each in enumerate(all_judged(runs, missing, cache, processes), start=1):
        scores.add(each)
        from_ns[each.run] = each.truth.from_ns
        if sys.stderr.isatty():
            print(f"\r{number} of {len(runs)} runs judged", end="" if number < len(runs) else "\n", file=sys.stderr)
    return scores, from_ns


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all runs and tell. Exit code 2 for data that cannot be read, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        if not 0 <= given.missing < 1:
            raise LeadlineError(f"--missing: expected a share from 0 to below 1, got {given.missing}")
        runs = runs_in(given.incidents or HERE, given.only)
        if given.quick and given.incidents is None:
            runs = [each for each in runs if each.name in QUICK]
        scores, from_ns = of_all(runs, NOTHING_MISSING, given.cache, given.processes)
        told = [*figures(scores), *part_figures(scores)]
        if given.missing and not given.quick:
            poor, _ = of_all(runs, Missing(given.missing, given.seed), given.cache, given.processes)
            told += named(figures(poor), f"missing{round(100 * given.missing)}", IN_MISSING)
    except LeadlineError as error:
        print(f"evals.lab: {error}", file=sys.stderr)
        return 2
    told.append(seconds_per_run(scores))
    if not given.json:
        print_all(scores, from_ns, given.wrong)
    tell(
        "evals.lab",
        conditions(given.seed, runs=len(runs), **(details(scores) if given.json else {})),
        told,
        given.json,
    )
    return 0


def seconds_per_run(scores: Scores) -> Figure:
    """How long judging one took."""
    return Figure("judged_s_per_run", sum(scores.seconds) / len(scores.seconds), "s", None, "lower")


def print_all(scores: Scores, from_ns: Mapping[str, int], wrong_only: bool) -> None:
    """All tables, for people. `from_ns`: when each run begins."""
    rows = sorted(map(as_row, scores.dear), key=lambda row: (row["fault"], row["run"]))
    print_rows(rows, wrong_only)
    if scores.cheap:
        print("cheap faults (nobody has to find them):")
        print_rows([as_row(each) for each in scores.cheap if each.incidents], wrong_only)
    print_false(scores.false, from_ns)
    print_failures(scores.failures)
    print_faults(scores.dear)
    print_reliability(scores.dear)


def details(scores: Scores) -> dict[str, Any]:
    """The same for programs."""
    return {
        "faults": [as_row(each) for each in scores.dear],
        "cheap": [as_row(each) for each in scores.cheap],
        "false": [f"{run}: {row['incident']}" for run, row in scores.false],
        "failed": scores.failures,
        "reliability": [
            {"low": each.low, "high": each.high, "count": each.count, "said": each.said, "was": each.was}
            for each in reliability(forecasts(scores.dear))
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.lab", description="Incidents of lab runs against their truth.")
    parser.add_argument("--incidents", type=Path, help="bundles with NAME.truth.json beside them, instead of our own")
    parser.add_argument("--quick", action="store_true", help="three runs of ours, nothing missing")
    parser.add_argument("--only", default="", help="runs with this in their name")
    parser.add_argument(
        "--missing", type=float, default=MISSING_SHARE,
        help="judge all again with this share of the senders of telemetry silent; 0: do not",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="which senders are silent")
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every program has that judges runs."""
    parser.add_argument("--cache", type=Path, help="keep verdicts here, by bundle and source: the next time is quick")
    parser.add_argument("--processes", type=int, default=2, help="runs judged at a time")
    parser.add_argument("--wrong", action="store_true", help="show only what is not right")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")


if __name__ == "__main__":
    sys.exit(main())
