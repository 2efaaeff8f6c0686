"""A real Alertmanager is told of incidents by a real Leadline: grouped, once each, over when they are over.

A webhook of our own stands beside it; Alertmanager notifies another, so that what people would see is seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time_ns
from typing import Any

import httpx
import pytest
from tests.senders.running import RunningLeadline, free_ports, imported, ndjson, running, wait_for
from tests.unit.views.incidents.incident_rows import FLAP, FLAP_EVIDENCE, NOW, THIN, S, cause, incident

from leadline.alerts.wire import signature

ALERTMANAGER = """
route: {{receiver: people, group_by: [incident], group_wait: 100ms, group_interval: 500ms, repeat_interval: 1h}}
receivers:
  - name: people
    webhook_configs: [{{url: "http://{people}/", send_resolved: true}}]
"""
LEADLINE = """
alerts:
  settle_s: 0.5
  every_s: 0.5
  change_s_min: 0
  resend_s: 1
  receivers:
    - {{name: am, kind: alertmanager, url: "http://{alertmanager}"}}
    - {{name: hook, kind: webhook, url: "http://{hook}/", secret_env: HOOK_SECRET}}
    - {{name: events, kind: cloudevents, url: "http://{hook}/events"}}
    - {{name: gone, kind: webhook, url: "http://127.0.0.1:1/"}}
