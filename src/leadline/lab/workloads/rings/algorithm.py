"""Who sends what to whom in a collective over rings, and the bandwidths that nccl-tests tells. Pure: no data, no time.

Each channel has its own ring order and moves its own share of every block, so channels never wait for each other:

    buffer of `count` elements           block b of n             channel c's share of it
    |-- block 0 --|-- ... --|-- n-1 --|  |-- 0 --|- 1 -|-- 2 --|  Span(start, stop)

Schedules are those of NCCL's rings (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 2009): a reduce-scatter and an all-gather of n - 1 steps each, which make an all-reduce one after
the other; a broadcast is a pipeline along the ring; an all-to-all goes straight to each peer, as NCCL's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple


class Span(NamedTuple):
    """A run of elements: [start, stop)."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many elements; 0 for nothing to send."""
        return self.stop - self.start


class Part(NamedTuple):
    """One end of one message: its step number (the same at both ends), the rank at the other end, what is in it."""

    step: int
    peer: int
    span: Span


class Move(NamedTuple):
    """What one rank does at once on one channel: send a part, receive a part, or both; then the next move.

    `reduce`: what comes is added to what is there. `from_input`: what goes is read from the input buffer, not from
    the one that is worked on (all-to-all, whose blocks change places).
    """

    send: Part | None
    receive: Part | None
    reduce: bool = False
    from_input: bool = False


def split(span: Span, parts: int) -> list[Span]:
    """`parts` runs that cover a span in order, the first ones longer by one element where it does not divide."""
    size, longer = divmod(span.length, parts)
    starts = [span.start + part * size + min(part, longer) for part in range(parts + 1)]
    return [Span(start, stop) for start, stop in pairwise(starts)]


def ring_order(ranks: int, channel: int) -> list[int]:
    """The order of ranks in a channel's ring: strides that have no divisor in common with n, 1 first, then n - 1.

    So channel 0 and 1 use every cable in both directions, and later channels meet other neighbours, as the rings
    that NCCL finds do. With few ranks the strides come round again.
    """
    coprime = [stride for stride in range(1, max(ranks, 2)) if math.gcd(stride, ranks) == 1] or [1]
    outside_in = [stride for pair in zip(coprime, reversed(coprime), strict=True) for stride in pair]
    strides = list(dict.fromkeys(outside_in))
    stride = strides[channel % len(strides)]
    return [position * stride % ranks for position in range(ranks)]


class Ring(NamedTuple):
    """One channel of a communicator as one rank sees it."""

    order: list[int]
    rank: int
    channel: int
    channels: int

    @property
    def position(self) -> int:
        """Where this rank stands in the order."""
        return self.order.index(self.rank)

    def at(self, offset: int) -> int:
        """The rank `offset` places further along the ring."""
        return self.order[(self.position + offset) % len(self.order)]

    def share(self, count: int, block: int) -> Span:
        """This channel's part of one block of a buffer of `count` elements."""
        return split(split(Span(0, count), len(self.order))[block], self.channels)[self.channel]


def ring_of(ranks: int, rank: int, channel: int, channels: int) -> Ring:
    """Channel `channel` of a communicator of `ranks`, seen by `rank`."""
    return Ring(ring_order(ranks, channel), rank, channel, channels)


def reduce_scatter(ring: Ring, count: int, **_: int) -> Iterator[Move]:
    """n - 1 moves, after which this rank holds the sum of the block that bears its number."""
    yield from _around(ring, count, first_step=0, lag=1, reduce=True)


def all_gather(ring: Ring, count: int, **_: int) -> Iterator[Move]:
    """n - 1 moves, after which this rank holds every block; before, it holds the one that bears its number."""
    yield from _around(ring, count, first_step=0, lag=0, reduce=False)


def all_reduce(ring: Ring, count: int, **_: int) -> Iterator[Move]:
    """2(n - 1) moves: reduce-scatter, then all-gather."""
    yield from _around(ring, count, first_step=0, lag=1, reduce=True)
    yield from _around(ring, count, first_step=len(ring.order) - 1, lag=0, reduce=False)


