"""Messages summed by edge: from one rank to another, in one communicator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ids, Ints
from leadline.analysis.messages.flows import Rode
from leadline.analysis.messages.group_kernels import grouped, listed, sorted_within
from leadline.analysis.messages.held_kernels import held
from leadline.analysis.messages.pairs import Delays, Messages, State
from leadline.analysis.messages.spans import Spans

_LOW = np.int64(2**32 - 1)


@dataclass(frozen=True, slots=True)
class Edges:
    """E edges. Nanoseconds of -1: not known. comm_E: place in the messages' `comms`."""

    comm_E: Ints
    src_E: Ints
    dst_E: Ints
    messages_E: Ints
    unpaired_E: Ints
    conflicting_E: Ints
    bytes_E: Floats
    held_ns_E: Ints
    collectives_ns_E: Ints  # of the edge's communicator
    transfer_E2: Ints  # median, 99th percentile
    delay_E2: Ints
    delays_E: Ints  # how many delays there are
    bound_ns_E: Ints
    flow_E: Ints
    flows_E: Ints


def edges(told: Messages, way: Delays, flow: Rode, all_messages: Messages, spans: Spans) -> Edges:
    """Sums over the messages that this window tells, and what of its collectives each edge held.

    Whole numbers are summed, so that the order of rows is nothing to them.
    """
    ends, count, any_M = told.ends, len(told), told.any_M
    row_A = np.concatenate((any_M, all_messages.any_M[spans.message_H]))
    key_A3 = np.column_stack((ends.comm_N[row_A], ends.src_N[row_A], ends.dst_N[row_A]))
    edge_A, first_E = grouped(np.ascontiguousarray(key_A3))
    edge_M, edge_H, number = edge_A[:count], edge_A[count:], len(first_E)
    held_E = np.zeros(number, np.int64)
    np.add.at(held_E, edge_H, held_of(all_messages, spans))
    whole_E = np.zeros(len(ends.comms), np.int64)
    np.add.at(whole_E, spans.comm_C, np.maximum(spans.end_C - spans.arrival_C, 0))
    paired_M = told.state_M == State.PAIRED
    bounds_E = np.full(number, -1, np.int64)
    np.maximum.at(bounds_E, edge_M[way.known_M], way.bound_M[way.known_M])
    transfer_M = np.maximum(ends.end_N[told.recv_M] - told.posted_ns_M, 0) if count else np.zeros(0, np.int64)
    flow_E, flows_E = _flows(flow, edge_M, number)
    both_M = (told.send_M >= 0) & (told.recv_M >= 0)
    alone_M = (told.state_M == State.SEND_ONLY) | (told.state_M == State.RECV_ONLY)
    return Edges(
        comm_E=key_A3[first_E, 0],
        src_E=key_A3[first_E, 1],
        dst_E=key_A3[first_E, 2],
        messages_E=np.bincount(edge_M[both_M], minlength=number),
        unpaired_E=np.bincount(edge_M[alone_M], minlength=number),
        conflicting_E=np.bincount(edge_M[told.state_M == State.CONFLICTING], minlength=number),
        bytes_E=_exact_sums(edge_M[both_M], ends.bytes_N[any_M[both_M]], number),
        held_ns_E=held_E,
        collectives_ns_E=whole_E[key_A3[first_E, 0]],
        transfer_E2=_percentiles(edge_M[paired_M], transfer_M[paired_M], number),
        delay_E2=_percentiles(edge_M[way.known_M], way.delay_M[way.known_M], number),
        delays_E=np.bincount(edge_M[way.known_M], minlength=number),
        bound_ns_E=bounds_E,
        flow_E=flow_E,
        flows_E=flows_E,
    )


def held_of(messages: Messages, spans: Spans) -> Ints:
    """What each message of the collectives held of them, ns, (H,)."""
    ends = messages.ends
    send_H, recv_H = messages.send_M[spans.message_H], messages.recv_M[spans.message_H]
    what_H8 = np.column_stack(
        (
            ends.channel_N[recv_H], ends.step_N[recv_H], ends.src_N[recv_H], ends.dst_N[recv_H],
            ends.begin_N[send_H], ends.end_N[send_H], ends.begin_N[recv_H], ends.end_N[recv_H],
        )
    )  # fmt: skip
    return held(spans.in_H, np.ascontiguousarray(what_H8), spans.arrival_C, spans.end_C)


def _exact_sums(edge_M: Ints, value_M: Ints, number: int) -> Floats:
    """Sums of whole numbers from 0 on, exact up to 2**53, and never more than rounded: added in two halves."""
    parts = []
    for half_M in (value_M >> 32, value_M & _LOW):
        total = np.zeros(number, np.int64)
        np.add.at(total, edge_M, half_M)
        parts.append(total.astype(np.float64))
    return parts[0] * 2.0**32 + parts[1]


def _percentiles(edge_M: Ints, value_M: Ints, number: int) -> Ints:
    """Median and 99th percentile of the values of each edge by nearest rank, (E, 2); -1 where there are none."""
    begin_E, order_M = listed(edge_M, number)
    sorted_M = sorted_within(begin_E, value_M[order_M])
    begin_E, count_E = begin_E[:-1], np.diff(begin_E)
    has_E = count_E > 0
    out = np.full((number, 2), -1, np.int64)
    for place, percent in enumerate((50, 99)):
        rank_E = -(-count_E * percent // 100) - 1
        out[has_E, place] = sorted_M[(begin_E + rank_E)[has_E]]
    return out


def _flows(flow: Rode, edge_M: Ints, number: int) -> tuple[Ints, Ints]:
    """The flow of each edge where all messages whose flow is known rode one (-1: not so), and how many there may be."""
    known_M = flow.flow_M >= 0
    one_E, other_E = np.full(number, -1, np.int64), np.full(number, np.int64(2**62))
    np.maximum.at(one_E, edge_M[known_M], flow.flow_M[known_M])
    np.minimum.at(other_E, edge_M[known_M], flow.flow_M[known_M])
    pair_2 = np.column_stack((edge_M[known_M], flow.flow_M[known_M]))
    first = grouped(np.ascontiguousarray(pair_2))[1]
    flows_E = np.bincount(pair_2[first, 0], minlength=number)
    np.maximum.at(flows_E, edge_M, flow.flows_M)
    one: Bools = (one_E == other_E) & (flows_E == 1)
    return np.where(one, one_E, -1), flows_E


def flow_ids(place_N: Ints, flow_F2: Ids) -> tuple[Ids, Bools]:
    """128-bit ids of flows by place, (N, 2), and where there is none."""
    padded = np.concatenate((flow_F2, np.zeros((1, 2), np.uint64)))
    return padded[place_N], place_N < 0
