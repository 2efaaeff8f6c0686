"""`leadline status` and `leadline show symptoms`: what they say of a server, and what they print."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console
from tests.senders.running import RunningLeadline
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_diagnose import answer
from tests.unit.views.incidents.incident_rows import FLAP, NOW, QUIET, S, symptom

from leadline.cli.show import symptoms as show_symptoms
from leadline.cli.status import lines_of
from leadline.views.symptoms import _told

DOCTOR: dict[str, Any] = {
    "state": "ok", "version": "1", "up_s": 7200.0, "findings": [], "sources": [{"state": "ok", "name": "h1"}],
}  # fmt: skip


def states(doctor: dict[str, Any], diagnosis: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each.state, each.text) for each in lines_of(doctor, diagnosis)]


def test_a_line_each_where_all_is_well() -> None:
    assert states(DOCTOR, answer()) == [
        ("ok", "Leadline 1, up 2 h"), ("ok", "1 sending"), ("ok", "1 reported a step within the last hour: bert-1"),
        ("ok", "none open"),
    ]  # fmt: skip


def test_what_is_not_well_is_named() -> None:
    sick = {**DOCTOR, "state": "warning", "findings": [{"state": "warning", "text": "h2 is silent", "do": ""}],
            "sources": [{"state": "warning", "name": f"h{number}"} for number in range(5)]}  # fmt: skip
    told = states(sick, answer(FLAP, QUIET))
    assert told[0] == ("warning", "Leadline 1, up 2 h; h2 is silent")
    assert told[1] == ("warning", "5 sending, 5 not well: h0, h1, h2 and 2 more")
    assert told[3] == ("critical", "2 open, 1 suppressed; Port h3/eth0 lost its carrier: bert-1 lost 105 GPU-s")
    assert states(DOCTOR, answer(QUIET))[3] == ("ok", "1 open, 1 suppressed")
    unheard = states({**DOCTOR, "sources": [], "state": "warning"}, answer(about="bert-2"))
    assert unheard[1] == ("warning", "no senders")
    played = states({**DOCTOR, "sources": [], "state": "ok", "findings": []}, answer(about="bert-2"))
    assert played[1] == ("ok", "no senders")
    assert unheard[2] == ("warning", "no data for a job or incident 'bert-2'; did you mean bert-1?")


def test_who_is_late_or_lost_is_named() -> None:
    sender = {"name": "agent", "host": "h3", "state": "late", "behind_s": 87.0, "last_heard_s": 0.3}
    late = states({**DOCTOR, "senders": [sender, {**sender, "state": "ok", "host": "h1"}]}, answer())
    assert late[1] == ("warning", "1 sending, 1 not well: agent of h3 is 87 s behind")
    lost = states({**DOCTOR, "senders": [{**sender, "state": "lost", "last_heard_s": 40.0}]}, answer())
    assert lost[1] == ("warning", "1 sending, 1 not well: nothing from agent of h3 for 40 s")


def test_symptoms_of_a_server_without_any(leadline: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "symptoms", "bert-1", "--server", leadline.url)
    assert (ran.code, ran.out.splitlines()[0]) == (3, "symptoms: 0, of which 0 open")  # nobody knows of bert-1
    ran = leadline_cli("status", "--server", leadline.url, "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["well"]) == (1, False)
    assert [each["what"] for each in found["lines"]] == ["server", "sources", "jobs", "incidents"]


def test_a_server_that_is_away_is_not_well(leadline_cli: Run) -> None:
    ran = leadline_cli("status", "--server", "http://127.0.0.1:1")
    assert (ran.code, ran.out.split()[:2]) == (1, ["critical", "server"])


@pytest.mark.parametrize(
    ("row", "state", "words"),
    [
        (symptom("bert-1", -48), "open", ["48 s", "100 GPU-s", "50.0 %", "port:h3/eth0"]),
        (symptom("bert-1", -48, end_ns=NOW - 8 * S), "over", ["40 s"]),
        (symptom("bert-1", -900, seen_ns=NOW - 300 * S), "stale", ["10 min"]),
        (symptom("bert-1", -9, blamed="no JSON", missing="steps of 3 ranks"), "open", ["unknown: steps of 3 ranks"]),
    ],
)
def test_a_symptom_has_a_line(row: dict[str, Any], state: str, words: list[str]) -> None:
    told = _told(row, NOW)
    assert told["state"] == state
    out = Console(width=200, file=io.StringIO(), color_system=None)
    show_symptoms.tell(out, {"symptoms_total": 1, "symptoms": [told]})
    text = str(out.file.getvalue())  # type: ignore[attr-defined]
    assert all(word in text for word in [state, *words]), text
