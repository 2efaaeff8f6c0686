"""Alerts: what is told of an incident, when, in which form, and what becomes of it where a receiver fails."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from tests.doubles.openai_api import Answer, OpenAiApi, redirect, send
from tests.unit.alerts.notices import URL, one, told
from tests.unit.views.incidents.incident_rows import FLAP, NOW, QUIET, ROWS, THIN, WORKER, S, incident
from tests.unit.views.paths.path_rows import append, filled

from leadline.alerts.alerts import Alerts, findings
from leadline.alerts.config import AlertsConfig, Receiver
from leadline.alerts.delivery import Delivery
from leadline.alerts.due import Rhythm, current, due
from leadline.alerts.notice import Notice, annotations_of
from leadline.alerts.secrets import without_password
from leadline.alerts.sent import KEEP_NS, Sent, Told
from leadline.alerts.wire import alertmanager, cloudevents, rfc3339, signature, webhook
from leadline.model.errors import ConfigError, WorldError
from leadline.store import Store, StoreConfig

CONFIG = AlertsConfig(settle_s=4.0, change_s_min=30.0, resend_s=60.0, stale_s=900.0, late_s=3600.0)
RHYTHM = Rhythm.of(CONFIG, resends=False)
KEEPS = Rhythm.of(CONFIG, resends=True)
FLAPPING = told()

# --- what is told -------------------------------------------------------------------------------------------------


def test_labels_name_things_and_annotations_say_what_to_do() -> None:
    assert dict(FLAPPING.labels) == {
        "alertname": "LeadlineSlow", "incident": FLAP, "job": "bert-1", "symptom": "slow", "rule": "link-down",
        "entity": "port:h3/eth0", "layer": "nic", "severity": "warning", "tenant": "acme", "cluster": "default",
    }  # fmt: skip
    texts = FLAPPING.annotations
    assert texts["summary"] == "Port h3/eth0 lost its carrier: bert-1 lost 105 GPU-s"
    assert texts["commands"] == "ssh h3 'ethtool eth0; sudo ethtool --module-info eth0'"
    assert texts["diagnose"] == "leadline diagnose bert-1"
    assert "lost its carrier 5 times" in texts["evidence"]
    assert texts["link"] == f"{URL}/api/v1/incidents/{FLAP}"


def test_without_a_cause_the_labels_say_unknown_and_what_is_missing_is_said() -> None:
    thin = told(THIN)
    assert (thin.labels["rule"], thin.labels["layer"], thin.labels["entity"]) == ("unknown", "unknown", "job:resnet-2")
    assert (thin.labels["severity"], thin.labels["alertname"]) == ("critical", "LeadlineStall")
    assert thin.annotations["summary"] == "resnet-2 stands still and lost 200 GPU-s, cause unknown"
    assert "for want of collectives of resnet-2" in thin.annotations["description"]
    assert "todo" not in thin.annotations


def test_growing_losses_are_no_news_and_another_cause_is() -> None:
    grown = told(lost_gpu_seconds=9999.0, seen_ns=NOW + S)
    assert (grown.version, grown.id) == (FLAPPING.version, FLAPPING.id)
    assert told(jobs=("bert-1", "resnet-2")).version != FLAPPING.version
    assert told(verdict="unknown", causes=(), missing="metrics of h3").version != FLAPPING.version


def test_a_hostile_name_becomes_no_command() -> None:
    evil = one(WORKER)
    cause = replace(evil.causes[0], host="host:h6; rm -rf /")
    texts = annotations_of(replace(evil, causes=(cause,), job="a b$(reboot)"), URL)
    assert "commands" not in texts
    assert texts["diagnose"] == "leadline diagnose 'a b$(reboot)'"


# --- when ---------------------------------------------------------------------------------------------------------


def heard(each: Notice, ago_s: float, **more: Any) -> Told:
    return replace(Told(each.state, each.version, each.labels, NOW - round(ago_s * S)), **more)


OVER = told(state="over", end_ns=NOW - 5 * S)
YOUNG = told(reported_ns=NOW - 3 * S)


@pytest.mark.parametrize(
    ("each", "before", "rhythm", "expected"),
    [
        (FLAPPING, None, RHYTHM, True),
        (YOUNG, None, RHYTHM, False),  # its verdict may still change
        (FLAPPING, heard(FLAPPING, 3000), RHYTHM, False),  # told once is enough ...
        (FLAPPING, heard(FLAPPING, 59), KEEPS, False),
        (FLAPPING, heard(FLAPPING, 60), KEEPS, True),  # ... but an Alertmanager forgets
        (FLAPPING, heard(FLAPPING, 29, version="other"), RHYTHM, False),  # not every change at once
        (FLAPPING, heard(FLAPPING, 30, version="other"), RHYTHM, True),
        (OVER, heard(FLAPPING, 1), RHYTHM, True),
        (OVER, heard(OVER, 1, version="other"), KEEPS, False),  # it is over: once
        (OVER, None, RHYTHM, True),  # it began and ended unseen
        (told(state="over", end_ns=NOW - 3601 * S), None, RHYTHM, False),  # found by back-fill
        (told(state="over", end_ns=NOW - 9999 * S), heard(FLAPPING, 9999), RHYTHM, True),  # we were away
        (told(QUIET), None, RHYTHM, False),  # suppressed
        (told(QUIET), heard(FLAPPING, 5), RHYTHM, True),  # ... after it was told
        (FLAPPING, heard(told(QUIET), 5), RHYTHM, True),  # and no longer
    ],
)
def test_what_is_due(each: Notice, before: Told | None, rhythm: Rhythm, expected: bool) -> None:
    assert due(each, before, rhythm, NOW) is expected


def test_what_no_window_speaks_of_is_stale_unless_nobody_could_look() -> None:
    later = NOW + 901 * S
    assert current(FLAPPING, RHYTHM, later, 0).state == "stale"
    assert current(FLAPPING, RHYTHM, later, later - 10 * S).state == "open"
    assert due(FLAPPING.as_stale(), heard(FLAPPING, 900), RHYTHM, later)
    assert not due(FLAPPING.as_stale(), None, RHYTHM, later)


# --- in which form ------------------------------------------------------------------------------------------------


def test_an_alert_that_lasts_ends_by_itself_and_one_that_is_over_when_it_was() -> None:
    letter = alertmanager([(FLAPPING, None), (OVER, OVER.labels)], NOW, NOW + 240 * S, URL)
    lasts, over = json.loads(letter.body)
    assert (lasts["startsAt"], lasts["endsAt"]) == (rfc3339(FLAPPING.start_ns), rfc3339(NOW + 240 * S))
    assert over["endsAt"] == rfc3339(NOW - 5 * S)
    assert over["labels"] == lasts["labels"]


def test_with_other_labels_the_alert_before_ends() -> None:
    before = {**FLAPPING.labels, "rule": "unknown", "layer": "unknown"}
    old, new = json.loads(alertmanager([(FLAPPING, before)], NOW, NOW + 240 * S, URL).body)
    assert (old["labels"]["rule"], old["endsAt"]) == ("unknown", rfc3339(NOW))
    assert (new["labels"]["rule"], new["endsAt"]) == ("link-down", rfc3339(NOW + 240 * S))


def test_no_alert_ends_before_it_begins() -> None:
    broken = told(state="over", end_ns=FLAPPING.start_ns - S)
    (only,) = json.loads(alertmanager([(broken, None)], NOW, NOW, URL).body)
    assert only["endsAt"] > only["startsAt"]


def test_a_signature_is_of_the_time_and_the_body() -> None:
    letter = webhook(FLAPPING, NOW, b"key")
    given = dict(part.split("=") for part in letter.headers["leadline-signature"].split(","))
    assert given == {"t": str(NOW // S), "v1": signature(letter.body, str(NOW // S), b"key")}
    assert signature(letter.body + b" ", given["t"], b"key") != given["v1"]
    assert "leadline-signature" not in webhook(FLAPPING, NOW).headers
    document = json.loads(letter.body)
    assert (document["schema"], document["state"], document["id"]) == (1, "open", FLAPPING.id)
    assert document["incident"]["causes"][0]["entity"] == "port:h3/eth0"


def test_an_event_has_what_the_standard_asks_and_an_id_for_the_same_news() -> None:
    event = json.loads(cloudevents(FLAPPING, NOW).body)
    assert {name: event[name] for name in ("specversion", "type", "source", "subject", "datacontenttype")} == {
        "specversion": "1.0", "type": "dev.leadline.incident.open", "source": "/leadline/default/acme",
        "subject": FLAP, "datacontenttype": "application/json",
    }  # fmt: skip
    assert event["id"] == json.loads(cloudevents(told(lost_gpu_seconds=1e6), NOW + S).body)["id"]
    assert event["id"] != json.loads(cloudevents(OVER, NOW).body)["id"]
    assert cloudevents(FLAPPING, NOW).headers["content-type"].startswith("application/cloudevents+json")


def test_what_is_no_number_in_json_is_text() -> None:
    text = webhook(told(lost_gpu_seconds=float("nan")), NOW).body
    assert json.loads(text, parse_constant=pytest.fail)["incident"]["lost_gpu_seconds"] == "NaN"


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0, "1970-01-01T00:00:00.000000000Z"), (-1, "1969-12-31T23:59:59.999999999Z"),
     (2**63 - 1, "2262-04-11T23:47:16.854775807Z"), (10**18 + 1, "2001-09-09T01:46:40.000000001Z")],
)  # fmt: skip
def test_times_keep_their_nanoseconds(time_ns: int, text: str) -> None:
    assert rfc3339(time_ns) == text


# --- telling ------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_ns = NOW

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Files that tests opened are closed."""
    yield
    while Desk.opened:
        Desk.opened.pop().close()


