"""Pieces of evidence, and what becomes of them in rows."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import pytest
from tests.builders.causes import at, blame, symptom

from leadline.analysis.cause.evidence import Face, Piece, _suspects, remembered
from leadline.analysis.cause.symptoms import lost_of, retold, symptoms_of, told
from leadline.analysis.symptoms.spans import Evidence
from leadline.model.incidents import Symptom
from leadline.model.tables import BY_NAME

S = 10**9
PIECE = Piece(Face("event", "xid", code="79", severity="error"), "gpu:G", 5 * S, 5 * S, None, 0.0, "xid 79", 4 * S)
SYMPTOM = {
    "tenant": "ana", "entity": "job:j", "job": "j", "symptom": "slow", "start_ns": 10 * S, "end_ns": None,
    "bound_ns": None,
    "reported_ns": 12 * S, "lost_gpu_seconds": 4.0, "lost_share": 0.5, "missing": None, "seen_ns": 20 * S,
}  # fmt: skip


def test_a_piece_is_remembered_as_it_was() -> None:
    assert remembered(json.dumps([PIECE.as_row()])) == [PIECE]


@pytest.mark.parametrize("text", ["", "null", "{}", "[1, null]", '[{"time_ns": "5"}]', "[{", '[{"time_ns": true}]'])
def test_nonsense_is_not_remembered(text: str) -> None:
    assert remembered(text) == []


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        (["flow_sent"], "loss"),
        (["edge_fit", "flow_sent"], "loss"),
        (["edge_fit"], "loss-by-probes"),
        (["delay", "edge_fit"], "loss-by-probes"),
        ([], "loss"),
    ],
)
@pytest.mark.parametrize(("probability", "doubt"), [(0.97, ""), (0.5, "-perhaps")])
def test_what_probes_alone_say_is_a_sign_of_its_own(
    tables: list[str], what: str, probability: float, doubt: str
) -> None:
    told = [{"table": name, "text": f"by {name}"} for name in tables]
    row = {
        "kind": "loss", "entity": "link:a/1~b/2", "start_ns": 5 * S, "end_ns": None, "seen_ns": 9 * S,
        "probability": probability, "evidence": json.dumps(told),
    }  # fmt: skip
    (found,) = _suspects([row], 10 * S)
    assert found.face.what == what.replace("loss", f"loss{doubt}")
    assert found.text == f"{told[0]['text'] if told else 'loss'} (probability {probability:.2f})"


@pytest.mark.parametrize(
    "blamed", ["", "[]", "nonsense", "7", '[{"owner": ""}]', '[{"owner": null, "lost_gpu_seconds": 3}]']
)
def test_a_symptom_that_blames_nobody_blames_nobody(blamed: str) -> None:
    (hurt,) = symptoms_of([{**SYMPTOM, "blamed": blamed}], 21 * S, 60 * S)
    assert hurt.blamed == ()


def test_blame_is_told_in_shares() -> None:
    rows = [
        {"owner": "rank:j/0", "category": "straggler", "how": "x", "lost_gpu_seconds": 3},
        {"owner": "rank:j/1", "lost_gpu_seconds": 1},
    ]
    (hurt,) = symptoms_of([{**SYMPTOM, "blamed": json.dumps(rows)}], 21 * S, 60 * S)
    assert [(blame.owner, blame.share) for blame in hurt.blamed] == [("rank:j/0", 0.75), ("rank:j/1", 0.25)]


def test_time_that_is_lost_twice_is_lost_once() -> None:
    (slow,) = symptoms_of([{**SYMPTOM, "blamed": "[]", "end_ns": 50 * S, "lost_gpu_seconds": 30.0}], 51 * S, 60 * S)
    stall = replace(slow, kind=Symptom.STALL, start_ns=15 * S, end_ns=20 * S, lost_gpu_s=10.0)
    later = replace(stall, start_ns=60 * S, end_ns=None)
    other = replace(stall, entity="job:k")
    assert lost_of([slow, stall], 99 * S) == 30.0
    assert lost_of([slow, stall, later, other], 99 * S) == 50.0


def test_symptoms_of_an_incident_are_read_as_they_were_told() -> None:
    rows = [{"owner": "rank:j/0", "category": "straggler", "how": "x", "lost_gpu_seconds": 3}]
    (hurt,) = symptoms_of([{**SYMPTOM, "blamed": json.dumps(rows), "end_ns": 15 * S}], 21 * S, 60 * S)
    (again,) = retold(json.dumps([told(hurt)]), "ana", 20 * S)
    assert again.key == hurt.key
    assert [(each.owner, each.share) for each in again.blamed] == [("rank:j/0", 1.0)]
    assert again.end_ns == hurt.end_ns
    assert [retold(text, "ana", 20 * S) for text in ("nonsense", "[3]", None, '[{"entity": "job:j"}]')] == [[]] * 4


def test_the_shape_of_the_json_is_told_where_the_column_is_declared() -> None:
    (hurt,) = symptoms_of([symptom(blame("rank:bert-1/1", "straggler"))], at(2), 10**12)
    blamed = json.loads(symptom(blame("rank:bert-1/1", "straggler"))["blamed"])
    for table, name, found in (
        ("cause", "evidence", PIECE.as_row() | PIECE.face._asdict()),
        ("incident", "symptoms", told(hurt)),
        ("incident", "symptoms", told(hurt)["blamed"][0]),  # type: ignore[index]
        ("symptom", "blamed", blamed[0]),
        ("symptom", "evidence", asdict(Evidence("", "", "", 0, None, ""))),
    ):
        (doc,) = (column.doc for column in BY_NAME[table].own if column.name == name)
        assert not [key for key in found if not re.search(rf"\b{key}\b", doc)], (table, name)
