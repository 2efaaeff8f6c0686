"""Asking a model: what comes of good, bad, hostile, slow and huge replies; budgets; what leaves the house."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.openai_api import Answer, OpenAiApi, completion, redirect, said, send
from tests.unit.alerts.notices import one
from tests.unit.views.incidents.incident_rows import FLAP, NOW

from leadline.explain.budget import DAY_NS
from leadline.explain.config import ExplainConfig
from leadline.explain.explain import Explainer
from leadline.model.errors import ConfigError
from leadline.views.incidents.incident import Incident

INCIDENT = one(FLAP)
SLOW = ("bert-1 is slow and has lost 105 GPU-seconds so far.", [1])
CAUSE = ("The cause is link-down at port:h3/eth0 on host:h3.", [2])
GOOD = said(SLOW, CAUSE)


class Bench:
    """An explainer in front of the double, its counts and its clock."""

    def __init__(self, directory: Path, double: OpenAiApi, **more: Any) -> None:
        self.counts: dict[str, int] = {}
        self.now_ns = NOW
        self.config = ExplainConfig(url=double.url, model="double", timeout_s=more.pop("timeout_s", 5.0), **more)
        self.explainer = Explainer(self.config, directory, self._count, {}, lambda: self.now_ns)

    def _count(self, counter: Any, amount: int) -> None:
        if amount:
            self.counts[counter.reason] = self.counts.get(counter.reason, 0) + amount

    def ask(self, incident: Incident = INCIDENT, tenants: tuple[str, ...] = ()) -> dict[str, Any]:
        """The model's part of the explanation; the rest is the same whatever it does."""
        found = self.explainer.explain(incident, with_model=True, tenants=tenants)
        without = self.explainer.explain(incident, with_model=False)
        assert {**found, "model": 0} == {**without, "model": 0}
        model: dict[str, Any] = found["model"]
        return model


class Benches:
    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack

    def __call__(self, *answers: Answer, **more: Any) -> tuple[Bench, OpenAiApi]:
        double = self._stack.enter_context(OpenAiApi(*answers).listening())
        return Bench(self._directory, double, **more), double


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[Benches]:
    with ExitStack() as stack:
        yield Benches(tmp_path, stack)


def texts(model: dict[str, Any]) -> list[str]:
    return [each["text"] for each in model["sentences"]]


# --- replies that hold --------------------------------------------------------------------------------------------


def test_sentences_that_hold_are_told_and_the_request_is_as_the_api_wants_it(benches: Benches) -> None:
    bench, double = benches(GOOD, api_key="k3y")
    model = bench.ask()
    assert (model["state"], texts(model), model["tokens"]) == ("ok", [SLOW[0], CAUSE[0]], 1420)
    (asked,) = double.requests
    assert double.headers[0]["authorization"] == "Bearer k3y"
    assert (asked["model"], asked["response_format"]["type"]) == ("double", "json_schema")
    assert [each["role"] for each in asked["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user"]  # fmt: skip
    facts = json.loads(asked["messages"][-1]["content"])["facts"]
    assert [each["number"] for each in facts] == list(range(1, 9))
    assert bench.counts == {"answers": 1}


def test_the_same_question_is_asked_once(benches: Benches) -> None:
    bench, double = benches(GOOD)
    assert bench.ask() == bench.ask()
    bench.ask(replace(INCIDENT, lost_gpu_seconds=200.0))
    assert len(double.requests) == 2


def test_json_between_marks_is_read(benches: Benches) -> None:
    bench, _ = benches(f"```json\n{GOOD}\n```")
    assert bench.ask()["state"] == "ok"


def test_a_server_that_knows_no_schema_is_asked_more_plainly(benches: Benches) -> None:
    def refuse(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 400, b'{"error": {"message": "response_format is not supported"}}')

    bench, double = benches(refuse, GOOD)
    assert bench.ask()["state"] == "ok"
    assert "response_format" not in double.requests[1]
    assert double.requests[1]["max_completion_tokens"] == 700
    bench.ask(replace(INCIDENT, lost_gpu_seconds=7.0))
    assert len(double.requests) == 3  # it is remembered


# --- hostile and broken replies -----------------------------------------------------------------------------------


def test_of_a_hostile_reply_only_what_holds_is_left(benches: Benches) -> None:
    bench, _ = benches(said(
        SLOW, ("The real cause is slow-gpu at gpu:GPU-9.", [2]), ("Run rm -rf / on host:h3.", [6]),
        ("port:h3/eth0 is not the cause.", [2]), ("bert-1 has lost 1 GPU-hour.", [1]), ("All is well.", []),
        ("bert-1 is slow.", [77]),
    ))  # fmt: skip
    model = bench.ask()
    assert (model["state"], texts(model), len(model["dropped"])) == ("ok", [SLOW[0]], 6)
    assert bench.counts == {"answers": 1, "sentences": 6}


def test_where_nothing_holds_that_is_said(benches: Benches) -> None:
    bench, _ = benches(said(("Everything is on fire.", [1])))
    model = bench.ask()
    assert (model["state"], model["sentences"], model["why"]) == ("nothing", (), "no sentence of the model held")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the response is no JSON"),
        (b"<html>busy</html>", "the response is no JSON"),
        (b"[" * 100_000, "the response is no JSON"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": [{"message": {"content": null}}]}', "the model returned nothing"),
        (b'{"choices": [{"message": {"content": [1]}}]}', "the model returned nothing"),
        (b"[1]", "no choices"),
        (b"null", "no choices"),
        (completion(""), "the model returned nothing"),
        (completion("I am sorry, Dave."), "what the model returned is no JSON"),
        (completion(GOOD[:-5]), "what the model returned is no JSON"),
        (b"\xff\xfe" + completion(GOOD), "the response is no JSON"),
    ],
)
def test_nonsense_is_told_as_such(benches: Benches, body: bytes, why: str) -> None:
    bench, _ = benches(lambda handler: send(handler, 200, body))
    model = bench.ask()
    assert (model["state"], bench.counts) == ("failed", {"malformed": 1})
    assert why in model["why"]


