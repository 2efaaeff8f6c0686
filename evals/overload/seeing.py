"""What the product says of itself meanwhile: `/metrics` each second, and `doctor` as its user asks it."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from leadline.analysis import ANALYSES

EVERY_S = 1.0
ANSWER_S_MAX = 60.0
CAUSES = ("slowdowns", "stalls", "cause")  # whose verdicts an alert waits for
S = 10**9


@dataclass(slots=True)
class Seeing:
    """Looks until it is stopped. `lags_s`: of each analysis beyond window and grace, by the second of the look."""

    url: str
    lags_s: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    counts: dict[tuple[str, str], float] = field(default_factory=dict)  # as told last, by name and reason
    unanswered: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Look from now on."""
        self._thread = threading.Thread(target=self._run, name="seeing", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(ANSWER_S_MAX + 5)

    def look(self) -> bool:
        """Once; whether it was answered."""
        at_s = time.monotonic()
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=ANSWER_S_MAX) as answer:
                text = answer.read().decode()
        except OSError:
            self.unanswered += 1
            return False
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("leadline_") and len(sample.labels) <= 1:
                    self.counts[sample.name, next(iter(sample.labels.values()), "")] = sample.value
        for each in ANALYSES:
            if (lag_s := self.counts.get(("leadline_analysis_lag_seconds", each.name))) is not None:
                beyond_s = lag_s - each.window_ns / S - each.grace_ns / S
                self.lags_s.setdefault(each.name, []).append((at_s, beyond_s))
        return True

    def worst_lag_s(self, causes: bool, from_s: float, to_s: float) -> float | None:
        """Median over a time of the largest lag of the analyses of causes, or of all others; None: nothing was told."""
        worst: dict[float, float] = {}
        for name, told in self.lags_s.items():
            for at_s, lag_s in told:
                if (name in CAUSES) is causes and from_s <= at_s <= to_s:
                    worst[at_s] = max(worst.get(at_s, 0.0), lag_s)
        found = sorted(worst.values())
        return found[len(found) // 2] if found else None

    def waiting_rows(self) -> float:
        """Rows that wait to be stored, as told last."""
        return sum(amount for (name, _), amount in self.counts.items() if name == "leadline_queue_rows")

    def past_windows(self) -> float:
        """Windows of the past that are left to judge, as told last."""
        return sum(amount for (name, _), amount in self.counts.items() if name == "leadline_analysis_past")

    def counted(self) -> dict[str, float]:
        """All that says that something was refused, lost, late or failed, since the server began."""
        return {
            f"{name.removeprefix('leadline_').removesuffix('_total')} {reason}": round(amount, 3)
            for (name, reason), amount in self.counts.items()
            if amount and name.endswith("_total") and not name.startswith(("leadline_cpu", "leadline_ingest_accepted"))
        }

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.look()


def findings(url: str, timeout_s: float) -> list[dict[str, Any]]:
    """What `leadline doctor` finds; one that says so if nobody answers."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/doctor", timeout=timeout_s) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())["findings"]
    except (OSError, ValueError) as error:
        return [{"severity": "critical", "text": f"doctor was not answered: {error}"}]
    return found


def select(url: str, query: str) -> list[dict[str, Any]] | None:
    """Rows of a SELECT, as a user asks; None if it fails."""
    request = urllib.request.Request(
        f"{url}/api/v1/sql", json.dumps({"sql": query}).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            rows: list[dict[str, Any]] = json.loads(answer.read())["rows"]
    except (OSError, ValueError, KeyError):
        return None
    return rows
