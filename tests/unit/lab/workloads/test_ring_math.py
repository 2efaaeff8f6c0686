"""Schedules of the rings, and the bandwidths of nccl-tests."""

from __future__ import annotations

import pytest

from leadline.lab.workloads.rings.algorithm import (
    OPS,
    Span,
    bandwidths,
    op_named,
    ring_of,
    ring_order,
    sizes,
    split,
    usable_count,
)


def test_split_covers_in_order() -> None:
    assert split(Span(10, 20), 3) == [Span(10, 14), Span(14, 17), Span(17, 20)]
    assert split(Span(0, 2), 4) == [Span(0, 1), Span(1, 2), Span(2, 2), Span(2, 2)]


@pytest.mark.parametrize("ranks", range(1, 17))
def test_an_order_is_every_rank_once(ranks: int) -> None:
    for channel in range(6):
        assert sorted(ring_order(ranks, channel)) == list(range(ranks))


def test_channels_have_orders_of_their_own() -> None:
    assert ring_order(8, 0) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ring_order(8, 1) == [0, 7, 6, 5, 4, 3, 2, 1]
    assert ring_order(8, 2) == [0, 3, 6, 1, 4, 7, 2, 5]
    assert len({tuple(ring_order(8, channel)) for channel in range(4)}) == 4


def test_all_reduce_of_three_step_by_step() -> None:
    """Written out by hand for rank 1 of the ring 0, 1, 2 with one element in each block."""
    moves = list(op_named("all_reduce").moves(ring_of(3, 1, 0, 1), 3))
    told = [(move.send.span.start, move.receive.span.start, move.reduce) for move in moves]  # type: ignore[union-attr]
    assert told == [(0, 2, True), (2, 1, True), (1, 0, False), (0, 2, False)]
    assert all(move.send.peer == 2 and move.receive.peer == 0 for move in moves)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "steps"), [("all_reduce", 14), ("all_gather", 7), ("reduce_scatter", 7), ("all_to_all", 7)]
)
def test_number_of_steps(name: str, steps: int) -> None:
    moves = list(op_named(name).moves(ring_of(8, 3, 0, 2), 1024))
    assert [move.send.step for move in moves] == list(range(steps))  # type: ignore[union-attr]


def test_a_broadcast_is_a_pipeline_without_a_way_back() -> None:
    root, last = ring_of(4, 2, 0, 1), ring_of(4, 1, 0, 1)
    broadcast = op_named("broadcast")
    assert all(move.receive is None for move in broadcast.moves(root, 100, root=2))
    assert all(move.send is None for move in broadcast.moves(last, 100, root=2))
    middle = list(broadcast.moves(ring_of(4, 3, 0, 1), 100, root=2, pieces=4))
    assert len(middle) == 5
    assert middle[0].send is None
    assert middle[-1].receive is None


def test_one_rank_has_nothing_to_do() -> None:
    assert all(list(op.moves(ring_of(1, 0, 0, 1), 100)) == [] for op in OPS)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("broadcast", 1.0), ("all_to_all", 0.875)],
)
def test_bus_bandwidth_of_eight_ranks(name: str, factor: float) -> None:
    """nccl-tests, doc/PERFORMANCE.md."""
    assert bandwidths(op_named(name), 1_000_000, 0.5, 8) == (2e6, 2e6 * factor)


def test_a_time_of_zero_is_no_bandwidth() -> None:
    assert bandwidths(op_named("all_reduce"), 8, 0.0, 8) == (0.0, 0.0)


def test_sizes_of_a_sweep() -> None:
    assert sizes(8, 64, 2) == [8, 16, 32, 64]
    assert sizes(8, 8, 2) == [8]
    assert sizes(1000, 5000, 1) == [1000]
    assert sizes(3, 7, 1.5) == [3, 5]


def test_blocks_of_ranks_are_equal_where_each_has_its_own() -> None:
    assert usable_count(op_named("all_gather"), 1024, 4, 3) == 255
    assert usable_count(op_named("all_reduce"), 1024, 4, 3) == 256


def test_a_name_that_is_none() -> None:
    with pytest.raises(KeyError, match="all_reduce, all_gather"):
        op_named("allreduce")