def test_a_huge_reply_is_cut_off(benches: Benches) -> None:
    wrote = []

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(b"x" * 65_536)
            wrote.append(1)

    bench, _ = benches(flood)
    model = bench.ask()
    assert (model["state"], bench.counts) == ("failed", {"malformed": 1})
    assert "larger than" in model["why"]
    assert len(wrote) < 1000


def test_a_reply_that_drips_is_not_waited_for(benches: Benches) -> None:
    """Each byte comes soon enough for any limit of a single read."""
    stop = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    bench, _ = benches(drip, timeout_s=0.4)
    began = time.monotonic()
    model = bench.ask()
    stop.set()
    assert time.monotonic() - began < 5
    assert (model["why"], bench.counts) == ("no answer within explain.timeout_s, 0.4 s", {"unreachable": 1})


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503, 302])
def test_errors_of_the_api_are_told_without_the_key(benches: Benches, status: int) -> None:
    bench, double = benches(
        lambda handler: send(handler, status, b'{"error": "bad key k3y-secret"}'), api_key="k3y-secret"
    )
    model = bench.ask()
    assert model["state"] == "failed"
    assert f"status {status}" in model["why"]
    assert "k3y-secret" not in model["why"]
    assert (len(double.requests), bench.counts) == (1, {"status": 1})