"""


class Heard:
    """A double of a webhook: keeps what is posted."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, Mapping[str, str], bytes]] = []
        heard = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                heard.posts.append((self.path, headers, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def listening(self) -> Iterator[Heard]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def documents(self, path: str = "/") -> list[dict[str, Any]]:
        return [json.loads(body) for at, _, body in self.posts if at == path]


@dataclass
class Setting:
    leadline: RunningLeadline
    alertmanager: str
    people: Heard
    hook: Heard
    shift_ns: int = field(default_factory=lambda: time_ns() - NOW)

    def store(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Rows of a table, moved to the present."""
        moved = [
            {
                name: value + self.shift_ns if name.endswith("_ns") and name != "bound_ns" and value else value
                for name, value in row.items()
                if name not in ("tenant", "cluster")
            }
            for row in rows
        ]
        headers = {**imported(str(rows[0]["tenant"])), "content-type": "application/x-ndjson"}
        answer = self.leadline.http.post(f"/api/v1/rows/{table}", content=ndjson(moved), headers=headers)
        assert answer.status_code < 300, answer.text

    def alerts(self, incident: str) -> list[dict[str, Any]]:
        """What Alertmanager holds of an incident."""
        given = {"filter": f'incident="{incident}"'}
        answer = httpx.get(f"{self.alertmanager}/api/v2/alerts", params=given, trust_env=False)
        found: list[dict[str, Any]] = answer.json()
        return found

    def told(self, incident: str, path: str = "/") -> list[str]:
        """The states that the webhook heard of an incident, in order."""
        documents = [each.get("data", each) for each in self.hook.documents(path)]
        return [each["state"] for each in documents if each["labels"]["incident"] == incident]

    def last_rule(self, incident: str, path: str = "/") -> str:
        """The cause that the webhook heard last of an incident."""
        documents = [each.get("data", each) for each in self.hook.documents(path)]
        return next((str(each["labels"]["rule"]) for each in reversed(documents)
                     if each["labels"]["incident"] == incident), "")  # fmt: skip


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    directory = tmp_path_factory.mktemp("alertmanager")
    port, cluster_port = free_ports(2)
    with ExitStack() as stack:
        people, hook = (stack.enter_context(Heard().listening()) for _ in range(2))
        config = directory / "alertmanager.yml"
        config.write_text(ALERTMANAGER.format(people=people.address))
        command = [
            "prometheus-alertmanager", f"--config.file={config}", f"--storage.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", f"--cluster.listen-address=127.0.0.1:{cluster_port}",
        ]  # fmt: skip
        stack.enter_context(running(command, directory / "alertmanager.log"))
        (directory / "leadline.yaml").write_text(LEADLINE.format(alertmanager=f"127.0.0.1:{port}", hook=hook.address))
        leadline = stack.enter_context(RunningLeadline(directory, {"HOOK_SECRET": "s3cret"}))
        yield Setting(leadline, f"http://127.0.0.1:{port}", people, hook)


def test_an_incident_becomes_an_alert_that_people_are_told_of_once(setting: Setting, tmp_path: Path) -> None:
    setting.store("cause", cause(FLAP, 1, "port:h3/eth0", "link-down", 0.93, -48.4,
                                 evidence=json.dumps(FLAP_EVIDENCE)))  # fmt: skip
    setting.store("incident", incident(FLAP, "bert-1", -48))
    (alert,) = wait_for("the alert", lambda: setting.alerts(FLAP))
    assert alert["status"]["state"] == "active"
    assert alert["labels"]["entity"] == "port:h3/eth0"
    assert alert["annotations"]["diagnose"] == "leadline diagnose bert-1"
    first_ends = alert["endsAt"]
    wait_for("it to be sent again before it ends", lambda: setting.alerts(FLAP)[0]["endsAt"] > first_ends)
    wait_for("people to be told", setting.people.documents)
    notified = setting.people.documents()
    assert [each["status"] for each in notified] == ["firing"]
    assert notified[0]["groupLabels"] == {"incident": FLAP}


def test_the_webhook_is_told_with_a_signature_and_the_event_beside_it(setting: Setting) -> None:
    wait_for("the webhook to be told", lambda: setting.told(FLAP) and setting.told(FLAP, "/events"))
    _, headers, body = next(post for post in setting.hook.posts if post[0] == "/")
    given = dict(part.split("=") for part in headers["leadline-signature"].split(","))
    assert given["v1"] == signature(body, given["t"], b"s3cret")
    assert setting.told(FLAP) == ["open"]


def test_a_cause_that_is_found_later_takes_the_place_of_none(setting: Setting) -> None:
    thin = incident(THIN, "resnet-2", -20, tenant="beta", symptom="stall")
    setting.store("incident", {**thin, "verdict": "unknown", "missing": "collectives"})
    wait_for("the alert without a cause", lambda: setting.alerts(THIN))
    seen_ns = NOW + 2 * S
    setting.store("cause", cause(THIN, 1, "gpu:GPU-6", "gpu-lost", 0.97, -20, tenant="beta", seen_ns=seen_ns))
    setting.store("incident", {**thin, "seen_ns": seen_ns})
    (alert,) = wait_for("one alert with the cause", lambda: [
        each for each in setting.alerts(THIN) if each["labels"]["rule"] == "gpu-lost"])  # fmt: skip
    assert alert["labels"]["severity"] == "critical"
    assert [each["labels"]["rule"] for each in setting.alerts(THIN)] == ["gpu-lost"]


def test_after_a_restart_nobody_is_told_the_same_again_and_the_end_is_told(setting: Setting) -> None:
    pid = setting.leadline.wait_ready()
    for path in ("/", "/events"):  # the news of before, which is not what is counted here
        wait_for("the cause to be told", lambda path=path: setting.last_rule(THIN, path) == "gpu-lost")
    before = len(setting.hook.posts)
    setting.leadline.stop()
    setting.leadline.start()
    assert setting.leadline.wait_ready() != pid
    over = incident(FLAP, "bert-1", -48, state="over", end_ns=NOW + S, seen_ns=NOW + 4 * S)
    setting.store("incident", over)
    wait_for("the alert to be resolved", lambda: not setting.alerts(FLAP))
    wait_for("people to be told", lambda: setting.people.documents()[-1]["status"] == "resolved")
    wait_for("the webhook to be told", lambda: setting.told(FLAP)[-1] == "over")
    assert setting.told(FLAP) == ["open", "over"]

    def posts() -> int:
        return len(setting.hook.documents()) + len(setting.hook.documents("/events"))

    wait_for("both to be told", lambda: posts() >= before + 2)
    assert posts() == before + 2


def test_a_receiver_that_is_gone_is_told_in_doctor_and_holds_up_nobody(setting: Setting) -> None:
    found = setting.leadline.doctor()
    assert any("alerts do not reach gone" in each["text"] for each in found["findings"])
    assert setting.leadline.refused()["alert_failed", "unreachable"] > 0
    states = {each["name"]: each["state"] for each in setting.leadline.http.get("/api/v1/alerts").json()["receivers"]}
    assert states == {"am": "ok", "hook": "ok", "events": "ok", "gone": "failing"}