class Desk:
    """A delivery over a transport without sockets, its answers as told, its counts and its clock."""

    opened: ClassVar[list[Sent]] = []

    def __init__(self, path: Path, answer: Callable[[httpx.Request], httpx.Response], **more: Any) -> None:
        self.clock, self.counts, self.requests = Clock(), dict[str, int](), list[httpx.Request]()
        self.sent = Sent(path / "alerts.sqlite")
        self.sent.open()
        self.opened.append(self.sent)
        receiver = Receiver("desk", more.pop("kind", "webhook"), "http://desk.example/in", **more)
        self.delivery = Delivery(
            receiver, CONFIG, URL, {"KEY": "s3cret"}, self.sent, self._count, self.clock, lambda: 1.0
        )
        self.delivery.restore()
        self._answer = answer

    def _count(self, counter: Any, amount: int) -> None:
        self.counts[counter.reason] = self.counts.get(counter.reason, 0) + amount

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answer(request)

    def tell(self, *notices: Notice) -> float:
        async def once() -> float:
            async with httpx.AsyncClient(transport=httpx.MockTransport(self._handle)) as client:
                return await self.delivery.tell(client, {each.key: each for each in notices})

        return asyncio.run(once())

    def states(self) -> list[str]:
        return [json.loads(request.content)["state"] for request in self.requests]