def _around(ring: Ring, count: int, first_step: int, lag: int, reduce: bool) -> Iterator[Move]:
    """One pass around the ring: at each step a block goes on to the next rank, and the one behind it comes in."""
    for hop in range(len(ring.order) - 1):
        out, back = ring.at(-hop - lag), ring.at(-hop - lag - 1)
        step = first_step + hop
        yield Move(
            _part(step, ring.at(1), ring.share(count, out)),
            _part(step, ring.at(-1), ring.share(count, back)),
            reduce=reduce,
        )


def broadcast(ring: Ring, count: int, *, root: int = 0, pieces: int = 8) -> Iterator[Move]:
    """A pipeline from the root along the ring: piece k comes in while piece k - 1 goes on. The last rank only takes."""
    ranks = len(ring.order)
    behind_root = (ring.position - ring.order.index(root)) % ranks
    whole = split(Span(0, count), ring.channels)[ring.channel]
    spans = split(whole, pieces)
    takes, gives = behind_root > 0, behind_root < ranks - 1
    for turn in range(pieces + 1):
        send = _part(turn - 1, ring.at(1), spans[turn - 1]) if gives and turn > 0 else None
        receive = _part(turn, ring.at(-1), spans[turn]) if takes and turn < pieces else None
        if send or receive:
            yield Move(send, receive)


def all_to_all(ring: Ring, count: int, **_: int) -> Iterator[Move]:
    """n - 1 moves straight to each peer in turn; block b of the input goes to rank b, which keeps it as ours."""
    for away in range(1, len(ring.order)):
        to, source = ring.at(away), ring.at(-away)
        yield Move(
            _part(away - 1, to, ring.share(count, to)),
            _part(away - 1, source, ring.share(count, source)),
            from_input=True,
        )


def _part(step: int, peer: int, span: Span) -> Part | None:
    """A part, or None where there is nothing in it: both ends know and neither sends."""
    return Part(step, peer, span) if span.length else None


class Op(NamedTuple):
    """A collective: its schedule, nccl-tests' bus factor, and how many elements nccl-tests' table counts."""

    name: str
    moves: Callable[..., Iterator[Move]]
    bus_factor: Callable[[int], float]
    per_rank_count: bool  # the table shows a rank's own elements (all-gather ...), not the whole buffer


# Source of the factors: NVIDIA/nccl-tests, doc/PERFORMANCE.md. `size` is the whole buffer of one rank in all of them.
OPS: tuple[Op, ...] = (
    Op("all_reduce", all_reduce, lambda ranks: 2 * (ranks - 1) / ranks, False),
    Op("all_gather", all_gather, lambda ranks: (ranks - 1) / ranks, True),
    Op("reduce_scatter", reduce_scatter, lambda ranks: (ranks - 1) / ranks, True),
    Op("broadcast", broadcast, lambda ranks: 1.0, False),
    Op("all_to_all", all_to_all, lambda ranks: (ranks - 1) / ranks, True),
)


def op_named(name: str) -> Op:
    """The collective of that name. Errors: KeyError with the names that exist."""
    found = next((op for op in OPS if op.name == name), None)
    if found is None:
        raise KeyError(f"{name!r} is none of {', '.join(op.name for op in OPS)}")
    return found


def bandwidths(op: Op, size_bytes: int, seconds: float, ranks: int) -> tuple[float, float]:
    """(algorithm bandwidth, bus bandwidth), bytes/s.

    The bus bandwidth is what each link carries if the algorithm is the best there is, so it can be held against the
    link's rate whatever the number of ranks. Source: nccl-tests, doc/PERFORMANCE.md.
    """
    algorithm = size_bytes / seconds if seconds > 0 else 0.0
    return algorithm, algorithm * op.bus_factor(ranks)


def sizes(begin: int, end: int, factor: float) -> list[int]:
    """The sizes of a sweep, bytes: begin, begin x factor, ... up to and including end. nccl-tests' -b, -e, -f."""
    swept = [begin]
    while factor > 1 and (following := math.ceil(swept[-1] * factor)) <= end:
        swept.append(following)
    return swept


def usable_count(op: Op, size_bytes: int, item_bytes: int, ranks: int) -> int:
    """Elements of a buffer of at most `size_bytes`, a multiple of the ranks where each has a block of its own."""
    count = size_bytes // item_bytes
    return count - count % ranks if op.per_rank_count else count
