"""What metrics of a broken part did, in recordings side by side: of the lab and of the simulator, or of two versions.

    python -m evals.runs.signals BUNDLE [BUNDLE ...]

Each bundle has its truth beside it (`NAME.truth.json`). A row is a metric that changed at what was broken, or at what
it is a part of: its median before the onset and while it lasted, of a counter a second, of the entity where it changed
most. A metric that another bundle has and this one has not is `-`, one that did not change is `=`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evals.runs.truth import read_truth
from leadline.analysis.columns import Floats
from leadline.model.errors import LeadlineError
from leadline.model.ids import kind_of, name_of
from leadline.store.bundle import read_bundle
from leadline.store.bundle_redact import truth_path

# A change is told from half more or half less on, and from a hundredth of the largest value of the metric elsewhere:
# below that it is noise, and the table would hold every gauge. Source: judgement.
RATIO_MIN, FLOOR = 1.5, 0.01


@dataclass(frozen=True, slots=True)
class Change:
    """How one metric changed at one entity; counters a second."""

    entity: str
    before: float
    during: float

    @property
    def size(self) -> float:
        """How much it changed, as a logarithm."""
        low, high = sorted((abs(self.before), abs(self.during)))
        return float(np.log((high + 1e-9) / (low + 1e-9)))


def related(broken: Iterable[str], relation: Sequence[Mapping[str, Any]]) -> set[str]:
    """What is broken, with its ends, what it is a part of, and what of it has another name."""
    found = set(broken)
    for each in sorted(found):
        if kind_of(each) == "link":
            found |= {f"{'port' if end.startswith('h') else 'swport'}:{end}" for end in name_of(each).split("~")}
    parents = {(row["child"], row["parent"]) for row in relation if row["kind"] in ("in", "runs-on")}
    found |= {parent for child, parent in parents if child in found and kind_of(parent) in ("host", "gpu")}
    for each in list(found):
        if kind_of(each) in ("port", "swport"):
            found.add(f"xcvr:{name_of(each)}")
            found.add(each.replace("/eth", "/mlx5_"))
    return found


def changes(path: Path) -> tuple[str, dict[str, Change | None]]:
    """Name of the fault, and by metric how it changed; None: it did not. Errors: LeadlineError."""
    entries = [each for each in read_truth(truth_path(path)) if not each.get("decoy")]
    if not entries:
        raise LeadlineError(f"{path}: expected a fault in its truth, found none")
    truth = entries[0]
    with read_bundle(path) as bundle:
        tables = {table.name: pa.concat_tables(bundle.groups(table)) for table in bundle.tables}
        until_ns = truth["end_ns"] or bundle.manifest.to_ns
    series = tables["series"].select(["series", "name", "type", "entity"]).to_pylist()
    near = related(truth["component"], tables["relation"].select(["child", "parent", "kind"]).to_pylist())
    rows = tables["metric_sample"].sort_by([("series", "ascending"), ("time_ns", "ascending")])
    found: dict[str, Change | None] = {}
    most: dict[str, float] = {}
    by_id = {each["series"]: each for each in series}
    for key, time_N, value_N in _streams(rows):
        stream = by_id.get(key)
        if stream is None:
            continue
        name = stream["name"]
        found.setdefault(name, None)
        before, during = _levels(time_N, value_N, truth["onset_ns"], until_ns, stream["type"] == "counter")
        most[name] = max(most.get(name, 0.0), abs(np.nan_to_num(before)))
        if stream["entity"] in near and np.isfinite(before) and np.isfinite(during):
            change, kept = Change(stream["entity"], before, during), found[name]
            if kept is None or change.size > kept.size:
                found[name] = change
    return str(truth["fault"]), {
        name: each if each is not None and _is_told(each, most[name]) else None for name, each in found.items()
    }


def _is_told(change: Change, most: float) -> bool:
    return change.size >= np.log(RATIO_MIN) and max(abs(change.before), abs(change.during)) > FLOOR * most


def _streams(rows: pa.Table) -> Iterable[tuple[bytes, Floats, Floats]]:
    encoded = pc.run_end_encode(rows["series"].combine_chunks())
    ends = encoded.run_ends.to_numpy()
    keys = encoded.values.to_pylist()
    time_N, value_N = rows["time_ns"].to_numpy(), rows["value"].to_numpy()
    begin = 0
    for key, end in zip(keys, ends.tolist(), strict=True):
        kept = np.isfinite(value_N[begin:end])
        yield key, time_N[begin:end][kept], value_N[begin:end][kept]
        begin = end


def _levels(time_N: Floats, value_N: Floats, onset_ns: int, until_ns: int, counts: bool) -> tuple[float, float]:
    """Median before the onset and from then until the end; of a counter its growth a second, whole."""
    found = []
    for part in (time_N < onset_ns, (time_N >= onset_ns) & (time_N < until_ns)):
        times, values = time_N[part], value_N[part]
        if len(values) < 2:
            found.append(float("nan"))
        elif counts:
            grown = np.diff(values)
            found.append(float(grown[grown > 0].sum() / ((times[-1] - times[0]) / 1e9)))
        else:
            found.append(float(np.median(values)))
    return found[0], found[1]


def table(columns: Sequence[tuple[str, Mapping[str, Change | None]]]) -> list[list[str]]:
    """Rows of the table: the metric, then a cell for each bundle."""
    names = sorted({name for _, column in columns for name, change in column.items() if change is not None})
    out = [["metric", *(name for name, _ in columns)]]
    for name in names:
        cells = []
        for _, column in columns:
            change = column.get(name)
            absent = "=" if name in column else "-"
            cells.append(
                absent if change is None else f"{change.before:.3g} > {change.during:.3g} ({kind_of(change.entity)})"
            )
        out.append([name, *cells])
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Exit code 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="evals.runs.signals", description="What metrics of a broken part did.")
    parser.add_argument("bundles", type=Path, nargs="+")
    given = parser.parse_args(arguments)
    try:
        columns = [(f"{path.stem}: {fault}", found) for path in given.bundles for fault, found in [changes(path)]]
    except LeadlineError as error:
        print(f"evals.runs.signals: {error}", file=sys.stderr)
        return 2
    rows = table(columns)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