def ok(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200)


def test_news_is_told_once_and_its_end_once_also_after_a_restart(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ok, secret_env="KEY", token_env="KEY")
    assert desk.tell(FLAPPING) == CONFIG.every_s
    desk.tell(FLAPPING)
    desk.sent.close()
    again = Desk(tmp_path, ok)
    again.tell(FLAPPING)
    again.tell(OVER)
    again.tell(OVER)
    assert (desk.states(), again.states()) == (["open"], ["over"])
    assert desk.requests[0].headers["authorization"] == "Bearer s3cret"
    assert "leadline-signature" in desk.requests[0].headers
    assert desk.counts == {"alerts": 1}


def test_a_receiver_that_fails_is_tried_again_further_and_further_apart(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda _: httpx.Response(503, text="later"))
    assert [desk.tell(FLAPPING, told(THIN)) for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert len(desk.requests) == 10  # one request a try, not one for each that waits
    state = desk.delivery.state()
    assert (state.state, state.waiting, state.last_error) == ("failing", 2, "status 503: later")
    assert "alerts do not reach desk" in findings([state])[0]["text"]
    desk._answer = ok
    assert desk.tell(FLAPPING, told(THIN)) == CONFIG.every_s
    assert desk.delivery.state().state == "ok"
    assert desk.counts == {"status": 10, "alerts": 2}


def test_what_a_receiver_asks_to_wait_is_waited(tmp_path: Path) -> None:
    assert Desk(tmp_path, lambda _: httpx.Response(429, headers={"retry-after": "77"})).tell(FLAPPING) == 77


def test_while_it_is_away_news_do_not_pile_up(tmp_path: Path) -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    desk = Desk(tmp_path, gone)
    for version in range(5):
        desk.tell(replace(FLAPPING, version=str(version)))
    desk._answer = ok
    desk.tell(OVER)
    assert desk.states()[-1:] == ["over"]
    assert desk.counts == {"unreachable": 5, "alerts": 1}


def test_a_body_that_is_refused_for_good_is_given_up_until_it_changes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda _: httpx.Response(422, text="no such field"))
    for _ in range(3):
        assert desk.tell(FLAPPING) == CONFIG.every_s
    assert (len(desk.requests), desk.counts) == (1, {"refused": 1})
    desk._answer = ok
    desk.tell(OVER)
    assert desk.states() == ["open", "over"]


