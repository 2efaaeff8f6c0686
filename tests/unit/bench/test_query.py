"""`bench.query` compares answers, and fails when a round does."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench import query
from bench.peers import NotInstalledError, leadline, prometheus
from bench.query_parts.data import make_data
from bench.query_parts.questions import GAUGE, Question, differences, questions

S = 10**9


@pytest.fixture(scope="module")
def asks() -> dict[str, Question]:
    data = make_data(1, time.time_ns(), seed=1)
    return {ask.name: ask for ask in questions(data)}


def _answers(ask: Question, change: Mapping[int, float] = {}) -> dict[str, dict[Any, float]]:
    ours = {place: float(place) for place in range(ask.rows)}
    return {"leadline": ours, "prometheus": {**ours, **change}}


def test_equal_answers_do_not_differ(asks: dict[str, Question]) -> None:
    ask = asks["top_ten_by_rate"]
    assert differences(ask, _answers(ask)) == ""
    assert differences(ask, _answers(ask, {3: 3 + 1e-10})) == ""


def test_answers_differ_in_number_keys_or_values(asks: dict[str, Question]) -> None:
    ask = asks["top_ten_by_rate"]
    few = {name: dict(list(answer.items())[:9]) for name, answer in _answers(ask).items()}
    assert differences(ask, few) == "leadline answers top_ten_by_rate with 9 values; the data have 10"
    other = _answers(ask)
    other["prometheus"][99] = other["prometheus"].pop(3)
    assert "of different things, such as 3" in differences(ask, other)
    assert "of 3 with 3.001, leadline with 3.0" in differences(ask, _answers(ask, {3: 3.001}))


def test_each_question_reads_both_kinds_of_answers(asks: dict[str, Question], tmp_path: Path) -> None:
    ask = asks["last_value"]
    ours = {"rows": [{"labels": {"UUID": "GPU-1", "device": "mlx5_0"}, "newest": 7.5}]}
    labels = {"__name__": GAUGE, "UUID": "GPU-1", "device": "mlx5_0"}
    theirs = {"data": {"result": [{"metric": labels, "value": [1_790_000_000, "7.5"]}]}}
    mine, other = leadline(tmp_path), prometheus_like(tmp_path)
    assert ask.answer(mine, json.dumps(ours).encode()) == ask.answer(other, json.dumps(theirs).encode())
    ours["rows"] *= 2
    with pytest.raises(ValueError, match="twice for the same"):
        ask.answer(mine, json.dumps(ours).encode())


def prometheus_like(folder: Path) -> Any:
    """A peer that is never started: only its name is asked for."""
    try:
        return prometheus(folder)
    except NotInstalledError:
        peer = leadline(folder)
        peer.name = "prometheus"
        return peer


def test_a_round_that_fails_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> query.Times:
        raise RuntimeError("prometheus answers last_value with 3 values; the data have 8")

    monkeypatch.setattr(query, "asked", refuse)
    monkeypatch.setattr(sys, "argv", ["query", "--quick", "--only", "queries", "--json"])
    assert query.main() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "a round failed: prometheus answers last_value" in told.err
