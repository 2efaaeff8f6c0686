"""Ledger and incidents of the shipped recordings, as `judge_bundle` concludes them.

`python -m tests.golden.lost.recorded` judges them again.

Judging them takes a minute and more, so what every view has to agree on is kept in `verdicts.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "verdicts.json"
NAMES = ("demo", "gpu-throttle", "healthy", "neighbour-congestion", "oom-kill", "slow-loader")
LEDGER = ("job", "end_ns", "window_ns", "category", "owner", "seconds", "gpu_seconds", "lost_seconds",
          "lost_gpu_seconds", "confidence", "depth")  # fmt: skip
INCIDENT = ("incident", "entity", "job", "jobs", "symptom", "start_ns", "end_ns", "reported_ns", "seen_ns", "state",
            "verdict", "lost_gpu_seconds", "symptoms")  # fmt: skip


def recorded() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """By recording the rows of `ledger` and `incident`; of a recording without incidents none."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Judge all of them again."""
    from leadline.lab.incidents import incident
    from leadline.runner.offline import judge_bundle
    from leadline.views.rows import json_rows

    found = {}
    for name in NAMES:
        judged = judge_bundle(incident(name))
        found[name] = {
            table: [{column: row[column] for column in columns} for row in json_rows(judged[table])]
            if table in judged
            else []
            for table, columns in (("ledger", LEDGER), ("incident", INCIDENT))
        }
    FILE.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n", "utf-8")


if __name__ == "__main__":
    main()
