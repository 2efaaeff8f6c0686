"""The eval of second opinions, with the double of an API in place of a model, on recordings that ship."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from evals.explain.__main__ import main
from evals.explain.scores import Case, Held, figures
from tests.doubles.openai_api import OpenAiApi, completion, send
from tests.unit.alerts.notices import one

from leadline.explain.opinion import Opinion

NAMED = "port:h3/eth0"


def held(choice: str, broken: str = NAMED, *, known: bool = True, reason: str = "") -> Held:
    incident = one(verdict="known" if known else "unknown")
    opinion = Opinion("ok", entity=choice, rule="x", agrees=choice == NAMED, reason=reason)
    return Held(Case("a", incident, frozenset({broken})), opinion, kept=1, said=4)


def value(of: list[Held], name: str) -> float | None:
    return next(each.value for each in figures(of) if each.figure == name)


def test_ranking_model_and_both_are_told_apart() -> None:
    of = [held(NAMED), held("host:h6"), held("host:h6", "host:h6"), held("", known=False)]
    names = ("ranking_right", "ranking_wrong", "model_right", "model_wrong", "both_right")
    assert [value(of, name) for name in names] == [0.5, 0.25, 0.5, 0.25, 0.25]
    assert value(of, "agree_share") == 0.25
    assert value(of, "right_where_they_agree") == 1.0
    assert value(of, "ranking_right_where_not") == pytest.approx(1 / 3)
    assert value(of, "sentences_held") == 0.25


def test_what_nobody_listed_nobody_could_choose() -> None:
    assert value([held("host:h6", "switch:spine9")], "candidate_right") == 0.0
    assert value([held("host:h6", "switch:spine9")], "chance_right") == 0.0
    assert value([held(NAMED)], "chance_right") == 0.25  # of three candidates and unknown


def test_without_incidents_no_figure_has_a_value() -> None:
    assert {each.value for each in figures([])} == {None}


@pytest.mark.parametrize("given", [[], ["--small", "--url", "http://h/v1"]])
def test_one_model_has_to_be_chosen(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 2
    assert "expected --small, or --url" in capsys.readouterr().err


def _first_candidate(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, completion(json.dumps({"choice": "B", "reason": "", "cites": [], "sentences": []})))


def test_recordings_are_judged_asked_about_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAiApi(_first_candidate).listening() as double:
        assert main(["--url", double.url, "--model", "double", "--only", "oom-kill", "--processes", "1", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["conditions"]["incidents"] == 1
    assert {each["figure"]: each["value"] for each in told["figures"]}["ranking_right"] == 1.0
    assert len(double.requests) == 2  # words, and the opinion


def test_a_model_that_is_away_gives_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAiApi(_first_candidate).listening() as double:
        url = double.url
    assert main(["--url", url, "--model", "double", "--only", "oom-kill", "--processes", "1"]) == 2
    assert "gave no answer" in capsys.readouterr().err
