"""Weights of causes, fitted on simulated train cases.

    python -m evals.learned [--count 123] [--first N] [--keep DIR] [--cache DIR] [--write] [--json]

Simulates the cases that `evals.simulated` draws, keeps what `cause` weighed of each (`candidates`), fits the weights
(`model`), and prints them beside those by hand and those in use, with what is left of the fit when each fault kind and
each magnitude is left out in turn. `--write` puts them into the table that ships (`analysis/cause/weights.csv`).
Only train seeds are fitted on: validation says how sure a verdict may be, test what is published.
Method: docs/analyses/learned-weights.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
from bench.figures import Figure, conditions, tell

from evals.learned.candidates import Keeping, PartWeighed, calls_of, parts_from, rows_of, weighed
from evals.learned.model import NAMES, Fit, chances, fitted
from evals.runs.judged import source_hash
from evals.runs.truth import read_truth, truth_of, works_of
from evals.simulated import CASES, Case, cases, in_pool, make_ready, seed_of, simulated
from leadline.analysis import ANALYSES
from leadline.analysis.cause import weights as table
from leadline.analysis.cause.weights import BY_HAND, WEIGHTS
from leadline.model.errors import LeadlineError
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.judging import Judging, rows_that_count
from leadline.runner.plan import concluded
from leadline.store.bundle import read_bundle
from leadline.store.bundle_redact import truth_path

SOURCE, SPLIT = "simulated", "train"
Known = list[tuple[Case, list[PartWeighed]]]


def of_bundle(path: Path) -> list[PartWeighed]:
    """What `cause` weighed of the troubles of a recording. Errors: LeadlineError."""
    entries = read_truth(truth_path(path))
    with read_bundle(path) as bundle:
        from_ns, to_ns = bundle.manifest.from_ns, bundle.manifest.to_ns
        truth = truth_of(entries, works_of(bundle), from_ns, to_ns)
        again = concluded(ANALYSES) | {ANALYSIS_RUN.name}
        tables = {each.name: pa.concat_tables(bundle.groups(each)) for each in bundle.tables if each.name not in again}
    costing = [each for each in truth.troubles if each.costing]
    if not costing:  # nothing has to be found, so nothing is judged
        return []
    keeping = Keeping()
    judging = Judging(ANALYSES, from_ns, keeping)
    judging.add(rows_that_count(tables))
    judging.until(to_ns, ended=True)
    told = [(weighed(trouble, task) for task in calls_of(trouble, keeping.kept)) for trouble in costing]
    return [part for calls in told for part in next(filter(None, calls), [])]  # a crash is over long before its fault


def of_case(case: Case, keep: Path | None, cache: Path | None) -> list[PartWeighed]:
    """The same of a simulated case; kept by case and by the source that judged. Errors: LeadlineError."""
    kept = cache / f"{case.name}-{source_hash()[:16]}.weighed.json" if cache else None
    if kept and kept.exists():
        return parts_from(json.loads(kept.read_text()), str(kept))
    with tempfile.TemporaryDirectory(prefix="leadline-learned-") as folder:
        path = (keep or Path(folder)) / f"{case.name}.leadline"
        if not (keep and truth_path(path).exists()):
            simulated(case.spec, path)
        found = of_bundle(path)
    if kept:
        kept.with_suffix(".part").write_text(json.dumps(rows_of(found)))
        kept.with_suffix(".part").replace(kept)
    return found


def all_of(chosen: Sequence[Case], keep: Path | None, cache: Path | None, processes: int) -> Known:
    """What was weighed of each case. Errors: LeadlineError."""
    work = partial(of_case, keep=keep, cache=cache)
    return list(zip(chosen, in_pool(work, chosen, processes), strict=True))


def left_out(known: Known, of: Callable[[Case], str]) -> Iterator[tuple[str, int, float, float]]:
    """For each fault kind or magnitude: cases, probability of what was broken with weights fitted on all others, and
    with those by hand."""
    for name in sorted({of(case) for case, _ in known}):
        mine = [parts for case, parts in known if of(case) == name and parts]
        if not mine:
            continue
        fit = fitted([parts for case, parts in known if of(case) != name])
        yield name, len(mine), _of_broken(mine, fit.values), _of_broken(mine, BY_HAND)


def _of_broken(several: Sequence[Sequence[PartWeighed]], weights: Mapping[str, float]) -> float:
    """Mean over cases of the probability of what was broken, by share of what was lost."""
    found = []
    for parts in several:
        chance = 0.0
        for part in parts:
            each, unknown = chances(part, weights)
            right = [one for one, weighed in zip(each, part.candidates, strict=True) if weighed.right]
            chance += part.share * (sum(right) if right else unknown)
        found.append(chance)
    return sum(found) / max(1, len(found))


def as_table(fit: Fit, first: int, count: int) -> str:
    """The file that ships."""
    lines = [f"# version {table.VERSION}", f"# fitted {SOURCE} {SPLIT} {first} {count}", ",".join(table.COLUMNS)]
    for name in NAMES:
        note = f"kept: fewer than 5 cases have it ({fit.cases[name]})" if name in fit.kept else "fitted"
        lines.append(f"{name},{BY_HAND[name]:g},{fit.values[name]:g},{fit.cases[name]},{note}")
    return "\n".join(lines) + "\n"


def told(fit: Fit, known: Known) -> str:
    """The weights and what is left of them where a kind was not seen."""
    rows = [f"{'weight':<10} {'by hand':>8} {'in use':>8} {'fitted':>8} {'cases':>6}"]
    for name in NAMES:
        note = "  kept: fewer than 5 cases" if name in fit.kept else ""
        rows.append(
            f"{name:<10} {BY_HAND[name]:>8.2f} {getattr(WEIGHTS, name):>8.2f} {fit.values[name]:>8.2f} "
            f"{fit.cases[name]:>6}{note}"
        )
    rows.append(f"{'left out':<24} {'cases':>6} {'fitted on the others':>21} {'by hand':>8}")
    kinds: tuple[Callable[[Case], str], ...] = (lambda case: case.magnitude, lambda case: case.fault)
    for of in kinds:
        rows += [
            f"{name:<24} {count:>6} {after:>21.2f} {before:>8.2f}" for name, count, after, before in left_out(known, of)
        ]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and tell. Exit code 2 for what cannot be done."""
    given = _parser().parse_args(arguments)
    try:
        make_ready(given.count, (given.keep, given.cache))
        known = all_of(list(islice(cases(SPLIT, given.first), given.count)), given.keep, given.cache, given.processes)
        fit = fitted([parts for _, parts in known if parts])
    except LeadlineError as error:
        print(f"evals.learned: {error}", file=sys.stderr)
        return 2
    if not given.json:
        print(told(fit, known))
    if given.write:
        given.write.write_text(as_table(fit, given.first, given.count))
    weighing = sum(bool(parts) for _, parts in known)
    figures = [
        Figure("cases_weighed", weighing, "cases", None, "higher"),
        Figure("likelihood_by_hand", round(fit.before, 4), "nats", None, "higher"),
        Figure("likelihood_fitted", round(fit.after, 4), "nats", None, "higher"),
    ]
    about = conditions(seed_of(SPLIT, given.first), split=SPLIT, runs=len(known), seen="simulated")
    tell("evals.learned", about, figures, given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.learned", description="Weights of causes from simulated train cases.")
    parser.add_argument("--count", type=int, default=CASES, help="so many cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first one within the train seeds")
    parser.add_argument("--keep", type=Path, help="keep the bundles here, and use those that are there again")
    parser.add_argument("--cache", type=Path, help="keep here what was weighed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", type=Path, help="write the table there: src/leadline/analysis/cause/weights.csv")
    parser.add_argument("--json", action="store_true")
    return parser
