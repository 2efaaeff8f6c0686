"""Ends of transfers as columns, those that may matter to a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Codes, Ids, Ints, codes, ids, ints
from leadline.analysis.messages.group_kernels import grouped
from leadline.analysis.spec import S

# How long an end waits for its other end, by when each ended. A send ends when the network accepted it: the receiver
# may be late by as long as a buffer holds the bytes, so it waits longest. A receive cannot end before its send was
# posted; that the send's end is stamped later is the sender's completion queue, or clocks that nobody has fitted.
SENT_WAITS_NS = 20 * S
RECEIVED_WAITS_NS = 5 * S
# Ends that matter to a window ended at most so long before it: what came and waited, and what that could have met.
SPAN_NS = SENT_WAITS_NS + RECEIVED_WAITS_NS
# Rows are read by when they were posted. An end that took longer than this meets none: a window that judges its other
# end later could no longer see it, and would tell the message a second time.
LOOK_BACK_NS = 60 * S
LONGEST_NS = LOOK_BACK_NS - SPAN_NS

SEND, RECV = 0, 1


@dataclass(frozen=True, slots=True)
class Ends:
    """N ends. Arrays (N,); times are cluster time, ns; a place is one in `comms`, -1 is null."""

    comms: list[str]
    comm_N: Ints
    channel_N: Ints
    seq_N: Ints
    step_N: Ints
    src_N: Ints
    dst_N: Ints
    side_N: Ints  # SEND or RECV
    bytes_N: Ints
    begin_N: Ints
    end_N: Ints
    clock_N: Ints
    bound_N: Ints  # of the clock, -1: it has no fit
    flow_N: Ints  # place in flow_F2, -1: it was not told
    flow_F2: Ids  # in the order of their numbers

    def __len__(self) -> int:
        return len(self.comm_N)

    def key(self) -> Ints:
        """What both ends of a message agree on, (N, 6)."""
        columns = (self.comm_N, self.channel_N, self.seq_N, self.step_N, self.src_N, self.dst_N)
        return np.ascontiguousarray(np.column_stack(columns))


def ends_of(message_end: pa.Table, from_ns: int, to_ns: int) -> Ends:
    """Ends that had ended by `to_ns`, and not longer than `SPAN_NS` before `from_ns`; rows of no side are left out."""
    end_N = ints(message_end, "end_ns")
    side = codes(message_end, "side")
    place = side.places()
    is_send_N = side.code_N == place.get("send", -2)
    is_recv_N = side.code_N == place.get("recv", -2)
    kept_N: Bools = (end_N >= from_ns - SPAN_NS) & (end_N < to_ns) & (is_send_N | is_recv_N)
    begin_N = ints(message_end, "begin_ns")
    kept_N &= (begin_N >= from_ns - LOOK_BACK_NS) & (begin_N < to_ns)
    if not kept_N.all():
        message_end = message_end.filter(pa.array(kept_N))
        is_recv_N = is_recv_N[kept_N]
    rank_N, peer_N = ints(message_end, "rank"), ints(message_end, "peer")
    comm = codes(message_end, "comm")
    flow_N, flow_F2 = _flows(message_end)
    return Ends(
        comms=comm.names,
        comm_N=comm.code_N,
        channel_N=ints(message_end, "channel"),
        seq_N=ints(message_end, "seq"),
        step_N=ints(message_end, "step"),
        src_N=np.where(is_recv_N, peer_N, rank_N),
        dst_N=np.where(is_recv_N, rank_N, peer_N),
        side_N=is_recv_N.astype(np.int64),
        bytes_N=ints(message_end, "bytes"),
        begin_N=begin_N[kept_N],
        end_N=end_N[kept_N],
        clock_N=codes(message_end, "clock").code_N,
        bound_N=np.maximum(ints(message_end, "bound_ns"), -1),
        flow_N=flow_N,
        flow_F2=flow_F2,
    )


def _flows(message_end: pa.Table) -> tuple[Ints, Ids]:
    """Flow of each end as a place in the sorted list of all; a flow of number 0 is none."""
    flow_N2 = ids(message_end, "flow")
    if not len(flow_N2) or not flow_N2.any():
        return np.full(len(flow_N2), -1, np.int64), np.zeros((0, 2), np.uint64)
    group_N, first_G = grouped(np.ascontiguousarray(flow_N2).view(np.int64))
    flow_G2 = flow_N2[first_G]
    order_G = np.lexsort(flow_G2.T)
    order_G = order_G[flow_G2[order_G].any(axis=1)]
    place_G = np.full(len(flow_G2), -1, np.int64)
    place_G[order_G] = np.arange(len(order_G))
    return place_G[group_N], flow_G2[order_G]


def named_alike(one: Codes, names: list[str]) -> Ints:
    """Codes of texts as places in another list of names; -1 for those that it does not have."""
    place = {name: number for number, name in enumerate(names)}
    place_T = np.array([place.get(name, -1) for name in one.names] + [-1], np.int64)
    return place_T[one.code_N]
