"""How much of the GPU time that faults cost has an owner in the ledger, and how often the owner is right.

    python -m evals.ledger [--data DIR] [--quick] [--only TEXT] [--json]

Judged is recorded lab runs: NAME.leadline with NAME.truth.json beside it, those that come with Leadline and those in
DIR. Bundles go in as in production: `runner.offline`, verdict tables. What is counted stands in `ledger_scores`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench.figures import Figure, conditions, tell

from evals.ledger_scores import Healthy, Score, places_of, scored, troubles_of
from leadline.analysis import ANALYSES
from leadline.lab.incidents import incidents
from leadline.model.errors import LeadlineError
from leadline.model.tables import BY_NAME as TABLES
from leadline.runner.offline import judge_bundle, without_failures
from leadline.store.bundle import Bundle, read_bundle

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "lab_ledger"
QUICK = ("demo", "bert-slow", "rings-congested", "rings-both", "healthy")
JUDGED_BY = ("path", "messages", "baseline", "ledger")
OWNED_TARGET = RIGHT_TARGET = 0.95
OWNERS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run and what was broken in it."""

    name: str
    bundle: Path
    truth: dict[str, Any]


def runs(data: Path | None, quick: bool, only: str) -> list[Run]:
    """The runs to judge, by name. Errors: LeadlineError if a truth file is none."""
    paths = [*incidents().values(), *sorted(GOLDEN.glob("*.leadline"))]
    if data is not None:
        paths = sorted(data.rglob("*.leadline"))
    found = []
    for path in paths:
        truth = path.with_name(f"{path.stem}.truth.json")
        if truth.exists() and only in path.stem and (not quick or data is not None or path.stem in QUICK):
            found.append(Run(path.stem, path, read_truth(truth)))
    return found


def read_truth(path: Path) -> dict[str, Any]:
    """A truth file. Errors: LeadlineError."""
    try:
        found = json.loads(path.read_text())
        known = all({"fault", "component", "layer", "onset_ns", "end_ns"} <= each.keys() for each in found["faults"])
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LeadlineError(f"{path}: expected a truth file of the lab (docs/lab/scenarios.md), got {error}") from error
    if not known:
        raise LeadlineError(
            f"{path}: expected faults with component, layer, onset_ns and end_ns (docs/lab/scenarios.md)"
        )
    return dict(found)


def judged(run: Run, healthy: Healthy) -> list[Score]:
    """The scores of the faults of a run. Errors: LeadlineError for bundles that cannot be read."""
    with read_bundle(run.bundle) as bundle:
        relations = _rows(bundle, "relation", ("child", "kind", "parent"))
        works, job, gpus = _works(bundle)
        to_ns = bundle.manifest.to_ns
    places = places_of(relations)
    # A fault's own job (bulk traffic) is no victim: only the job whose work was measured is scored.
    told = without_failures(judge_bundle(run.bundle, [each for each in ANALYSES if each.name in JUDGED_BY])).get(
        "ledger"
    )
    rows = [row for row in told.to_pylist() if row["job"] == job] if told is not None else []
    return scored(run.name, rows, troubles_of(run.truth, works, gpus, to_ns), places, healthy)


def _works(bundle: Bundle) -> tuple[list[tuple[int, int]], str, int]:
    """Steps of a rank of the job that tells most, or from one end of a collective to the next; the job; its ranks."""
    steps = _rows(bundle, "step", ("job", "rank", "start_ns", "end_ns"))
    if steps:
        job = Counter(row["job"] for row in steps).most_common(1)[0][0]
        ranks = {row["rank"] for row in steps if row["job"] == job}
        mine = [row for row in steps if row["job"] == job and row["rank"] == min(ranks)]
        return sorted((row["start_ns"], row["end_ns"]) for row in mine), job, len(ranks)
    rows = [row for row in _rows(bundle, "collective", ("job", "rank", "finished_ns")) if row["finished_ns"]]
    if not rows:
        return [], "", 0
    job = Counter(row["job"] for row in rows).most_common(1)[0][0]
    ranks = {row["rank"] for row in rows if row["job"] == job}
    ends = sorted({row["finished_ns"] for row in rows if row["job"] == job and row["rank"] == min(ranks)})
    return list(pairwise(ends)), job, len(ranks)