def test_one_bad_alert_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    def picky(request: httpx.Request) -> httpx.Response:
        jobs = [alert["labels"]["job"] for alert in json.loads(request.content)]
        return httpx.Response(400 if "resnet-2" in jobs else 200)

    desk = Desk(tmp_path, picky, kind="alertmanager")
    desk.tell(FLAPPING, told(THIN))
    assert desk.counts == {"refused": 1, "alerts": 1}
    assert str(desk.requests[0].url) == "http://desk.example/in/api/v2/alerts"


def test_a_receiver_of_a_tenant_hears_of_no_other(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ok, tenants=("beta",))
    desk.tell(FLAPPING, told(THIN))
    assert [json.loads(request.content)["labels"]["tenant"] for request in desk.requests] == ["beta"]


def test_a_redirect_is_no_success(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda _: httpx.Response(302, headers={"location": "http://elsewhere.example/"}))
    desk.tell(FLAPPING)
    assert desk.counts == {"status": 1}


def test_a_spoilt_file_is_put_aside_and_a_place_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "alerts.sqlite"
    path.write_bytes(b"not a database" * 100)
    sent = Sent(path)
    sent.open()
    assert sent.all_of("desk") == {}
    assert path.with_suffix(".spoilt").exists()
    sent.save("desk", {FLAPPING.key: heard(FLAPPING, 0), OVER.key: heard(OVER, 0)}, NOW)
    sent.save("desk", {}, NOW + 2 * KEEP_NS)
    assert sent.all_of("desk") == {}  # over for long
    sent.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match=r"set alerts.state to a file that can be written"):
        Sent(tmp_path / "file" / "alerts.sqlite").open()


