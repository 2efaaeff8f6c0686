"""Go-back-N reliability as a RoCE NIC does it: which packet goes next, what is acknowledged, when to go back.

Two machines without sockets or clock, one per direction of a queue pair. Both count packets from 0 without end; the
24 bits on the wire are unfolded next to what is expected (`unfold`).

    Requester  --- SEND k ... --->  Responder     k as expected: taken; ACK where one is asked for
               <-- ACK k ---------                k too far on: one NAK for the gap (packet_seq_err), the rest dropped
               <-- NAK expected --                k already taken: acknowledged again (duplicate_request)
                                                  nobody is ready to take it: RNR NAK, come again in 1.28 ms

Counters carry the names of a NIC's hw_counters and mean the same. The window halves at each loss and grows by a packet
for each window acknowledged: a plain stand-in for congestion control, so that a shared queue is not flooded for ever.
It is not DCQCN.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from leadline.lab.workloads.transport.rocev2 import ACK, NAK_SEQUENCE, RNR_NAK, RNR_TIMER, SEQUENCES

# All 8 queue pairs of a leaf of clos8 may hash to one uplink, whose queue holds 250 KB: 8 x 24 KiB and headers, 208 KB.
# So a job alone loses nothing, as on a lossless fabric. 24 KiB are also what 250 Mbit/s carry in 0.8 ms.
WINDOW_BYTES = 24_576
WINDOW_LEAST = 2  # packets
RUN_BYTES = 8_192  # sent before an acknowledgement is asked for
# 4.096 us x 2**17. A NIC answers at once (NCCL waits 2**20 all the same); here a process must first get to run.
TIMEOUT_NS = 536_870_912
TIMEOUT_MOST_NS = 2_147_483_648  # it doubles with every retry in vain, up to 4.096 us x 2**19
RETRIES = 11  # together 23 s: a port that flaps for seconds does not kill the connection, a dead one does
RNR_WAIT_NS = 1_280_000  # what RNR_TIMER says


def unfold(sequence: int, near: int) -> int:
    """The count nearest to `near` whose low 24 bits are `sequence`; below 0 for a packet from before the start."""
    ahead = (sequence - near + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2
    return near + ahead


class Requester:
    """The sending side. Feed `post`, `acknowledge` and `expire`; ask `take` for the packet to send."""

    def __init__(
        self, counts: Counter[str] | None = None, window: int = 24, run: int = 8, retries: int = RETRIES
    ) -> None:
        """`window`: packets that may be under way; `run`: packets after which one asks for an acknowledgement."""
        self.counts: Counter[str] = counts if counts is not None else Counter()
        self.failed = False  # retries exceeded: the connection is dead, as a NIC's queue pair in error
        self.acknowledged = 0  # packets before this one are at the responder
        self.handed = 0  # packets before this one were sent at least once
        self.posted = 0
        self._next = 0
        self._window_most = window
        self._window = float(window)
        self._retries_most = retries
        self._retries = 0
        self._timeout_ns = TIMEOUT_NS
        self._deadline_ns: int | None = None
        self._not_before_ns = 0
        self._run_most = run
        self._run = 0

    @property
    def window(self) -> int:
        """Packets that may be under way."""
        return int(self._window)

    def post(self, packets: int) -> int:
        """Add packets to be sent; returns the count before which they all lie."""
        self.posted += packets
        return self.posted

    def take(self, now_ns: int) -> tuple[int, bool] | None:
        """(count of the packet to send now, whether to ask for an acknowledgement), or None: nothing may go."""
        end = min(self.posted, self.acknowledged + self.window)
        if self._next >= end or self.failed or now_ns < self._not_before_ns:
            return None
        count = self._next
        self._next += 1
        self.handed = max(self.handed, self._next)
        if self._deadline_ns is None:
            self._deadline_ns = now_ns + self._timeout_ns
        self._run += 1
        asks = self._next == end or self._run >= self._run_most
        if asks:
            self._run = 0
        return count, asks

    def acknowledge(self, syndrome: int, sequence: int, now_ns: int) -> None:
        """An acknowledgement came. One for what was never sent, or an old one, changes nothing."""
        count = unfold(sequence, self.acknowledged)
        kind = syndrome & 0x60
        reached = count + 1 if kind == ACK & 0x60 else count  # a NAK acknowledges what lies before it
        if not self.acknowledged <= reached <= self.handed or (kind and reached == self.handed):
            return
        if reached > self.acknowledged:
            self._advance(reached, now_ns)
        if kind == RNR_NAK:
            self.counts["rnr_nak_retry_err"] += 1
            self._not_before_ns = now_ns + RNR_WAIT_NS
            self._go_back(now_ns)
        elif syndrome == NAK_SEQUENCE:
            self.counts["packet_seq_err"] += 1
            self._shrink()
            self._go_back(now_ns)

    def wakes_ns(self) -> int | None:
        """When `expire` or `take` has something to do again though nothing came; None: no timer runs."""
        if self.failed:
            return None
        if self._next < self.posted and self._not_before_ns and self._next == self.acknowledged:
            return self._not_before_ns
        return self._deadline_ns

    def expire(self, now_ns: int) -> None:
        """Time has passed: if the acknowledgement timer ran out, go back."""
        if self._deadline_ns is None or now_ns < self._deadline_ns or self.failed:
            return
        self.counts["local_ack_timeout_err"] += 1
        self._retries += 1
        if self._retries > self._retries_most:
            self.counts["req_transport_retries_exceeded"] += 1
            self.failed = True
            return
        self._timeout_ns = min(self._timeout_ns * 2, TIMEOUT_MOST_NS)
        self._shrink()
        self._go_back(now_ns)

    def _advance(self, reached: int, now_ns: int) -> None:
        fresh = reached - self.acknowledged
        self._window = min(float(self._window_most), self._window + fresh / self._window)
        self.acknowledged = reached
        self._next = max(self._next, reached)
        self._retries, self._timeout_ns = 0, TIMEOUT_NS
        self._deadline_ns = now_ns + self._timeout_ns if reached < self._next else None

    def _shrink(self) -> None:
        self._window = max(float(WINDOW_LEAST), self._window / 2)

    def _go_back(self, now_ns: int) -> None:
        self._next = self.acknowledged
        self._run = 0
        self._deadline_ns = now_ns + self._timeout_ns


class Reply(NamedTuple):
    """An acknowledgement to send: its syndrome, and which packet it is about."""

    syndrome: int
    about: int


class Responder:
    """The receiving side. `receive` says whether to take the packet, and what to answer."""

    def __init__(self, counts: Counter[str] | None = None) -> None:
        self.counts: Counter[str] = counts if counts is not None else Counter()
        self.expected = 0
        self._waiting: int | None = None  # the NAK that is out for `expected`: said once, then the rest is dropped

    def receive(self, sequence: int, ack_request: bool, ready: bool) -> tuple[bool, Reply | None]:
        """A packet came; `ready`: there is room for it. Returns (take it, answer or None)."""
        count = unfold(sequence, self.expected)
        if count < self.expected:
            self.counts["duplicate_request"] += 1
            # Only where it asks: else each packet of a run sent again would be answered.
            return False, Reply(ACK, self.expected - 1) if ack_request else None
        if count > self.expected:
            if self._waiting == RNR_NAK:
                return False, None  # under way when we said that nobody is ready: not lost
            self.counts["out_of_sequence"] += 1
            return False, self._refuse(NAK_SEQUENCE)
        if not ready:
            self.counts["out_of_buffer"] += 1
            self._waiting = None  # it came again and still nobody is ready: say so again
            return False, self._refuse(RNR_NAK)
        self._waiting = None
        self.expected += 1
        return True, Reply(ACK, count) if ack_request else None

    def _refuse(self, syndrome: int) -> Reply | None:
        if self._waiting is not None:
            return None
        self._waiting = syndrome
        return Reply(syndrome | RNR_TIMER if syndrome == RNR_NAK else syndrome, self.expected)
