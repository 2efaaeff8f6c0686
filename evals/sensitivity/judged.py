"""Recordings judged with one constant moved, in a process of its own; the rows as digests on standard output.

echo '{"module": ..., "name": ..., "factor": 2, "importers": [...], "recordings": [...]}' |
    python -m evals.sensitivity.judged
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.sensitivity.moving import CannotMoveError, move

if TYPE_CHECKING:
    import pyarrow as pa


def judge(recording: Path) -> dict[str, Any]:
    """All verdicts of a recording: counts of digests of rows by table, and what is named."""
    from leadline.runner.offline import judge_bundle, without_failures

    tables = without_failures(judge_bundle(recording))
    return {
        "rows": {name: _digests(rows) for name, rows in sorted(tables.items()) if rows.num_rows},
        "named": sorted(named(tables)),
    }


def _digests(rows: pa.Table) -> dict[str, int]:
    texts = (json.dumps(row, sort_keys=True, default=str) for row in rows.to_pylist())
    return Counter(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)


def named(tables: Mapping[str, pa.Table]) -> set[str]:
    """What a reader acts on: which symptom of whom there was, and which component was named for it by which rule."""
    symptoms = tables["symptom"].to_pylist() if "symptom" in tables else []
    causes = tables["cause"].to_pylist() if "cause" in tables else []
    found = {f"{row['symptom']} of {row['entity']}" for row in symptoms}
    return found | {f"{row['rule']} on {row['entity']}" for row in causes if row["chosen"]}


def main() -> int:
    """What to do is read from standard input. Exit code 0; a line is printed for each recording."""
    asked = json.load(sys.stdin)
    if asked["module"]:
        move(asked["module"], asked["name"], asked["factor"], asked["importers"])
    for recording in asked["recordings"]:
        try:
            found = judge(Path(recording))
        except CannotMoveError as error:
            found = {"cannot": str(error)}
        except Exception as error:
            found = {"cannot": f"judging failed: {type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