def _rows(bundle: Bundle, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    if not any(table.name == name for table in bundle.tables):
        return []
    rows = pa.concat_tables([each.select(list(columns)) for each in bundle.groups(TABLES[name])])
    return [dict(row) for row in rows.to_pylist()]


def figures(scores: Sequence[Score], healthy: Healthy) -> list[Figure]:
    """Of everything that was judged; shares are of GPU-seconds, not of faults."""
    true = sum(each.trouble.lost for each in scores)
    owned = sum(each.owned for each in scores)
    none = "no run lost GPU time to a fault"
    hours = healthy.gpu_seconds / 3600
    return [
        _share("owned_share", sum(each.covered for each in scores), true, OWNED_TARGET, none),
        _share("owner_right_share", sum(each.right for each in scores), owned, RIGHT_TARGET, "nothing has an owner"),
        _share("category_right_share", sum(each.category for each in scores), owned, None, "nothing has an owner"),
        _share("told_lost_ratio", owned, true, None, none),
        Figure(
            "false_lost_per_gpu_hour", healthy.lost / hours if hours else None, "gpu_s", None, "lower",
            reason=None if hours else "no healthy window",
        ),
        Figure("faults", float(len(scores)), "1"),
    ]  # fmt: skip


def _share(name: str, part: float, whole: float, target: float | None, reason: str) -> Figure:
    return Figure(name, part / whole if whole else None, "ratio", target, reason=None if whole else reason)


def as_row(score: Score) -> dict[str, Any]:
    """One fault, for the table and for JSON."""
    best = sorted(score.owners.items(), key=lambda each: (-each[1], each[0]))[:OWNERS_SHOWN]
    return {
        "run": score.run,
        "fault": score.trouble.name,
        "true_gpu_s": round(score.trouble.lost, 1),
        "owned_gpu_s": round(score.owned, 1),
        "unknown_gpu_s": round(score.unknown, 1),
        "owned_share": round(score.covered / score.trouble.lost, 3),
        "owner_right": round(score.right / score.owned, 3) if score.owned else None,
        "category_right": round(score.category / score.owned, 3) if score.owned else None,
        "owners": [f"{category} {owner or '-'} {lost:.1f}" for (category, owner), lost in best],
    }


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each fault, its largest owners below."""
    print(f"  {'run':16} {'fault':36} {'true':>7} {'owned':>7} {'unknown':>7} {'share':>6} {'right':>6} {'categ':>6}")
    for row in rows:
        right, category = (
            "-" if row[name] is None else f"{row[name]:.2f}" for name in ("owner_right", "category_right")
        )
        print(
            f"  {row['run']:16} {row['fault']:36} {row['true_gpu_s']:7.1f} {row['owned_gpu_s']:7.1f} "
            f"{row['unknown_gpu_s']:7.1f} {row['owned_share']:6.2f} {right:>6} {category:>6}"
        )
        print("".join(f"  {'':16}   {owner}\n" for owner in row["owners"]), end="")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all runs and tell. Exit code 2 for data that cannot be read, 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="evals.ledger", description="The ledger of lab runs against their truth.")
    parser.add_argument("--data", type=Path, help="bundles with NAME.truth.json beside them, instead of our own")
    parser.add_argument("--quick", action="store_true", help="five runs of ours")
    parser.add_argument("--only", default="", help="runs with this in their name")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args(arguments)
    try:
        if given.data is not None and not given.data.is_dir():
            raise LeadlineError(f"--data: expected a directory, got {given.data}")
        chosen = runs(given.data, given.quick, given.only)
        healthy, scores = Healthy(), []
        for run in chosen:
            scores += judged(run, healthy)
    except LeadlineError as error:
        print(f"evals.ledger: {error}", file=sys.stderr)
        return 2
    rows = [as_row(score) for score in scores]
    if not given.json:
        print_rows(rows)
    taken = conditions(None, runs=[run.name for run in chosen], **({"faults": rows} if given.json else {}))
    tell("evals.ledger", taken, figures(scores, healthy), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