@pytest.mark.parametrize(
    ("receiver", "told"),
    [
        (
            Receiver("a", "webhook", "desk.example"),
            "url: expected http://HOST:PORT/..., .* got 'desk.example'|expected",
        ),
        (Receiver("a", "webhook", "http://x/", secret_env="NONE"), "a: secret: the environment has no variable NONE"),
        (Receiver("a", "webhook", "http://x/", secret_file="/nowhere"), "/nowhere: cannot be read: No such file"),
        (Receiver("a", "webhook", "http://x/", secret_file="f", secret_env="E"), "remove one"),
        (Receiver("", "webhook", "http://x/"), "needs a name of its own"),
    ],
)
def test_a_receiver_that_cannot_be_is_told_at_the_start(store: Store, receiver: Receiver, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Alerts(AlertsConfig(receivers=(receiver,)), store, lambda *_: None, URL, {})


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert without_password("https://me:pw@desk.example/in?token=x") == "https://desk.example/…"
    assert without_password("https://hooks.example/services/T01/B02/s3cret") == "https://hooks.example/…"
    assert without_password("me:pw@desk.example") == "desk.example"


class Running:
    """A delivery as it runs, against a real server that answers as told."""

    def __init__(self, directory: Path, *answers: Answer, **more: Any) -> None:
        self.double, self.counts = OpenAiApi(*answers), dict[str, int]()
        sent = Sent(directory / "alerts.sqlite")
        sent.open()
        Desk.opened.append(sent)
        receiver = Receiver("desk", "webhook", f"{self.double.url}/chat/completions", **more)
        self.delivery = Delivery(receiver, CONFIG, URL, {"KEY": "s3cret"}, sent, self._count, lambda: NOW)

    def _count(self, counter: Any, amount: int) -> None:
        self.counts[counter.reason] = self.counts.get(counter.reason, 0) + amount

    def __call__(self) -> None:
        async def until_counted() -> None:
            task = asyncio.create_task(self.delivery.run({FLAPPING.key: FLAPPING}))
            async with asyncio.timeout(20):
                while not self.counts:
                    await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        with self.double.listening():
            asyncio.run(until_counted())


def test_a_redirect_is_not_followed_and_no_proxy_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = OpenAiApi("{}")
    with other.listening():
        monkeypatch.setenv("HTTP_PROXY", other.url)
        monkeypatch.setenv("ALL_PROXY", other.url)
        running = Running(tmp_path, redirect(f"{other.url}/chat/completions"), token_env="KEY")
        running()
    assert (len(running.double.requests), other.requests, running.counts) == (1, [], {"status": 1})


def test_an_answer_that_drips_or_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    stop, wrote = threading.Event(), []

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        while not stop.wait(0.05):  # headers that never end: each byte comes soon enough for a limit of one read
            handler.wfile.write(b"x-a: b\r\n")
            handler.wfile.flush()

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(500)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(b"x" * 65_536)
            wrote.append(1)

    dripping = Running(tmp_path, drip, timeout_s=0.3)
    dripping()
    stop.set()
    assert dripping.counts == {"unreachable": 1}
    flooding = Running(tmp_path, flood)
    flooding()
    assert (flooding.counts, len(wrote) < 1000) == ({"status": 1}, True)
    assert len(flooding.delivery.state().last_error) < 350


def test_no_secret_is_logged_or_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def echo(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 500, b"bad token s3cret\nhere")

    running = Running(tmp_path, echo, token_env="KEY")
    running()
    shown = f"{caplog.text} {running.delivery.state()} {findings([running.delivery.state()])}"
    assert "status 500: bad token *** here" in shown
    assert not any(word in shown for word in ("s3cret", "completions"))


def test_attributes_of_an_event_have_no_control_characters() -> None:
    event = json.loads(cloudevents(replace(FLAPPING, key=("a\nb", "c d", "x%0A\n\x1b-slow-1")), NOW).body)
    assert all(each.isprintable() for name, each in event.items() if name != "data")
    assert (event["subject"], event["source"]) == ("x%250A%0A%1B-slow-1", "/leadline/c%20d/a%0Ab")


# --- the board ----------------------------------------------------------------------------------------------------

OLD = "old-slow-1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("alerts"), ROWS) as store:
        ended = incident(OLD, "old-1", -9000, state="over", end_ns=NOW - 8000 * S, seen_ns=NOW - 8000 * S)
        append(store, {"incident": [ended]})
        yield store


def alerts_of(store: Store, counts: dict[str, int], **more: Any) -> Alerts:
    def count(counter: Any, amount: int) -> None:
        counts[counter.reason] = counts.get(counter.reason, 0) + amount

    config = replace(CONFIG, receivers=(Receiver("desk", "webhook", "http://desk.example/in"),), **more)
    return Alerts(config, store, count, URL, {}, lambda: NOW)


def test_the_board_holds_how_each_incident_stands_and_what_is_long_over_is_passed(store: Store) -> None:
    counts: dict[str, int] = {}
    alerts = alerts_of(store, counts)
    for _ in range(3):
        alerts.look()
    states = {key[2]: each.state for key, each in alerts.board.items()}
    assert states == {FLAP: "open", THIN: "open", QUIET: "suppressed", WORKER: "over"}
    assert counts == {"late": 1}
    flap = alerts.board["acme", "default", FLAP]
    assert (flap.labels["rule"], flap.incident["lost_gpu_seconds"]) == ("link-down", 105.0)
    slurm, kubernetes = alerts.board["acme", "default", WORKER].annotations["commands"].splitlines()
    assert "NodeName=h6 State=DRAIN" in slurm  # its host is looked up
    assert kubernetes.startswith("kubectl drain h6 ")


def test_an_alert_waits_for_the_data_of_its_job(store: Store) -> None:
    late: list[tuple[str, str, str]] = []
    alerts = alerts_of(store, {})
    alerts._late_jobs = lambda: late
    alerts.look()
    key, each = next((key, each) for key, each in alerts.board.items() if each.lasts)
    later_ns = each.reported_ns + 3600 * S
    assert due(each, None, RHYTHM, later_ns)
    late.append((*key[:2], each.incident["jobs"][0]))
    alerts.look()
    held = alerts.board[key]
    assert (held.waits, due(held, None, RHYTHM, later_ns)) == (True, False)
    assert current(held, RHYTHM, later_ns, 0).state == "open"  # not stale: it is not known how it is
    late.clear()
    alerts.look()
    assert due(alerts.board[key], None, RHYTHM, later_ns)


def test_beyond_the_bound_incidents_are_counted(store: Store) -> None:
    counts: dict[str, int] = {}
    alerts = alerts_of(store, counts, waiting_max=3)
    alerts.look()
    alerts.look()
    assert (len(alerts.board), counts["full"]) == (3, 1)


def test_a_store_that_does_not_answer_is_asked_again() -> None:
    counts: dict[str, int] = {}
    alerts = alerts_of(Store(StoreConfig(path="nowhere")), counts)
    alerts.look()
    assert (alerts.board, counts) == ({}, {"look": 1})
