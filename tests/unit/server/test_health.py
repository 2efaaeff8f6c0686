"""When a sender is late: its own rhythm says, and who sends when something happens has none."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.ingest.sources import Sender, Source
from leadline.server import health
from leadline.store import TableFacts
from leadline.store.asking.behind import Behind, Held
from leadline.views.sources import findings_of, over_finding, state_of_source

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


def test_what_was_sent_again_and_taken_is_no_error_any_more() -> None:
    """For minutes doctor said that scanners were being compiled, beside the samples that had come since."""
    refused = Source(
        Sender("default", "scrape", "x"), 0, S, 0, 2, last_error="wait", last_error_ns=S + 1, last_reason="compiling"
    )
    assert state_of_source(refused, 2 * S, [])["state"] == "warning"
    refused.last_ns = 2 * S
    assert state_of_source(refused, 2 * S, [])["state"] == "ok"
    refused.last_reason = "malformed"
    assert state_of_source(refused, 2 * S, [])["state"] == "warning", "the next body may be as bad"


def source(number: int, way: str = "scrape", last_s: int = 100, **more: Any) -> Source:
    """One that was heard every 5 s up to a time."""
    return Source(Sender("default", way, f"n{number}"), 0, last_s * S, requests=1 + last_s // 5, **more)


def test_a_store_that_takes_nothing_is_told_with_the_table_and_for_how_long() -> None:
    assert health._of_store(2.0, "event") == []
    ((found),) = health._of_store(12.4, "event")
    assert found["state"] == "warning"
    assert found["text"].startswith("the store has not taken rows of event for 12 s")


def test_a_store_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ten times the load that a server can take `doctor` did not answer at all: it waited for the store."""
    monkeypatch.setattr(health, "STORE_WAIT_S", 0.05)
    answers = threading.Event()
    full = TableFacts("step", 12, 340, 1, 2)

    def hangs() -> list[TableFacts]:
        assert answers.wait(30)
        return [full]

    parts: Any = SimpleNamespace(store=SimpleNamespace(facts=hangs), facts=Behind("facts"))
    tables, ((found),) = health._facts(parts)
    assert tables == []
    assert found["state"] == "warning"
    assert found["text"].startswith("the store has not answered for 0 s")
    answers.set()
    assert parts.facts.told(hangs) == Held([full], 0.0)
    assert health._facts(parts)[0] == [{"table": "step", "rows": 12, "bytes": 340, "oldest_ns": 1, "newest_ns": 2}]


def test_who_sent_once_is_not_late() -> None:
    once = Source(Sender("default", "otlp-http", "script"), 0, 0, requests=1)
    assert findings_of([once], 3600 * S, {}) == ([], 0)


def test_many_of_one_kind_are_one_line() -> None:
    few, _ = findings_of([source(each) for each in range(3)], 200 * S, {})
    assert len(few) == 3
    (found,), _ = findings_of([source(each) for each in range(21)], 200 * S, {})
    assert found["text"] == "scrape: 21 senders are silent (n0, n1, n2 and 18 more)"
    failing = [source(each, last_error=f"refused by n{each}", last_error_ns=(190 + each) * S) for each in range(5)]
    found = findings_of(failing, 110 * S, {})[0][0]
    assert found["text"] == "scrape: 5 senders fail (n0, n1, n2 and 2 more); the newest error: refused by n4"


def test_what_needs_another_remedy_is_a_line_of_its_own() -> None:
    """A file that nobody can read is not lost among the exporters that are down."""
    down = [source(each, last_error="down", last_error_ns=190 * S, last_do="start it") for each in range(5)]
    file = source(9, last_error="bad JSON", last_error_ns=100 * S, last_do="mend it")
    found, _ = findings_of([*down, file], 110 * S, {})
    assert [each["do"] for each in found] == ["start it", "mend it"]
    assert found[1]["text"] == "scrape n9: bad JSON"


def test_senders_of_an_ended_run_are_no_warning_but_one_line() -> None:
    some = [source(each) for each in range(52)]
    found, over = findings_of([*some, source(99, last_s=900)], 2000 * S, {"default": 150 * S})
    assert [each["text"] for each in found] == ["scrape n99: silent for 1100 s"]  # it went on, so it is news
    assert over_finding(over, ["demo"]) == [
        {"state": "ok", "text": "52 senders of the ended run demo are silent", "do": ""}
    ]
    assert over_finding(0, []) == []
    assert state_of_source(some[0], 2000 * S, [], {"default": 150 * S})["state"] == "ok"
