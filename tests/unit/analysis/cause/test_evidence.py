"""Pieces of evidence, and what becomes of them in rows."""

from __future__ import annotations

import json

import pytest

from leadline.analysis.cause.evidence import Face, Piece, remembered
from leadline.analysis.cause.hurts import hurts_of, lost_of, retold, told

S = 10**9
PIECE = Piece(Face("event", "xid", code="79", severity="error"), "gpu:G", 5 * S, 5 * S, None, 0.0, "xid 79", 4 * S)
SYMPTOM = {
    "tenant": "ana", "entity": "job:j", "job": "j", "symptom": "slow", "start_ns": 10 * S, "end_ns": None,
    "bound_ns": None, "told_ns": 12 * S, "lost_gpu_seconds": 4.0, "lost_share": 0.5, "missing": None, "seen_ns": 20 * S,
}  # fmt: skip


def test_a_piece_is_remembered_as_it_was() -> None:
    assert remembered(json.dumps([PIECE.as_row()])) == [PIECE]


@pytest.mark.parametrize("text", ["", "null", "{}", "[1, null]", '[{"time_ns": "5"}]', "[{", '[{"time_ns": true}]'])
def test_nonsense_is_not_remembered(text: str) -> None:
    assert remembered(text) == []


@pytest.mark.parametrize(
    "blamed", ["", "[]", "nonsense", "7", '[{"owner": ""}]', '[{"owner": null, "lost_gpu_seconds": 3}]']
)
def test_a_symptom_that_blames_nobody_blames_nobody(blamed: str) -> None:
    (hurt,) = hurts_of([{**SYMPTOM, "blamed": blamed}], 21 * S, 60 * S)
    assert hurt.blamed == ()


def test_blame_is_told_in_shares() -> None:
    rows = [
        {"owner": "rank:j/0", "category": "late-rank", "how": "x", "lost_gpu_seconds": 3},
        {"owner": "rank:j/1", "lost_gpu_seconds": 1},
    ]
    (hurt,) = hurts_of([{**SYMPTOM, "blamed": json.dumps(rows)}], 21 * S, 60 * S)
    assert [(blame.owner, blame.share) for blame in hurt.blamed] == [("rank:j/0", 0.75), ("rank:j/1", 0.25)]


def test_time_that_is_lost_twice_is_lost_once() -> None:
    slow = {"entity": "job:j", "symptom": "slow", "start_ns": 0, "end_ns": 50 * S, "lost_gpu_seconds": 30.0}
    stall = {**slow, "symptom": "stall", "start_ns": 10 * S, "end_ns": 20 * S, "lost_gpu_seconds": 10.0}
    later = {**stall, "start_ns": 60 * S, "end_ns": None}
    other = {**stall, "entity": "job:k"}
    assert lost_of([slow, stall], 99 * S) == 30.0
    assert lost_of([slow, stall, later, other], 99 * S) == 50.0


def test_symptoms_of_an_incident_are_read_as_they_were_told() -> None:
    (hurt,) = hurts_of([{**SYMPTOM, "blamed": "[]"}], 21 * S, 60 * S)
    assert retold(json.dumps([told(hurt)])) == [told(hurt)]
    assert retold("nonsense") == retold("[3]") == retold(None) == []
