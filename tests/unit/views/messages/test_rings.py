"""Rings found in who sends to whom."""

from __future__ import annotations

import pytest

from leadline.views.messages.rings import around_ns, channel_of, in_ring_order


@pytest.mark.parametrize(
    ("pairs", "shape", "order"),
    [
        ([(0, 1), (1, 2), (2, 0)], "ring", (0, 1, 2)),
        ([(7, 3), (3, 5), (5, 7)], "ring", (3, 5, 7)),
        ([(0, 1), (1, 0)], "ring", (0, 1)),
        ([(2, 1), (1, 0)], "chain", (2, 1, 0)),
        ([(4, 4)], "ring", (4,)),
        ([(0, 1), (0, 2)], "other", ()),
        ([(0, 2), (1, 2)], "other", ()),
        ([(0, 1), (1, 0), (2, 3), (3, 2)], "other", ()),
        ([(0, 1), (2, 3)], "other", ()),
        ([(5, 6), (0, 1), (1, 0)], "other", ()),
        ([], "other", ()),
    ],
)
def test_shapes(pairs: list[tuple[int, int]], shape: str, order: tuple[int, ...]) -> None:
    found = channel_of(3, pairs[::-1])
    assert (found.channel, found.shape, found.order, found.edges) == (3, shape, order, len(pairs))


def test_edges_follow_the_first_ring_then_the_second_then_as_they_came() -> None:
    channels = [channel_of(0, [(0, 1), (1, 2), (2, 0)]), channel_of(1, [(0, 2), (2, 1), (1, 0)])]
    given = [{"src_rank": src, "dst_rank": dst} for src, dst in ((9, 0), (2, 1), (1, 2), (0, 1), (0, 2))]
    told = [(each["src_rank"], each["dst_rank"]) for each in in_ring_order(given, channels)]
    assert told == [(0, 1), (1, 2), (0, 2), (2, 1), (9, 0)]


def test_around_a_ring_what_clocks_are_off_by_cancels() -> None:
    ring = [(0, 1), (1, 2), (2, 0)]
    true_ns, off_ns = {(0, 1): 30_000, (1, 2): 35_000, (2, 0): 40_000}, [0, 5_000_000, -3_000_000]
    seen = {(src, dst): true_ns[src, dst] + off_ns[dst] - off_ns[src] for src, dst in ring}
    assert min(seen.values()) < 0
    assert around_ns(channel_of(0, ring), seen) == 105_000
    assert around_ns(channel_of(0, ring), {**seen, (1, 2): None}) is None
    assert around_ns(channel_of(0, ring), {}) is None
    assert around_ns(channel_of(0, ring[:2]), seen) is None, "a chain does not close"
