"""One class of components that probes say is bad, and how it becomes rows of `suspect`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.localise.mesh_paths import Component
from leadline.model.ids import kind_of
from leadline.model.units import S

LOSS, QUEUE, DEAD, STALL = "loss", "queue", "dead", "host-stall"
FOUND_MAX = 8  # that are told at once
PRIOR = {"switch": -3.0, "host": -1.0, "port": -1.0, "link": 0.0}
"""Log odds of kinds: a part of a fabric breaks more often than all of a switch. A link both ways: as a port."""


@dataclass(frozen=True, slots=True)
class Found:
    """One class of components that is bad."""

    members: tuple[Component, ...]  # the same paths cross them
    others: tuple[Component, ...]  # others that are nearly as likely
    kind: str
    probability: float  # of the class
    amount: float  # loss ratio, or ns of queueing
    paths: int  # paths that cross it
    shown: int  # of them, those that show it
    odds: float  # log likelihood ratio
    since: int = 0  # slot from which on it shows


def prior(members: Sequence[Component]) -> float:
    """Log odds of the likeliest member."""
    return max(
        PRIOR["port"] if kind_of(each.entity) == "link" and not each.way else PRIOR.get(kind_of(each.entity), 0.0)
        for each in members
    )


def rows(found: Sequence[Found], from_ns: int, slot_ns: int = S) -> list[Mapping[str, object]]:
    """What was found as rows of `suspect`, without the window that tells it: one of each class.

    The entity is the narrowest member; `others` are the rest of its class and what is nearly as likely. The probability
    is that of the class: its members are one thing to whom it concerns (a card, its cable, its host's only way out).
    """
    out: list[Mapping[str, object]] = []
    for each in found:
        first = min(each.members, key=lambda one: (-prior([one]), one))
        alike = {one.entity for one in (*each.members, *each.others)} - {first.entity}
        start_ns = from_ns + each.since * slot_ns
        evidence = {
            "table": "delay", "entity": first.entity, "what": "queue_p99_ns" if each.kind == QUEUE else "lost",
            "time_ns": start_ns, "bound_ns": None, "text": in_words(each),
        }  # fmt: skip
        out.append({
            "entity": first.entity, "others": sorted(alike), "probability": each.probability, "kind": each.kind,
            "start_ns": start_ns, "evidence": json.dumps([evidence]),
        })  # fmt: skip
    return out


def in_words(each: Found) -> str:
    """One sentence."""
    ways = {one.way for one in each.members if one.way}
    way = f" towards {min(ways)}" if len(ways) == 1 and all(one.way for one in each.members) else ""
    over = f"{each.shown} of {each.paths} probe paths over it{way}"
    if each.kind == QUEUE:
        return f"{over} wait {each.amount / 1000:.1f} us longer than others"
    if each.kind == DEAD:
        return f"nothing came over any of {each.paths} probe paths over it{way}"
    return f"{over} lose probes: {each.amount:.3%} of them are lost there"