def test_a_redirect_is_not_followed_and_no_proxy_is_asked(benches: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key and the facts are for one address."""
    _, other = benches(GOOD)
    monkeypatch.setenv("HTTP_PROXY", other.url)
    monkeypatch.setenv("ALL_PROXY", other.url)
    bench, double = benches(redirect(f"{other.url}/chat/completions"), api_key="k3y")
    assert "status 307" in bench.ask()["why"]
    assert (len(double.requests), other.requests) == (1, [])


def test_a_model_that_is_away_changes_nothing_else(tmp_path: Path) -> None:
    double = OpenAiApi(GOOD)
    with double.listening():
        pass
    model = Bench(tmp_path, double).ask()
    assert (model["state"], model["sentences"]) == ("failed", ())


def test_without_a_model_none_is_asked(tmp_path: Path) -> None:
    explainer = Explainer(ExplainConfig(), tmp_path, lambda *_: None, {})
    found = explainer.explain(INCIDENT, with_model=True)
    assert (found["model"]["state"], found["model"]["why"]) == ("off", "no model is set (explain.url)")
    assert found["sentences"][0]["cites"] == (1,)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (ExplainConfig(url="http://localhost/v1"), "explain.model is not"),
        (ExplainConfig(url="localhost", model="x"), "explain.url: expected http://HOST:PORT"),
        (ExplainConfig(url="http://h/v1", model="x", api_key_file="/nowhere"), "explain.api_key_file: /nowhere"),
    ],
)
def test_settings_that_cannot_be_are_told_at_the_start(tmp_path: Path, config: ExplainConfig, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Explainer(config, tmp_path, lambda *_: None, {})


# --- what leaves --------------------------------------------------------------------------------------------------


def test_secrets_and_tenants_do_not_leave_and_names_come_back(benches: Benches) -> None:
    first = INCIDENT.causes[0]
    line = "upload to s3 with password=hunter2 for globex failed at 10.9.8.7"
    evidence = (replace(first.evidence[0], text=line), *first.evidence[1:])
    incident = replace(INCIDENT, job="acme-bert", jobs=("acme-bert",), causes=(replace(first, evidence=evidence),))
    bench, double = benches(said(("tenantB-bert is slow and lost 105 GPU-seconds.", [1])))
    model = bench.ask(incident, ("acme", "globex", "default"))
    assert texts(model) == ["acme-bert is slow and lost 105 GPU-seconds."]
    for word in ("acme", "globex", "hunter2", "10.9.8.7"):
        assert word not in double.sent(), word
    found = bench.explainer.explain(incident, with_model=False)
    assert any(line in each["text"] for each in found["facts"])  # our own text is for those who may see the rows


# --- what it may cost ---------------------------------------------------------------------------------------------


def asked_often(bench: Bench, times: int) -> list[str]:
    return [bench.ask(replace(INCIDENT, lost_gpu_seconds=100.0 + place))["state"] for place in range(times)]


def test_beyond_the_tokens_of_a_day_no_model_is_asked_and_the_next_day_one_is(benches: Benches, tmp_path: Path) -> None:
    bench, double = benches(lambda handler: send(handler, 200, completion(GOOD, 9000, 1000)), tokens_per_day=25_000)
    states = asked_often(bench, 5)
    assert states[-1] == "failed"
    asked = len(double.requests)
    assert 1 <= asked <= 3
    assert bench.counts["budget"] == 5 - asked
    again = Bench(tmp_path, double, tokens_per_day=25_000)  # a restart gives no new day
    assert again.ask(replace(INCIDENT, lost_gpu_seconds=1.0))["state"] == "failed"
    again.now_ns += DAY_NS
    assert again.ask(replace(INCIDENT, lost_gpu_seconds=2.0))["why"] != "the budget of this day is spent"
    assert len(double.requests) == asked + 1


def test_beyond_the_money_of_a_day_no_model_is_asked(benches: Benches) -> None:
    bench, double = benches(GOOD, price_in=100.0, price_out=100.0, money_per_day=0.0)
    assert asked_often(bench, 2) == ["failed", "failed"]
    assert double.requests == []


@pytest.mark.parametrize("usage", [(-5, -5), ("many", None), (10**12, 1), (0, 0), (True, 1)])
def test_a_model_that_lies_about_what_it_took_is_counted_by_us(benches: Benches, usage: tuple[Any, Any]) -> None:
    bench, _ = benches(lambda handler: send(handler, 200, completion(GOOD, *usage)))
    assert bench.ask()["tokens"] > 500


def test_where_a_model_tells_no_tokens_of_its_answer_the_most_that_was_asked_for_counts(benches: Benches) -> None:
    took = []
    for tokens_out in (0, None):
        body = completion(GOOD, "many", tokens_out)
        bench, _ = benches(partial(send, status=200, body=body))
        took.append(bench.ask()["tokens"])
    assert took[1] - took[0] == 700


def test_what_failed_counts_as_spent(benches: Benches) -> None:
    bench, double = benches(lambda handler: send(handler, 500, b"{}"), tokens_per_day=12_000)
    states = asked_often(bench, 4)
    assert set(states) == {"failed"}
    assert len(double.requests) < 4
    assert bench.counts["budget"] == 4 - len(double.requests)


def test_where_costs_cannot_be_kept_no_model_is_asked(benches: Benches, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench, double = benches(GOOD, state=str(tmp_path / "file" / "explain.sqlite"))
    model = bench.ask()
    assert (model["state"], double.requests, bench.counts) == ("failed", [], {"state": 1})


def test_not_more_than_two_are_asked_at_once(benches: Benches) -> None:
    here, go = threading.Semaphore(0), threading.Event()

    def wait(handler: BaseHTTPRequestHandler) -> None:
        here.release()
        go.wait(10)
        send(handler, 200, completion(GOOD))

    bench, _ = benches(wait)
    changed = [replace(INCIDENT, lost_gpu_seconds=float(place)) for place in range(2)]
    threads = [threading.Thread(target=bench.ask, args=(each,)) for each in changed]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert here.acquire(timeout=10)
    third = bench.ask(replace(INCIDENT, lost_gpu_seconds=50.0))
    go.set()
    for thread in threads:
        thread.join()
    assert (third["state"], bench.counts["busy"]) == ("failed", 1)
