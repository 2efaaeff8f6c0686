"""Messages of ends: both joined, or one alone; what their clocks allow to say of the way between."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.messages.ends import Ends
from leadline.analysis.messages.group_kernels import grouped, listed
from leadline.analysis.messages.pair_kernels import paired


class State(IntEnum):
    """What is known of a message."""

    PAIRED = 0
    SEND_ONLY = 1
    RECV_ONLY = 2
    CONFLICTING = 3

    @property
    def word(self) -> str:
        """Its name in the table."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Messages:
    """M messages, as rows of `Ends`: -1 where an end is missing. Arrays (M,)."""

    ends: Ends
    send_M: Ints
    recv_M: Ints
    key_M: Ints  # number of what its ends agree on: communicator, channel, ...
    told_M: Ints  # when it is told, ns: both ended, or the other can no longer come
    state_M: Ints

    def __len__(self) -> int:
        return len(self.send_M)

    @property
    def any_M(self) -> Ints:
        """An end of each, the receiver's where it is there."""
        return np.where(self.recv_M >= 0, self.recv_M, self.send_M)

    @property
    def both_M(self) -> Bools:
        """Whether both ends are there and neither ends before it begins: times can be trusted."""
        whole_M = (self.send_M >= 0) & (self.recv_M >= 0)
        for end_M in (self.send_M, self.recv_M):
            whole_M &= self.ends.begin_N[end_M] <= self.ends.end_N[end_M]
        return whole_M

    @property
    def posted_ns_M(self) -> Ints:
        """When both ends had posted it; of one alone, when that had."""
        begin_N = self.ends.begin_N
        send_M, recv_M = (np.where(each >= 0, each, self.any_M) for each in (self.send_M, self.recv_M))
        return np.maximum(begin_N[send_M], begin_N[recv_M])

    def where(self, keep_M: Bools | Ints) -> Messages:
        """Some of them."""
        told_M, state_M = self.told_M[keep_M], self.state_M[keep_M]
        return Messages(self.ends, self.send_M[keep_M], self.recv_M[keep_M], self.key_M[keep_M], told_M, state_M)


def messages_of(ends: Ends) -> Messages:
    """All messages of the ends, joined as `pair_kernels` says.

    Conflicting: ends whose bytes differ, that end before they begin, or of which another of the same side had come
    within `SPAN_NS` before. One and the same end that was told twice (same times and bytes) counts once.
    """
    group_N, first_G = grouped(ends.key())
    begin_G, order_N = listed(group_N, len(first_G))
    what = (ends.end_N, ends.side_N, ends.begin_N, ends.bytes_N, ends.clock_N, ends.bound_N, ends.flow_N)
    send_M, recv_M, key_M, told_M, again_M = paired(begin_G, order_N, np.ascontiguousarray(np.column_stack(what)))
    state_M = np.where(send_M < 0, State.RECV_ONLY, np.where(recv_M < 0, State.SEND_ONLY, State.PAIRED))
    both_M = (send_M >= 0) & (recv_M >= 0)
    conflict_M = again_M | (both_M & (ends.bytes_N[send_M] != ends.bytes_N[recv_M]))
    for end_M in (send_M, recv_M):
        conflict_M |= (end_M >= 0) & (ends.begin_N[end_M] > ends.end_N[end_M])
    state_M = np.where(conflict_M, State.CONFLICTING, state_M).astype(np.int64)
    return Messages(ends, send_M, recv_M, key_M, told_M, state_M)


@dataclass(frozen=True, slots=True)
class Delays:
    """One-way delays, ns. A bound of -1: no fitted clocks. `known_M` without it: they contradict each other."""

    delay_M: Ints
    bound_M: Ints
    known_M: Bools


def delays(messages: Messages) -> Delays:
    """Received less sent, where both ends are there and their clocks can be held against each other.

    The bound is 0 on one clock, else the sum of both clocks' bounds. A delay that is negative beyond it cannot be: the
    clocks (or the stamps) contradict each other, and no delay is told.
    """
    ends, send_M, recv_M = messages.ends, messages.send_M, messages.recv_M
    one_clock_M = ends.clock_N[send_M] == ends.clock_N[recv_M]
    fitted_M = (ends.bound_N[send_M] >= 0) & (ends.bound_N[recv_M] >= 0)
    # Bounds above a day say nothing, and two of them would not fit into the sum.
    bound_M = np.minimum(ends.bound_N[send_M], _DAY_NS) + np.minimum(ends.bound_N[recv_M], _DAY_NS)
    bound_M = np.where(one_clock_M, 0, np.where(fitted_M, bound_M, -1))
    bound_M = np.where(messages.both_M, bound_M, -1)
    delay_M = ends.end_N[recv_M] - ends.end_N[send_M]
    return Delays(delay_M, bound_M, (bound_M >= 0) & (delay_M >= -bound_M))


_DAY_NS = 86_400 * 10**9
