"""The title of an incident: its cause in words and what that cost; where no cause is named, its symptom.

    link:h3/eth0~leaf1/Ethernet3, link-down 5 times, bert-1, 128 GPU-seconds
      ──> Link h3/eth0 to leaf1 flapped 5 times: bert-1 lost 128 GPU-s

Page, alerts and command line show this one text, so that people who talk of an incident call it the same.
"""

from __future__ import annotations

import re

from leadline.model.ids import EntityId
from leadline.model.incidents import FLAPS, Symptom, symptom_words
from leadline.model.units import gpu_time
from leadline.views.incidents.incident import Cause, Incident

CRITICAL, WARNING = "critical", "warning"
GPU_CHARS = 12  # of a GPU's UUID: `GPU-be1914a2`, as nvidia-smi and people shorten it. Source: convention.


def title(incident: Incident) -> str:
    """`h5 GPU 4 runs at a lower clock than it should: bert-1 lost 2.53 GPU-h`; of several causes the likeliest."""
    if not incident.known:
        return f"{_symptom(incident)}{_and_lost(incident)}, cause unknown"
    more = len(incident.chosen) - 1
    others = f", and {more} more cause{'s' if more > 1 else ''}" if more else ""
    first = incident.chosen[0]
    effect = f"{_who(incident)} lost {gpu_time(incident.lost_gpu_seconds)}"
    if incident.lost_gpu_seconds <= 0:
        effect = _symptom(incident)
    return f"{_capital(thing(first))} {_does(first)}{others}: {effect}"


def severity(symptom: str) -> str:
    """critical where a job stands still or is down; warning where it goes on, slower."""
    return CRITICAL if symptom in (Symptom.STALL, Symptom.CRASH) else WARNING


def thing(cause: Cause) -> str:
    """A component as people call it: `h5 GPU 4`, `link h3/eth0 to leaf1`, `rank 5 on h6`."""
    if cause.name:
        return cause.name
    entity = EntityId.of(cause.entity)
    host = (cause.host or "").removeprefix("host:")
    match entity.kind:
        case "link":
            return _link(entity, host)
        case "rank":
            return f"rank {entity.part} {f'on {host}' if host else f'of {entity.job}'}"
        case "gpu":
            return f"{entity.name[:GPU_CHARS]}{f' on {host}' if host else ''}"
        case "swport":
            return f"port {entity.name}"
        case "":
            return cause.entity
    return f"{entity.kind} {entity.name}"


def _link(entity: EntityId, host: str) -> str:
    """Both ends, the host's first; of a switch beside a host its name alone, because the host has one port there."""
    near, far = entity.ends
    if far.partition("/")[0] == host and host:
        near, far = far, near
    beside = host and near.partition("/")[0] == host
    return f"link {near} to {far.partition('/')[0] if beside else far}"


def _does(cause: Cause) -> str:
    """What is wrong with it, ready to follow its name; of a rule's words the first clause."""
    if cause.death is not None and EntityId.of(cause.entity).kind == "gpu":
        return f"reported {cause.death.words}"
    flaps = max((each.times for each in cause.evidence if each.what in FLAPS), default=0)
    if flaps > 1:
        return f"flapped {flaps} times"
    from leadline.analysis.cause.rules import BY_NAME  # here: it loads all analyses, and a command line starts quicker

    rule = BY_NAME.get(cause.rule)
    return re.split(r"[;:,] ", rule.words)[0] if rule else f"is the cause ({cause.rule.replace('-', ' ')})"


def _who(incident: Incident) -> str:
    """`bert-1`, `bert-1 and 2 more jobs`; without a job the entity that suffers."""
    who = incident.job or incident.entity
    more = len([job for job in incident.jobs if job != incident.job]) if incident.job else 0
    return f"{who} and {more} more job{'s' if more > 1 else ''}" if more else who


def _symptom(incident: Incident) -> str:
    return f"{_who(incident)} {symptom_words(incident.symptom, ongoing=incident.open and not incident.held)}"


def _and_lost(incident: Incident) -> str:
    return f" and lost {gpu_time(incident.lost_gpu_seconds)}" if incident.lost_gpu_seconds > 0 else ""


def _capital(text: str) -> str:
    """A name stays as it is: `h5 GPU 4`, `Link h3/eth0 to leaf1`."""
    word = text.partition(" ")[0]
    return f"{text[:1].upper()}{text[1:]}" if word.isalpha() else text
