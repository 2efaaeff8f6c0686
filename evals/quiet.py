"""How often something is told while nothing is wrong: simulated fleets without faults, and healthy runs of the lab.

    python -m evals.quiet [--incidents DIR] [--node-days N] [--seconds N] [--quick] [--cache DIR] [--json]

Every incident that is not suppressed counts. Method, and how much is judged in which time: docs/analyses/lab-evals.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.lab import all_judged
from evals.runs.judged import NOTHING_MISSING, Judged, Run, runs_in
from evals.runs.quiet_fleet import Fleet, Quiet, is_kept, quiet_kept
from evals.runs.report import print_failures
from evals.runs.truth import read_truth
from leadline.lab.incidents import HERE
from leadline.model.errors import LeadlineError

S = 10**9
# Many nodes of one GPU, for node-days; nodes of eight; a few with collectives, flows and switches as well.
THIN = Fleet("thin", 2048, "hosts", minutes=30.0, gpus_per_host=1)
WIDE = Fleet("wide", 512, "hosts", minutes=30.0)
DEEP = Fleet("deep", 64, "all", minutes=30.0)
QUICK = (replace(THIN, gpus=64, minutes=6.0), replace(DEEP, gpus=32, minutes=2.0))
WIDE_EVERY, DEEP_EVERY = 4, 8  # of the fleets, so many are thin before the next of these
SECONDS = 300.0  # after these no fleet is begun any more
NODE_DAYS = 1500.0
PER_1000_MAX = 2.0
PROCESSES = 2


def fleets() -> Iterator[Fleet]:
    """Fleets without end, each with a seed of its own."""
    for seed in count(1):
        yield replace(THIN, seed=seed)
        if seed % WIDE_EVERY == 1:
            yield replace(WIDE, seed=seed)
        if seed % DEEP_EVERY == 1:
            yield replace(DEEP, seed=seed)


def fleets_judged(chosen: Iterable[Fleet], seconds: float, node_days: float, cache: Path | None) -> list[Quiet]:
    """Fleets, two at a time, until so many node-days are judged; none is begun after so many seconds, but those that
    are kept from another time."""
    began, planned_days, running = time.monotonic(), 0.0, deque[Future[Quiet]]()
    found: list[Quiet] = []
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for fleet in chosen:
            if planned_days >= node_days:
                break
            if not is_kept(fleet, cache):
                while len(running) >= PROCESSES:
                    found.append(running.popleft().result())
                if time.monotonic() - began > seconds:
                    break
            planned_days += fleet.node_days
            running.append(pool.submit(quiet_kept, fleet, cache))
        return [*found, *(each.result() for each in running)]


def healthy_runs(directory: Path) -> list[Run]:
    """Runs in which nothing was broken; harmless things may have happened. Errors: LeadlineError."""
    return [run for run in runs_in(directory) if all(each.get("decoy") for each in read_truth(run.truth))]


def figures(fleets: Sequence[Quiet], healthy: Sequence[Judged]) -> list[Figure]:
    """Of both kinds of quiet."""
    days = sum(each.node_days for each in fleets)
    alerts = sum(len(each.incidents) for each in fleets)
    failed = sum(len(each.failures) for each in fleets) + sum(len(each.failures) for each in healthy)
    hours = sum(each.truth.to_ns - each.truth.from_ns for each in healthy) / S / 3600
    told = sum(len(_alerts(each)) for each in healthy)
    return [
        Figure(
            "incidents_per_1000_node_days", 1000 * alerts / days if days else None, "1", PER_1000_MAX, "lower",
            reason=None if days else "no node-day was judged",
        ),
        Figure("node_days", days, "d", NODE_DAYS),
        Figure("incidents", float(alerts), "1", None, "lower"),
        Figure("failed_windows", float(failed), "1", 0.0, "lower"),
        Figure("incidents_suppressed", float(sum(each.suppressed for each in fleets)), "1"),
        *[part for name in (THIN.name, WIDE.name, DEEP.name) for part in _of_kind(name, fleets)],
        Figure(
            "incidents_healthy_per_hour", told / hours if hours else None, "1/h", None, "lower",
            reason=None if hours else "no healthy run was given",
        ),
        Figure("healthy_hours", hours, "h"),
    ]  # fmt: skip


def _of_kind(name: str, fleets: Sequence[Quiet]) -> list[Figure]:
    mine = [each for each in fleets if each.fleet == name]
    told = float(sum(len(each.incidents) for each in mine))
    return [
        Figure(f"node_days_{name}", sum(each.node_days for each in mine), "d"),
        Figure(f"incidents_{name}", told, "1", None, "lower"),
    ]


def _alerts(judged: Judged) -> list[dict[str, Any]]:
    return [dict(row) for row in judged.verdicts.incidents if not row["suppressed"]]


def _print(fleets: Sequence[Quiet], healthy: Sequence[Judged]) -> None:
    for each in fleets:
        rows = ", ".join(f"{name} {count:,}" for name, count in sorted(each.rows.items()))
        told = ", ".join(f"{name} {count:,}" for name, count in sorted(each.told.items()))
        print(
            f"  {each.fleet}-{each.seed}: {each.nodes} nodes x {each.judged_s / 3600:.2f} h = {each.node_days:.2f} "
            f"node-days, {each.jobs} jobs, {each.windows:,} windows in {each.took_s:.0f} s\n"
            f"    rows: {rows}\n    told: {told or 'nothing'}"
        )
        for row in each.incidents:
            print(f"    false: {row['incident']}: {row['verdict']}, {row['cause'] or '-'}, {row['lost_gpu_seconds']}")
        for text in each.symptoms:
            print(f"    symptom: {text}")
        print_failures(each.failures)
    for one in healthy:
        print_failures(one.failures)
        for row in _alerts(one):
            print(f"  false: {one.run}: {row['incident']}: {row['verdict']}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and tell. Exit code 2 for data that cannot be read, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        if given.seconds <= 0 or given.node_days <= 0:
            raise LeadlineError("--seconds and --node-days: expected more than 0")
        runs = healthy_runs(given.incidents or HERE)
        chosen = QUICK if given.quick else fleets()
        fleets_told = fleets_judged(chosen, given.seconds, given.node_days, given.cache)
        healthy = list(all_judged(runs, NOTHING_MISSING, given.cache, PROCESSES))
    except LeadlineError as error:
        print(f"evals.quiet: {error}", file=sys.stderr)
        return 2
    if not given.json:
        _print(fleets_told, healthy)
    details = {
        "fleets": [
            {
                "fleet": each.fleet, "detail": each.detail, "nodes": each.nodes, "hours": each.judged_s / 3600,
                "jobs": each.jobs, "windows": each.windows, "took_s": each.took_s, "rows": each.rows,
                "told": each.told, "false": each.incidents, "failed": each.failures,
                "symptoms": each.symptoms,
            }
            for each in fleets_told
        ],
        "false_healthy": [f"{one.run}: {row['incident']}" for one in healthy for row in _alerts(one)],
    }  # fmt: skip
    taken = conditions(
        THIN.seed, fleets_judged=len(fleets_told), healthy_runs=len(healthy), **(details if given.json else {})
    )
    tell("evals.quiet", taken, figures(fleets_told, healthy), given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.quiet", description="Incidents where nothing is wrong.")
    parser.add_argument("--incidents", type=Path, help="bundles of the lab; those without a fault are judged")
    parser.add_argument("--node-days", type=float, default=NODE_DAYS, help="simulate so many")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="and begin no fleet after so long")
    parser.add_argument("--quick", action="store_true", help="two small fleets")
    parser.add_argument("--cache", type=Path, help="keep what was judged here: the next call goes on from there")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
