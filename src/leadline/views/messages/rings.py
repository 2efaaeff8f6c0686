"""The shape of who sends to whom on a channel: a ring in its order, a chain, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RING, CHAIN, OTHER = "ring", "chain", "other"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel. `order`: ranks in the order in which they send to each other, a ring's from its smallest one."""

    channel: int
    shape: str
    order: tuple[int, ...]
    edges: int


def channel_of(channel: int, pairs: Iterable[tuple[int, int]]) -> Channel:
    """The shape of (sender, receiver) pairs. Anything but one ring or one chain of all ranks is `other`, unordered."""
    links = sorted(set(pairs))
    after: dict[int, int] = dict(links)
    receivers = {dst for _, dst in links}
    ranks = receivers | after.keys()
    if len(after) != len(links) or len(receivers) != len(links) or not links:
        return Channel(channel, OTHER, (), len(links))
    heads = sorted(after.keys() - receivers)
    order = [heads[0] if heads else min(ranks)]
    while (following := after.get(order[-1])) is not None and following != order[0]:
        order.append(following)
    if len(order) != len(ranks):
        return Channel(channel, OTHER, (), len(links))
    return Channel(channel, CHAIN if heads else RING, tuple(order), len(links))


def around_ns(channel: Channel, delay_of: Mapping[tuple[int, int], int | None]) -> int | None:
    """What a message would take once around a ring: the sum of its edges' delays, ns; None where one is not known.

    Each clock is subtracted as often as it is added, so what clocks are off by cancels: the sum is right where no delay
    of a single edge is. (It does so for messages of one moment; medians are of one window.)
    """
    if channel.shape != RING:
        return None
    found = [delay_of.get(pair) for pair in zip(channel.order, (*channel.order[1:], channel.order[0]), strict=True)]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def in_ring_order(edges: Sequence[Mapping[str, Any]], channels: Sequence[Channel]) -> list[dict[str, Any]]:
    """Edges as the rings run, those of the first channel first; those of no ring or chain follow as they came."""
    place: dict[tuple[int, int], int] = {}
    for channel in channels:
        around = zip(channel.order, (*channel.order[1:], *channel.order[:1]), strict=True)
        for pair in around:
            place.setdefault(pair, len(place))
    ranked = sorted(edges, key=lambda each: place.get((each["src_rank"], each["dst_rank"]), len(place)))
    return [dict(each) for each in ranked]
