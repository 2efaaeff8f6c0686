"""Receives UDP datagrams, many in one system call (recvmmsg), with the kernel's stamps and its count of lost ones.

    socket ──recvmmsg──> slots: bytes | address | ancillary data ──> Batch: bytes, ends, senders, stamps

Python's own `recvmsg` takes one datagram a call.
Linux only, 64 bits. Sources: recvmmsg(2), socket(7), cmsg(3).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from leadline.ingest.sflow import Datagrams
from leadline.ingest.sflow_senders import plain_address
from leadline.wire.sflow.datagrams import DATAGRAM_BYTES_MAX

log = logging.getLogger(__name__)

LINGER_S = 0.25  # a batch costs some milliseconds to hand on, however small it is; its rows wait a second for others
BATCH_BYTES = 4 << 20
NOTE_BYTES = 128  # of each datagram beside its bytes: where it ends, who sent it, when
SENDERS_MAX = 10_000  # addresses kept as texts; they can be made up

# Linux: asm-generic/socket.h. Python names neither.
SO_TIMESTAMPNS, SO_RXQ_OVFL = 35, 40

_SLOTS = 64  # datagrams of one call: a call costs some 20 us, so more would not be felt
# The largest datagram, and a little so that the slots' beginnings do not all fall on one set of a processor's cache.
_SLOT_BYTES = DATAGRAM_BYTES_MAX + 1 + 1472
_ADDRESS_BYTES = 28  # sockaddr_in6; sockaddr_in has 16
_HEAD_BYTES = 16  # struct cmsghdr: length 8, level 4, type 4; its data follows, aligned to 8
_STAMP_SPACE, _DROPS_SPACE = socket.CMSG_SPACE(16), socket.CMSG_SPACE(4)
_ANCILLARY_BYTES = _STAMP_SPACE + _DROPS_SPACE

_MESSAGE = np.dtype(  # struct mmsghdr
    {
        "names": ["name", "name_bytes", "vectors", "vector_count", "control", "control_bytes", "flags", "size"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
_VECTOR = np.dtype([("base", "u8"), ("size", "u8")])  # struct iovec

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Received:
    """Datagrams of one call: one behind the other, their sizes, who sent each, when each arrived (ns)."""

    data: bytes
    sizes: list[int]
    senders: list[str]
    arrived_ns: list[int]


class Batch:
    """Datagrams that are being collected, for LINGER_S or to `bytes_max`."""

    def __init__(self, bytes_max: int = BATCH_BYTES) -> None:
        self._bytes_max = bytes_max
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._sizes: list[int] = []
        self._senders: list[str] = []
        self._arrived_ns: list[int] = []
        self._used = 0
        self.due = 0.0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def full(self) -> bool:
        """Whether it is to be handed on."""
        return self._used >= self._bytes_max

    def add(self, received: Received) -> None:
        """More datagrams came."""
        if not self._sizes:
            self.due = time.monotonic() + LINGER_S
        self._used += len(received.data) + NOTE_BYTES * len(received.sizes)
        self._parts.append(received.data)
        self._sizes += received.sizes
        self._senders += received.senders
        self._arrived_ns += received.arrived_ns

    def cut(self) -> Datagrams:
        """What was collected; the next batch begins."""
        ends = np.cumsum(self._sizes, dtype=np.int64)
        datagrams = Datagrams(b"".join(self._parts), ends, self._senders, np.array(self._arrived_ns, np.int64))
        self._begin()
        return datagrams


class Receiver:
    """One socket: its datagrams with the kernel's stamps, and how many the kernel had no room for."""

    def __init__(self, sock: socket.socket, now_ns: Callable[[], int]) -> None:
        self._socket = sock
        self._now_ns = now_ns
        self._dropped = 0
        self._told = 0
        self._texts: dict[bytes, str] = {}
        self._address = slice(4, 8) if sock.family == socket.AF_INET else slice(8, 24)
        self._data = np.empty((_SLOTS, _SLOT_BYTES), np.uint8)
        self._slots = [slot.data for slot in self._data]
        self._names = np.zeros((_SLOTS, _ADDRESS_BYTES), np.uint8)
        self._control = np.zeros((_SLOTS, _ANCILLARY_BYTES), np.uint8)
        self._words = self._control.view(np.int64)  # the same, for what lies on 8 bytes
        self._vectors = np.zeros(_SLOTS, _VECTOR)
        self._vectors["base"] = self._data.ctypes.data + np.arange(_SLOTS) * _SLOT_BYTES
        self._vectors["size"] = DATAGRAM_BYTES_MAX
        self._messages = np.zeros(_SLOTS, _MESSAGE)
        self._messages["name"] = self._names.ctypes.data + np.arange(_SLOTS) * _ADDRESS_BYTES
        self._messages["vectors"] = self._vectors.ctypes.data + np.arange(_SLOTS) * _VECTOR.itemsize
        self._messages["vector_count"] = 1
        self._messages["control"] = self._control.ctypes.data + np.arange(_SLOTS) * _ANCILLARY_BYTES

    def drain(self, batch: Batch) -> None:
        """Take what waits, until the batch is full."""
        while not batch.full:
            received = self._receive()
            if received is None:
                return
            batch.add(received)
            if len(received.sizes) < _SLOTS:
                return

    def _receive(self) -> Received | None:
        messages = self._messages
        messages["name_bytes"] = _ADDRESS_BYTES
        messages["control_bytes"] = _ANCILLARY_BYTES
        # The numbers of the call's own types: a pointer, and no time limit, since it does not wait.
        count = _libc.recvmmsg(
            self._socket.fileno(), ctypes.c_void_p(messages.ctypes.data), _SLOTS, socket.MSG_DONTWAIT, None
        )
        if count < 0:
            number = ctypes.get_errno()
            if number not in (errno.EAGAIN, errno.EINTR):  # a network that went away: the next call may work
                log.warning("receiving sFlow: %s", os.strerror(number))
            return None
        sizes: list[int] = messages["size"][:count].tolist()
        data = b"".join([slot[:size] for slot, size in zip(self._slots, sizes, strict=False)])
        return Received(data, sizes, self._senders(count), self._stamps(count))

    def _senders(self, count: int) -> list[str]:
        width = self._address.stop - self._address.start
        packed = self._names[:count, self._address].tobytes()
        keys = [packed[at : at + width] for at in range(0, len(packed), width)]
        try:
            return [self._texts[key] for key in keys]
        except KeyError:
            return self._new_senders(keys)

    def _new_senders(self, keys: Iterable[bytes]) -> list[str]:
        texts = []
        for key in keys:
            text = self._texts.get(key)
            if text is None:
                if len(self._texts) >= SENDERS_MAX:
                    self._texts.clear()
                text = self._texts[key] = plain_address(socket.inet_ntop(self._socket.family, key))
            texts.append(text)
        return texts

    def _stamps(self, count: int) -> list[int]:
        """When each of the datagrams arrived; what the kernel says of datagrams that it dropped is noted."""
        words, size_N = self._words[:count], self._messages["control_bytes"][:count]
        stamped_N = (words[:, 1] == _told_by(SO_TIMESTAMPNS)) & (size_N >= _STAMP_SPACE)
        begin = _STAMP_SPACE // 8
        drops_N = (words[:, begin + 1] == _told_by(SO_RXQ_OVFL)) & (size_N >= _STAMP_SPACE + _HEAD_BYTES + 4)
        if stamped_N.all():
            if drops_N[-1]:
                self._dropped = int(words[-1, begin + 2]) & 0xFFFFFFFF
            stamps: list[int] = (words[:, 2] * 10**9 + words[:, 3]).tolist()
            return stamps
        # A packet without a stamp was seen once in a long run; then its first word is about what was dropped.
        found = []
        for row, stamped, drops in zip(words.tolist(), stamped_N.tolist(), drops_N.tolist(), strict=True):
            found.append(row[2] * 10**9 + row[3] if stamped else self._now_ns())
            if drops or (not stamped and row[1] == _told_by(SO_RXQ_OVFL)):
                self._dropped = row[begin + 2 if drops and stamped else 2] & 0xFFFFFFFF
        return found

    def lost(self) -> int:
        """Datagrams that the kernel dropped since the last call, as far as it has told."""
        more = (self._dropped - self._told) % (1 << 32)
        self._told = self._dropped
        return more


def _told_by(kind: int) -> int:
    """Level and type of a piece of ancillary data, as the one word that they are (little-endian)."""
    return kind << 32 | socket.SOL_SOCKET
