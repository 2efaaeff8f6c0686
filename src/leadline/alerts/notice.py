"""What receivers are told of an incident: its state, labels that route it, texts for people. Pure.

Labels are an alert's identity and of a bounded set: names of things and words of Leadline, no numbers, no sentences.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from leadline.views.incidents.actions import advice, incident_json
from leadline.views.incidents.facts import explanation
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.title import severity, title
from leadline.views.rows import json_number

DOCUMENT_VERSION = 1
"""Version of the document of webhooks and CloudEvents; it grows when a field changes its meaning or goes away."""
OPEN, OVER, STALE, SUPPRESSED = "open", "over", "stale", "suppressed"
"""States that are told. stale: no window has spoken of it for long, so nobody knows; suppressed: it need not alert."""
DESCRIPTION_LINES = 8
LABEL_CHARS_MAX = 256
Key = tuple[str, str, str]  # tenant, cluster, incident


@dataclass(frozen=True, slots=True)
class Notice:
    """What is to be told of one incident now. `version` changes when receivers should hear of it again."""

    key: Key
    state: str
    version: str
    start_ns: int
    end_ns: int | None
    reported_ns: int
    seen_ns: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    incident: Mapping[str, Any]
    waits: bool = False  # the data of a job that it is of is late: how the incident is now is not known yet

    @property
    def lasts(self) -> bool:
        """Whether it is an alert now."""
        return self.state == OPEN

    @property
    def id(self) -> str:
        """The same for the same news, however often it is sent: receivers drop repetitions by it."""
        tenant, cluster, incident = self.key
        return f"{tenant}/{cluster}/{incident}/{self.state}/{self.version}"

    def as_stale(self) -> Notice:
        """The same where no window has spoken of it for long."""
        return replace(self, state=STALE) if self.state == OPEN else self

    def document(self) -> dict[str, Any]:
        """The JSON document for webhooks and CloudEvents."""
        return {
            "schema": DOCUMENT_VERSION, "id": self.id, "state": self.state, "labels": dict(self.labels),
            "annotations": dict(self.annotations), "incident": dict(self.incident),
        }  # fmt: skip


def notice(incident: Incident, url: str) -> Notice:
    """What is to be told of an incident. `url`: base of Leadline's API, for links."""
    state = SUPPRESSED if incident.suppressed else OPEN if incident.open else STALE if incident.unwatched else OVER
    labels = labels_of(incident)
    actions = [(each.entity, each.rule, each.action) for each in incident.chosen]
    said = [incident.verdict, incident.missing, incident.suppressed, sorted(incident.jobs), labels, actions]
    return Notice(
        key=(incident.tenant, incident.cluster, incident.incident), state=state,
        version=hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12],
        start_ns=incident.start_ns, end_ns=incident.end_ns, reported_ns=incident.reported_ns, seen_ns=incident.seen_ns,
        labels=labels, annotations=annotations_of(incident, url), incident=_finite(incident_json(incident)),
    )  # fmt: skip


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity, which a column of an import may hold: they become text."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def labels_of(incident: Incident) -> dict[str, str]:
    """Labels of the alert; those of the cause are `unknown` while none is named."""
    first = incident.chosen[0] if incident.known else None
    found = {
        "alertname": f"Leadline{incident.symptom.capitalize()}",
        "incident": incident.incident,
        "job": incident.job or "",
        "symptom": incident.symptom,
        "rule": first.rule if first else "unknown",
        "entity": first.entity if first else incident.entity,
        "layer": first.layer if first else "unknown",
        "severity": severity(incident.symptom),
        "tenant": incident.tenant,
        "cluster": incident.cluster,
    }
    # An Alertmanager takes an empty label for one that is not there.
    return {name: _label(value) for name, value in found.items() if value}


def _label(value: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in value)[:LABEL_CHARS_MAX]


def annotations_of(incident: Incident, url: str) -> dict[str, str]:
    """Texts of the alert: a line, the explanation, what to do and the commands for it, one a line."""
    told = explanation(incident)
    found = {
        "summary": title(incident),
        "description": "\n".join(str(each) for each in told.sentences[:DESCRIPTION_LINES]),
        "evidence": "\n".join(f"[{each.number}] {each.text}" for each in told.facts),
        "diagnose": f"leadline diagnose {shlex.quote(incident.job or incident.incident)}",
        "link": f"{url}/api/v1/incidents/{quote(incident.incident, safe='')}",
    }
    if incident.known:
        done = advice(incident)
        found["todo"] = "\n".join(each.words for each in done)
        found["commands"] = "\n".join(command for each in done for command in each.commands)
    return {name: text for name, text in found.items() if text}
