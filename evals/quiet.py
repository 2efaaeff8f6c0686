"""How often something is told while nothing is wrong: simulated fleets without faults, and healthy runs of the lab.

    python -m evals.quiet [--incidents DIR] [--seconds N] [--node-days N] [--quick] [--cache DIR] [--json]

Every incident that is not suppressed counts. Method, and how much is judged in which time: docs/analyses/lab-evals.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.lab import all_judged
from evals.lab_judged import NOTHING_MISSING, Judged, Run, runs_in
from evals.lab_truth import read_truth
from evals.quiet_fleet import Fleet, Quiet, quiet
from leadline.lab.incidents import HERE
from leadline.model.errors import LeadlineError

S = 10**9
# Many nodes with what agents and jobs tell; few with collectives, flows and switches as well.
FLEETS = (Fleet("wide", 2048, "hosts"), Fleet("deep", 128, "all", seed=2))
SECONDS, SECONDS_QUICK = 300.0, 10.0
NODE_DAYS_MAX = 1500.0
PER_1000_MAX = 2.0


def fleets_judged(fleets: Sequence[Fleet], seconds: float, node_days: float) -> list[Quiet]:
    """Each fleet, side by side in processes of their own. Errors: JudgementError."""
    with ProcessPoolExecutor(len(fleets), multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(quiet, each, seconds, node_days) for each in fleets]
        return [each.result() for each in running]


def healthy_runs(directory: Path) -> list[Run]:
    """Runs in which nothing was broken; harmless things may have happened. Errors: LeadlineError."""
    return [run for run in runs_in(directory) if all(each.get("decoy") for each in read_truth(run.truth))]


def figures(fleets: Sequence[Quiet], healthy: Sequence[Judged]) -> list[Figure]:
    """Of both kinds of quiet."""
    days = sum(each.node_days for each in fleets)
    count = sum(len(each.incidents) for each in fleets)
    hours = sum(each.truth.to_ns - each.truth.from_ns for each in healthy) / S / 3600
    told = sum(len(_alerts(each)) for each in healthy)
    return [
        Figure(
            "incidents_per_1000_node_days", 1000 * count / days if days else None, "1", PER_1000_MAX, "lower",
            reason=None if days else "no node-day was judged",
        ),
        Figure("node_days", days, "d", NODE_DAYS_MAX),
        Figure("incidents", float(count), "1", None, "lower"),
        Figure("incidents_suppressed", float(sum(each.suppressed for each in fleets)), "1"),
        *[Figure(f"node_days_{each.fleet}", each.node_days, "d") for each in fleets],
        *[Figure(f"incidents_{each.fleet}", float(len(each.incidents)), "1", None, "lower") for each in fleets],
        Figure(
            "incidents_healthy_per_hour", told / hours if hours else None, "1/h", None, "lower",
            reason=None if hours else "no healthy run was given",
        ),
        Figure("healthy_hours", hours, "h"),
    ]  # fmt: skip


def _alerts(judged: Judged) -> list[dict[str, Any]]:
    return [dict(row) for row in judged.verdicts.incidents if not row["suppressed"]]


def _print(fleets: Sequence[Quiet], healthy: Sequence[Judged]) -> None:
    for each in fleets:
        rows = ", ".join(f"{name} {count:,}" for name, count in sorted(each.rows.items()))
        told = ", ".join(f"{name} {count:,}" for name, count in sorted(each.told.items()))
        print(
            f"  {each.fleet}: {each.nodes} nodes x {each.judged_s / 3600:.2f} h = {each.node_days:.2f} node-days, "
            f"{each.jobs} jobs, {each.windows:,} windows in {each.took_s:.0f} s\n"
            f"    rows: {rows}\n    told: {told or 'nothing'}"
        )
        for row in each.incidents:
            print(f"    false: {row['incident']}: {row['verdict']}, {row['cause'] or '-'}, {row['lost_gpu_seconds']}")
    for one in healthy:
        for row in _alerts(one):
            print(f"  false: {one.run}: {row['incident']}: {row['verdict']}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and tell. Exit code 2 for data that cannot be read, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    seconds = given.seconds if given.seconds is not None else SECONDS_QUICK if given.quick else SECONDS
    try:
        if seconds <= 0:
            raise LeadlineError(f"--seconds: expected more than 0, got {seconds}")
        runs = healthy_runs(given.incidents or HERE)
        fleets = fleets_judged(FLEETS, seconds, given.node_days / len(FLEETS))
        healthy = list(all_judged(runs, NOTHING_MISSING, given.cache, len(FLEETS)))
    except LeadlineError as error:
        print(f"evals.quiet: {error}", file=sys.stderr)
        return 2
    if not given.json:
        _print(fleets, healthy)
    details = {
        "fleets": [
            {
                "fleet": each.fleet, "detail": each.detail, "nodes": each.nodes, "hours": each.judged_s / 3600,
                "jobs": each.jobs, "windows": each.windows, "took_s": each.took_s, "rows": each.rows,
                "told": each.told, "false": each.incidents,
            }
            for each in fleets
        ],
        "false_healthy": [f"{one.run}: {row['incident']}" for one in healthy for row in _alerts(one)],
    }  # fmt: skip
    taken = conditions(FLEETS[0].seed, healthy_runs=len(healthy), **(details if given.json else {}))
    tell("evals.quiet", taken, figures(fleets, healthy), given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.quiet", description="Incidents where nothing is wrong.")
    parser.add_argument("--incidents", type=Path, help="bundles of the lab; those without a fault are judged")
    parser.add_argument(
        "--seconds", type=float, help=f"simulate and judge for so long; {SECONDS:g}, quick {SECONDS_QUICK:g}"
    )
    parser.add_argument("--node-days", type=float, default=NODE_DAYS_MAX, help="or until so many are judged")
    parser.add_argument("--quick", action="store_true", help="some seconds of it")
    parser.add_argument("--cache", type=Path, help="keep verdicts of healthy runs here")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
