"""`leadline mark`, `leadline show rules`, `leadline explain` against a running server, and what they print."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from time import time_ns
from typing import Any

import pytest
from rich.console import Console
from tests.senders.running import RunningLeadline, imported, ndjson
from tests.unit.views.incidents.incident_rows import FLAP, NOW, cause, incident
from typer.testing import CliRunner

from leadline.cli import explain
from leadline.cli.main import app
from leadline.cli.show import rules as show_rules
from leadline.model.errors import UnknownNameError, UsageError
from leadline.model.incidents import RULE_MARKS_MIN


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """A server with one incident of acme."""
    shift_ns = time_ns() - NOW
    with RunningLeadline(tmp_path_factory.mktemp("marks")) as server:
        for table, row in (("cause", cause(FLAP, 1, "port:h3/eth0", "link-down", 0.93, -48)),
                           ("incident", incident(FLAP, "bert-1", -48))):  # fmt: skip
            moved = {name: value + shift_ns if name in ("start_ns", "seen_ns", "reported_ns") else value
                     for name, value in row.items() if name not in ("tenant", "cluster")}  # fmt: skip
            given = {**imported("acme"), "content-type": "application/x-ndjson"}
            answer = server.http.post(f"/api/v1/rows/{table}", content=ndjson([moved]), headers=given)
            assert answer.status_code < 300, answer.text
        yield server


def run(leadline: RunningLeadline, *words: str) -> str:
    found = CliRunner().invoke(app, [*words, "--server", leadline.url], catch_exceptions=True)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


def test_a_cause_is_marked_and_its_rule_has_a_record(leadline: RunningLeadline) -> None:
    said = run(leadline, "mark", FLAP, "right", "--reason", "cable swapped")
    assert f"{FLAP}: link-down at port:h3/eth0 is marked right by operator:default" in said
    rules = json.loads(run(leadline, "show", "rules", "--output", "json"))["rules"]
    assert [(each["right"], each["wrong"]) for each in rules if each["rule"] == "link-down"] == [(1, 0)]
    assert "link-down" in run(leadline, "show", "rules")
    assert leadline.sql("SELECT reason FROM mark") == [{"reason": "cable swapped"}]


def test_who_marked_what_is_for_the_server_to_say(leadline: RunningLeadline) -> None:
    """Rows that anybody may write would silence rules and alerts."""
    row = {"incident": FLAP, "entity": "", "rule": "", "mark": "dismissed", "actor": "operator:default", "reason": "",
           "time_ns": time_ns()}  # fmt: skip
    for headers in ({}, {"leadline-tenant": "acme"}):
        answer = leadline.http.post("/api/v1/rows/mark", content=ndjson([row]), headers=headers)
        assert (answer.status_code, answer.json()["error"]["reason"]) == (404, "unknown_table")
        assert "POST /api/v1/marks" in answer.json()["error"]["message"]
    assert leadline.sql("SELECT count() AS n FROM mark WHERE mark = 'dismissed'") == [{"n": 0}]


def test_what_cannot_be_marked_says_what_can(leadline: RunningLeadline) -> None:
    with pytest.raises(UsageError, match=r"host:h1 is no cause of bert-1-slow-1; its causes are link-down at port:h3"):
        run(leadline, "mark", FLAP, "wrong", "--entity", "host:h1")
    with pytest.raises(UnknownNameError, match="no incident 'nothing' is known; the newest are bert-1-slow-1"):
        run(leadline, "mark", "nothing", "right")


def test_an_incident_is_explained_with_its_facts_and_without_a_model_that_is_said(leadline: RunningLeadline) -> None:
    said = run(leadline, "explain", FLAP, "--model", "--opinion")
    assert said.count("no model is set (explain.url)") == 2
    assert "The cause is link-down at port:h3/eth0" in said
    assert "no model is set (explain.url)" in said
    assert "[2] cause: link-down at port:h3/eth0 on host:h3" in said


def printed(tell: Any, *given: Any) -> str:
    out = Console(file=io.StringIO(), width=100)
    tell(out, *given)
    text: str = out.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_silent_rules_are_told_as_such() -> None:
    rule = {"rule": "slow-gpu", "words": "runs slow", "layer": "gpu", "right": 1, "wrong": 4, "precision": 0.2}
    found = {
        "precision_min": 0.8,
        "marks_min": RULE_MARKS_MIN,
        "rules": [{**rule, "silent": True, "silent_for": ["a"]}],
    }
    said = printed(show_rules.tell, found, False)
    assert "silent" in said
    assert "20.0 %" in said
    none = {**found, "rules": [{**rule, "right": 0, "wrong": 0, "precision": None, "silent": False, "silent_for": []}]}
    assert "no cause has been marked yet, so all 1 rules are active" in printed(show_rules.tell, none, False)


def test_text_of_others_is_no_markup() -> None:
    sentence = {"text": "[red]x[/red] is slow", "cites": [1]}
    model = {"model": "m[b]", "why": "", "sentences": [sentence], "dropped": ["names [b]"]}
    each = {"incident": "i", "tenant": "t", "sentences": [sentence], "facts": [], "model": model}
    said = printed(explain.tell, each, True)
    assert said.count("[red]x[/red] is slow [1]") == 2
    assert "dropped: 1 (names [b])" in said


@pytest.mark.parametrize(
    ("opinion", "lines"),
    [
        ({"entity": "host:h6", "rule": "cpu-throttled", "agrees": False, "reason": "[b]It is throttled."},
         ["cpu-throttled at host:h6: Leadline says otherwise", "[b]It is throttled."]),
        ({"entity": "host:h6", "rule": "cpu-throttled", "agrees": True, "why": "the reason it gave was dropped: x"},
         ["cpu-throttled at host:h6: as Leadline says", "the reason it gave was dropped: x"]),
        ({"agrees": True}, ["the cause is unknown: as Leadline says"]),
        ({"state": "failed", "agrees": None, "why": "status 500"}, ["status 500"]),
    ],
)  # fmt: skip
def test_a_second_opinion_is_told_with_whether_it_agrees(opinion: dict[str, Any], lines: list[str]) -> None:
    whole = {
        "state": "ok",
        "why": "",
        "model": "m[b]",
        "entity": "",
        "rule": "",
        "reason": "",
        "rests_on": [],
        **opinion,
    }
    each = {"incident": "i", "tenant": "t", "sentences": [], "facts": [], "opinion": whole}
    said = printed(explain.tell, each, False, True)
    assert "second opinion of m[b], which changes no verdict" in said
    after = said.partition("verdict\n")[2].partition("\nfacts")[0]
    assert [line for line in after.splitlines() if line] == lines
