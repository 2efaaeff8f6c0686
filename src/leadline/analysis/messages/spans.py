"""Collectives from their last arrival to their last end, and which messages they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.analysis.messages.ends import named_alike
from leadline.analysis.messages.group_kernels import grouped
from leadline.analysis.messages.pairs import Messages, State
from leadline.analysis.spec import Window

# Who tells collectives from outside the library: messages of theirs are numbered apart from collectives.
_FROM_OUTSIDE = ("torch-hook", "flight-recorder")
_BY_THEMSELVES = ("send", "recv")
_NEVER = np.int64(-(2**63))


@dataclass(frozen=True, slots=True)
class Spans:
    """What the window counts. C = collective, H = message of one of them; times are cluster time, ns.

    arrival_C: the last rank had called. end_C: the last one was through (or, for a window at whose end that was not
    so, the last message so far). comm_C: place in the messages' `comms`. message_H, in_H: a message and its collective.
    """

    comm_C: Ints
    arrival_C: Ints
    end_C: Ints
    message_H: Ints
    in_H: Ints


@dataclass(frozen=True, slots=True)
class _Told:
    """Collectives that rows of `collective` tell; `over_C`: all ranks that called were through by the window's end."""

    comm_C: Ints
    seq_C: Ints
    arrival_C: Ints
    end_C: Ints
    over_C: Bools


def spans(messages: Messages, collective: pa.Table, window: Window) -> Spans:
    """Collectives that the window counts, with their messages.

    One that `collective` tells counts in the window in which its last rank was through. Messages with steps that it
    does not tell were one too: of that, each window counts its own part, from the last rank's first message on. A
    message of neither (a send and its receive) stands by itself: from both posted until received.
    """
    whole = np.flatnonzero(messages.both_M)
    row_H = messages.recv_M[whole]
    ends = messages.ends
    told = _told(collective, ends.comms, window)
    key_H2 = np.column_stack((ends.comm_N[row_H], ends.seq_N[row_H]))
    key_C2 = np.column_stack((told.comm_C, told.seq_C))
    group_N, first_G = grouped(np.ascontiguousarray(np.concatenate((key_C2, key_H2))))
    groups, count = len(first_G), len(told.comm_C)
    told_G = np.full(groups, -1, np.int64)
    told_G[group_N[:count]] = np.arange(count)  # each has a group of its own
    group_H = group_N[count:]
    has_G = np.bincount(group_H, minlength=groups) > 0
    steps_G = np.zeros(groups, bool)
    steps_G[group_H[ends.step_N[row_H] != 0]] = True
    arrival_G, last_G = _by_messages(messages, whole, group_H, groups)
    begin_G, end_G = np.maximum(arrival_G, window.from_ns), last_G
    counts_G = steps_G & (last_G >= window.from_ns)
    known_G = told_G >= 0
    begin_G[known_G], end_G[known_G] = told.arrival_C[told_G[known_G]], told.end_C[told_G[known_G]]
    counts_G[known_G] = (told.over_C & (told.end_C >= window.from_ns))[told_G[known_G]] & has_G[known_G]
    alone_H = ~known_G[group_H] & ~steps_G[group_H]
    alone_H &= (messages.told_M[whole] >= window.from_ns) & (messages.state_M[whole] == State.PAIRED)
    place_G = np.cumsum(counts_G) - 1
    counted = np.flatnonzero(counts_G)
    comm_G = np.concatenate((told.comm_C, ends.comm_N[row_H]))[first_G] if groups else np.zeros(0, np.int64)
    inside_H, single = counts_G[group_H], np.flatnonzero(alone_H)
    return Spans(
        comm_C=np.concatenate((comm_G[counted], ends.comm_N[row_H[single]])),
        arrival_C=np.concatenate((begin_G[counted], messages.posted_ns_M[whole[single]])),
        end_C=np.concatenate((end_G[counted], ends.end_N[row_H[single]])),
        message_H=np.concatenate((whole[inside_H], whole[single])),
        in_H=np.concatenate((place_G[group_H[inside_H]], len(counted) + np.arange(len(single)))),
    )


def _by_messages(messages: Messages, whole: Ints, group_H: Ints, groups: int) -> tuple[Ints, Ints]:
    """When the last rank of each group had posted its first message, and when its last message was received, ns."""
    ends = messages.ends
    last_G = np.full(groups, _NEVER)
    np.maximum.at(last_G, group_H, ends.end_N[messages.recv_M[whole]])
    rank_A = np.concatenate((ends.src_N[messages.send_M[whole]], ends.dst_N[messages.recv_M[whole]]))
    posted_A = np.concatenate((ends.begin_N[messages.send_M[whole]], ends.begin_N[messages.recv_M[whole]]))
    group_A, first_R = grouped(np.ascontiguousarray(np.column_stack((np.tile(group_H, 2), rank_A))))
    first_ns_R = np.full(len(first_R), np.int64(2**63 - 1))
    np.minimum.at(first_ns_R, group_A, posted_A)
    arrival_G = np.full(groups, _NEVER)
    np.maximum.at(arrival_G, np.tile(group_H, 2)[first_R], first_ns_R)
    return arrival_G, last_G


def _told(collective: pa.Table, comms: list[str], window: Window) -> _Told:
    """Collectives of communicators that have messages; a rank whose end came after the window was not through."""
    for column, without in (("source", _FROM_OUTSIDE), ("op", _BY_THEMSELVES)):
        named = collective[column].cast(pa.string())
        collective = collective.filter(pc.invert(pc.is_in(named, pa.array(without, pa.string()))))
    comm_N = named_alike(codes(collective, "comm"), comms)
    collective = collective.filter(pa.array(comm_N >= 0))
    comm_N = comm_N[comm_N >= 0]
    seq_N, called_N = ints(collective, "seq"), ints(collective, "enqueued_ns")
    through_N = ints(collective, "finished_ns", null=int(_NEVER))
    through_N = np.where(through_N < window.to_ns, through_N, _NEVER)
    rank_N, first_R = grouped(np.ascontiguousarray(np.column_stack((comm_N, seq_N, ints(collective, "rank")))))
    through_R = np.full(len(first_R), _NEVER)
    np.maximum.at(through_R, rank_N, through_N)
    of_R, first_C = grouped(np.ascontiguousarray(np.column_stack((comm_N[first_R], seq_N[first_R]))))
    arrival_C, end_C, over_C = np.full(len(first_C), _NEVER), np.full(len(first_C), _NEVER), np.ones(len(first_C), bool)
    np.maximum.at(arrival_C, of_R[rank_N], called_N)
    np.maximum.at(end_C, of_R, through_R)
    over_C[of_R[through_R == _NEVER]] = False
    return _Told(comm_N[first_R[first_C]], seq_N[first_R[first_C]], arrival_C, end_C, over_C)
