"""Whether the verdicts of recordings are what they were: one digest for each table of each recording.

`recorded.json` holds the digests of the last named change. They are of exact values, so they are compared on one kind
of machine: another instruction set may round the last bit of a float differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from leadline.runner.offline import judge_bundle, without_failures

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_name("verdicts_recorded.json")
FOLDERS = (ROOT / "src" / "leadline" / "lab" / "incidents", ROOT / "tests" / "golden")

Digests = dict[str, dict[str, str]]  # recording -> table -> digest of its rows


def recordings() -> list[Path]:
    """All bundles that are shipped or kept by tests, in the order of their names."""
    return sorted(path for folder in FOLDERS for path in folder.rglob("*.leadline"))


def digest(rows: pa.Table) -> str:
    """16 hex digits over the values of all rows, whatever their order and however symbols are coded."""
    each = sorted(json.dumps(row, sort_keys=True, default=str) for row in rows.to_pylist())
    return hashlib.sha256("\n".join(each).encode()).hexdigest()[:16]


def digests(paths: Iterable[Path]) -> Digests:
    """Each recording judged anew by every analysis. Errors: JudgementError if a window could not be judged."""
    found: Digests = {}
    for path in paths:
        tables = without_failures(judge_bundle(path))
        found[str(path.relative_to(ROOT))] = {
            name: digest(rows) for name, rows in sorted(tables.items()) if rows.num_rows
        }
    return found


def changed(before: Digests, now: Digests) -> list[str]:
    """`recording: table` of all that differ, tables and recordings that are new or gone among them."""
    return [
        f"{recording}: {table}"
        for recording in sorted(before.keys() | now.keys())
        for table in sorted(before.get(recording, {}).keys() | now.get(recording, {}).keys())
        if before.get(recording, {}).get(table) != now.get(recording, {}).get(table)
    ]


def recorded() -> Digests:
    """The digests of the last named change."""
    found: Digests = json.loads(RECORDED.read_text())
    return found


def record(now: Digests) -> None:
    """Make today's verdicts those that later ones are held against: part of a commit that says why they changed."""
    RECORDED.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
