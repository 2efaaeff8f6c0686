"""Words of incidents: symptoms, verdicts, actions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Symptom(StrEnum):
    """What is wrong with a job, or with what it runs on."""

    SLOW = "slow"  # steps take longer than they used to
    STALL = "stall"  # nothing moves: a collective that does not end
    CRASH = "crash"  # the job, or some of its ranks, ended with an error
    SLE = "sle"  # an expectation burns its budget and no job is known to suffer
    TELEMETRY_LOST = "telemetry-lost"  # a sender is not heard any more: how its jobs are is not known
    NAME_SHARED = "name-shared"  # two jobs have one name at once: how either is is not known


_IS: Mapping[str, str] = {
    Symptom.SLOW: "is slow", Symptom.STALL: "stands still", Symptom.CRASH: "crashed",
    Symptom.SLE: "misses its expectation", Symptom.TELEMETRY_LOST: "sends no data any more",
    Symptom.NAME_SHARED: "shares its name with another job",
}  # fmt: skip
_WAS: Mapping[str, str] = {
    **_IS, Symptom.SLOW: "was slow", Symptom.STALL: "stood still", Symptom.SLE: "missed its expectation",
    Symptom.TELEMETRY_LOST: "sent no data", Symptom.NAME_SHARED: "shared its name with another job",
}  # fmt: skip


def symptom_words(symptom: str, *, ongoing: bool) -> str:
    """`is slow`, `was slow`: what follows the name of who has it; a symptom that is not known as it is."""
    return (_IS if ongoing else _WAS).get(symptom, symptom)


FLAPS = frozenset({"link-down"})
"""Kinds of events that come and go: how often one came is what people want to know."""


class Verdict(StrEnum):
    """Whether a cause was found."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # the evidence is thin: what is missing is named


class FaultClass(StrEnum):
    """How a fault comes back, from what was seen of it."""

    PERSISTENT = "persistent"
    GRAY = "gray"  # works, but slower, or fails only for some kinds of job or use
    TRANSIENT = "transient"
    UNKNOWN = "unknown"  # the history does not say yet


class Suppressed(StrEnum):
    """Why an incident does not alert."""

    MAINTENANCE = "maintenance"
    DRAIN = "drain"
    PREEMPTION = "preemption"
    DISMISSED = "dismissed"


class ActionKind(StrEnum):
    """What can be done; nothing else is ever proposed."""

    NONE = "NONE"
    RESTART_APP = "RESTART_APP"
    RESET_GPU = "RESET_GPU"
    REBOOT_NODE = "REBOOT_NODE"
    CHECK_CABLE = "CHECK_CABLE"
    DRAIN = "DRAIN"
    REPLACE_NODE = "REPLACE_NODE"
    QUARANTINE = "QUARANTINE"
    AVOID = "AVOID"  # this host for that kind of job
    REBALANCE = "REBALANCE"
    RESIZE = "RESIZE"
    REROUTE = "REROUTE"
    PACE = "PACE"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"


class Mark(StrEnum):
    """What a person said of a cause or an incident."""

    RIGHT = "right"
    WRONG = "wrong"
    DISMISSED = "dismissed"
    COMMENT = "comment"  # of an incident: its text is the reason
    ASSIGNED = "assigned"  # of an incident: whose it is now is the reason; empty: nobody's


RULE_PRECISION_MIN = 0.8
"""A rule that people mark right less often than this falls silent."""
RULE_MARKS_MIN = 5
"""Marks before a rule can fall silent: fewer say nothing of it."""


UNWATCHED_NS = 1
"""A span whose end nobody saw is told as over at the time it was seen last, with `seen_ns` so long after that."""


def is_unwatched(end_ns: int | None, seen_ns: int) -> bool:
    """Whether a row of a span tells an end that nobody saw: it was not watched since then.

    Windows end at whole seconds, so a row that one of them told does not look like this by chance.
    """
    return end_ns is not None and seen_ns == end_ns + UNWATCHED_NS


def repeated(text: str, times: int, first_ns: int | None, last_ns: int | None) -> str:
    """A piece of evidence with how often it was seen: `link-down: eth0 is down (5 times in 28 s)`."""
    if times < 2 or first_ns is None or last_ns is None:
        return text
    return f"{text} ({times} times in {max(0, last_ns - first_ns) / 1e9:.0f} s)"
