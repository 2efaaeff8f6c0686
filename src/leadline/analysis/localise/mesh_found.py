"""One class of components that probes say is bad, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.localise.mesh_paths import Component
from leadline.model.ids import kind_of

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


def narrowest(each: Found) -> tuple[str, tuple[str, ...]]:
    """The entity that stands for a class, and all that cannot be told from it: the rest of it, and what is as likely.

    Of members as likely the link: its cable and cards are more than the port alone, and fail more often than the host.
    """
    first = min(each.members, key=lambda one: (-prior([one]), kind_of(one.entity) != "link", one))
    alike = {one.entity for one in (*each.members, *each.others)} - {first.entity}
    return first.entity, tuple(sorted(alike))


def measured(each: Found) -> str:
    """The column of `delay` or `edge_fit` that shows it."""
    return {QUEUE: "queue_p99_ns", STALL: "stall_ns"}.get(each.kind, "lost")


def in_words(each: Found, lost: float = 0.0, rest: float = 0.0, *, tail: bool = False) -> str:
    """One sentence. `lost`, `rest`: of loss, the shares of probes lost on paths over it, on those over nothing bad.
    `tail`: of queueing, only some of the probes wait."""
    ways = {one.way for one in each.members if one.way}
    way = f" towards {min(ways)}" if len(ways) == 1 and all(one.way for one in each.members) else ""
    over = f"{each.shown} of {each.paths} probe paths over it{way}"
    if each.kind == QUEUE:
        whose = "have a slowest hundredth that waits" if tail else "wait"
        return f"{over} {whose} {each.amount / 1000:.1f} us longer than others"
    if each.kind == DEAD:
        return f"nothing came over any of {each.paths} probe paths over it{way}, others live"
    seen = f"{each.shown} of {each.paths} paths show it"
    return f"probes across it{way} lose {lost:.2%}, across all others {rest:.3%} ({seen})"
