"""Whether a cell that ended well left what it was run for: rows of its job in its bundle, the truth of its fault."""

from __future__ import annotations

from pathlib import Path

from leadline.lab.matrix.plan import HEALTHY, Cell
from leadline.lab.truth import read_truth
from leadline.model.errors import LeadlineError
from leadline.store.bundle import read_bundle

ALWAYS = ("series", "metric_sample", "relation")  # agents and exporters
WITHOUT_COLLECTIVES = frozenset({"serve", "bulk", "incast"})


def lacks(cell: Cell, bundle: Path, truth: Path) -> str:
    """What is missing, for people; "" where everything is there."""
    try:
        with read_bundle(bundle) as opened:
            rows = opened.manifest.rows()
        entries = read_truth(truth)[0]
    except (LeadlineError, OSError) as error:
        return str(error)
    wanted = [*ALWAYS, *(() if cell.workload in WITHOUT_COLLECTIVES else ("collective",))]
    if empty := [table for table in wanted if not rows.get(table)]:
        return f"{bundle.name} has no rows of {', '.join(empty)}"
    if cell.fault != HEALTHY and not any(each.fault == cell.fault and not each.decoy for each in entries):
        return f"{truth.name} tells of no {cell.fault}"
    return ""
