"""When a sender is late: its own rhythm says, and who sends when something happens has none."""

from __future__ import annotations

import pytest

from leadline.ingest.sources import Sender, Source
from leadline.views.sources import state_of_source

S = 10**9


@pytest.mark.parametrize(
    ("way", "quiet_s", "state"),
    [
        ("otlp-http", 10, "ok"),
        ("otlp-http", 100, "warning"),
        ("scrape", 100, "warning"),
        ("rows", 100, "ok"),
        ("ring", 3600, "ok"),
    ],
)
def test_silence_is_told_of_senders_that_have_a_rhythm(way: str, quiet_s: int, state: str) -> None:
    source = Source(Sender("default", way, "someone"), first_ns=0, last_ns=50 * S, requests=11)  # every 5 s
    findings: list[dict[str, str]] = []
    assert state_of_source(source, (50 + quiet_s) * S, findings)["state"] == state
    assert bool(findings) == (state != "ok")


def test_an_error_is_told_whoever_made_it() -> None:
    source = Source(Sender("default", "rows", "x"), 0, S, requests=1, last_error="bad", last_error_ns=S, last_do="mend")
    findings: list[dict[str, str]] = []
    assert state_of_source(source, 2 * S, findings)["state"] == "warning"
    assert findings[0]["do"] == "mend"
