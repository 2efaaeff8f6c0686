"""The sFlow listener on 6343/udp: receives in one thread, decodes in another, with a bounded queue between them.

    kernel's buffer ──> receive: stamps, batches ──> queue ──> SflowIntake
      `kernel`                                       `queue`    `store`           where what is lost is counted

Batches fill for LINGER_S or to BATCH_BYTES: a batch costs about a millisecond to hand on, however small it is. A
datagram counts with what we note of it, so that empty ones, which anybody may send, fill a batch and the queue too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from leadline.ingest.config import SflowConfig
from leadline.ingest.intake import Intake
from leadline.ingest.sflow import Datagrams, SflowIntake
from leadline.ingest.sflow_senders import plain_address
from leadline.model.counters import counter
from leadline.model.errors import ConfigError, WorldError
from leadline.wire.sflow.datagrams import DATAGRAM_BYTES_MAX

log = logging.getLogger(__name__)

LINGER_S = 0.1
BATCH_BYTES = 1 << 20
NOTE_BYTES = 128  # of each datagram beside its bytes: where it ends, who sent it, when
IDLE_S = 0.2  # how soon a stop is noticed
REFRESH_S = 1.0  # how soon a changed file of senders is noticed

# Linux: asm-generic/socket.h. Python names neither.
SO_TIMESTAMPNS, SO_RXQ_OVFL = 35, 40
_STAMP, _DROPS = struct.Struct("@ll"), struct.Struct("@I")
_ANCILLARY = socket.CMSG_SPACE(_STAMP.size) + socket.CMSG_SPACE(_DROPS.size)


class SflowListener:
    """Construction is inert; `open` binds, `run` serves until it is cancelled.

    Errors: ConfigError for settings that would let strangers in.
    """

    def __init__(
        self, config: SflowConfig, host: str, intake: Intake, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """`host` is where to listen if the settings do not say."""
        self._config = config
        self._host = config.host or host
        require_known_senders(config, self._host)
        self._intake = intake
        self._now_ns = now_ns
        self._stopping = threading.Event()
        self._taker = SflowIntake(config, intake, self._stopping)
        self._queue: queue.SimpleQueue[Datagrams | None] = queue.SimpleQueue()
        self._queued = _Gauge()
        self._sockets: list[socket.socket] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: address and port of each socket."""
        return [each.getsockname()[:2] for each in self._sockets]

    def open(self) -> None:
        """Bind every address of the host; what arrives waits in the kernel. Errors: WorldError."""
        if not self._config.listens:
            return
        try:
            found = socket.getaddrinfo(self._host, self._config.port, type=socket.SOCK_DGRAM)
            for family, _, _, _, address in dict.fromkeys(found):
                self._sockets.append(_socket(family, address, self._config.receive_buffer_bytes))
        except OSError as error:
            self.close()
            raise WorldError(
                f"cannot listen for sFlow on {self._host}:{self._config.port}/udp (ingest.sflow.port): "
                f"{error.strerror}; stop the program that has the port, or choose another with --sflow-port N"
            ) from error

    def close(self) -> None:
        """Close the sockets."""
        for each in self._sockets:
            each.close()
        self._sockets = []

    async def run(self) -> None:
        """Receive and decode until cancelled; then what was received is handed on. May be run again after it failed.

        Errors: WorldError if it cannot listen (any more); what a thread raised.
        """
        loop = asyncio.get_running_loop()
        if not self._sockets:  # it has run before
            self.open()
        self._stopping.clear()
        self._queue = queue.SimpleQueue()
        self._queued = _Gauge()
        with ThreadPoolExecutor(2, thread_name_prefix="sflow") as threads:
            running = [loop.run_in_executor(threads, work) for work in (self._receive, self._decode)]
            try:
                # Not `gather`, which gives its futures up when it is cancelled, while their threads go on.
                await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
                for ended in running:
                    ended.result()
                await asyncio.Event().wait()  # nobody may send: there is nothing to do
            finally:
                self._stopping.set()
                await asyncio.wait(running)
                self.close()

    # -- the receiving thread -----------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            poll = select.poll()
            receivers = {each.fileno(): _Receiver(each, self._now_ns) for each in self._sockets}
            for number in receivers:
                poll.register(number, select.POLLIN)
            batch = _Batch()
            while receivers and not self._stopping.is_set():
                wait_s = IDLE_S if not batch.ends else max(0.0, batch.due - time.monotonic())
                for number, _ in poll.poll(wait_s * 1000):
                    receivers[number].drain(batch)
                if batch.ends and (batch.full or time.monotonic() >= batch.due):
                    self._hand_on(batch.cut())
                lost = sum(receiver.lost() for receiver in receivers.values())
                self._intake.counts.add(counter("sflow_lost", "kernel"), lost)
            if batch.ends:
                self._hand_on(batch.cut())
        finally:
            self._queue.put(None)

    def _hand_on(self, datagrams: Datagrams) -> None:
        size = _held_bytes(datagrams)
        if self._queued.value + size > self._config.queue_bytes_max and self._queued.value:
            self._intake.counts.add(counter("sflow_lost", "queue"), len(datagrams.ends))
            return
        self._queued.add(size)
        self._queue.put(datagrams)

    # -- the decoding thread ------------------------------------------------------------------------------

    def _decode(self) -> None:
        refreshed = -REFRESH_S
        while True:
            if time.monotonic() - refreshed >= REFRESH_S:
                refreshed = time.monotonic()
                self._refresh()
            try:
                datagrams = self._queue.get(timeout=REFRESH_S)
            except queue.Empty:
                continue
            if datagrams is None:
                return
            try:
                self._taker.take(datagrams)
            except Exception:
                # Our own bug. Whoever can send a datagram could send it again: it must not stop the server.
                log.exception("a batch of %d sFlow datagrams could not be taken", len(datagrams.ends))
                self._intake.counts.add(counter("sflow_lost", "failed"), len(datagrams.ends))
            finally:
                self._queued.add(-_held_bytes(datagrams))

    def _refresh(self) -> None:
        """Look for changed files of senders; what goes wrong with that keeps no datagram waiting."""
        try:
            self._taker.refresh()
        except Exception:
            self._intake.counts.add(counter("background_failed", "sflow"))
            log.exception("the files of sFlow senders could not be looked at; the names stay as they were")


def _held_bytes(datagrams: Datagrams) -> int:
    return len(datagrams.data) + NOTE_BYTES * len(datagrams.ends)


class _Gauge:
    """A number that two threads change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, amount: int) -> None:
        with self._lock:
            self.value += amount


class _Batch:
    """Datagrams that are being collected."""

    def __init__(self) -> None:
        self._buffer = bytearray(BATCH_BYTES + DATAGRAM_BYTES_MAX + 1)
        self._view = memoryview(self._buffer)
        self._used = 0
        self._begin()

    def _begin(self) -> None:
        self.ends: list[int] = []
        self._senders: list[str] = []
        self._arrived_ns: list[int] = []
        self.due = 0.0
        self._used = 0

    @property
    def full(self) -> bool:
        """Whether the next datagram might not fit."""
        return self._used + NOTE_BYTES * len(self.ends) >= BATCH_BYTES

    @property
    def room(self) -> memoryview:
        """Where the next datagram is received; there is room for the largest unless the batch is full."""
        return self._view[self._used :]

    def add(self, size: int, sender: str, arrived_ns: int) -> None:
        """A datagram of `size` bytes was received into `room`."""
        if not self.ends:
            self.due = time.monotonic() + LINGER_S
        self._used += size
        self.ends.append(self._used)
        self._senders.append(sender)
        self._arrived_ns.append(arrived_ns)

    def cut(self) -> Datagrams:
        """What was collected; the next batch begins."""
        datagrams = Datagrams(bytes(self._view[: self._used]), self.ends, self._senders, self._arrived_ns)
        self._begin()
        return datagrams


class _Receiver:
    """One socket: its datagrams with the kernel's stamps, and how many the kernel had no room for."""

    def __init__(self, sock: socket.socket, now_ns: Callable[[], int]) -> None:
        self._socket = sock
        self._now_ns = now_ns
        self._dropped = 0
        self._told = 0
        self._plain: dict[str, str] = {}

    def drain(self, batch: _Batch) -> None:
        """Take what waits, until the batch is full."""
        while not batch.full:
            try:
                size, ancillary, _, address = self._socket.recvmsg_into([batch.room], _ANCILLARY, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:  # a full table of neighbours, a network that went away: the next call may work
                log.warning("receiving sFlow: %s", error)
                return
            batch.add(size, self._sender(address[0]), self._stamp(ancillary))

    def _stamp(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        stamp_ns = 0
        for level, kind, raw in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = _STAMP.unpack(raw)
                stamp_ns = seconds * 10**9 + nanoseconds
            elif kind == SO_RXQ_OVFL:
                (self._dropped,) = _DROPS.unpack(raw)
        return stamp_ns or self._now_ns()  # a packet without a stamp was seen once in a long run

    def _sender(self, address: str) -> str:
        plain = self._plain.get(address)
        if plain is None:
            if len(self._plain) >= 10_000:  # addresses can be made up
                self._plain.clear()
            plain = self._plain[address] = plain_address(address)
        return plain

    def lost(self) -> int:
        """Datagrams that the kernel dropped since the last call, as far as it has told."""
        more = (self._dropped - self._told) % (1 << 32)
        self._told = self._dropped
        return more


def _socket(family: int, address: tuple[object, ...], buffer_bytes: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def require_known_senders(config: SflowConfig, host: str) -> None:
    """Refuse to let anyone send who can reach us. Errors: ConfigError."""
    if not config.accept_unknown or host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise ConfigError(
        f"ingest.sflow.accept_unknown takes datagrams of anyone, so ingest.sflow.host must be a loopback address, got "
        f"{host!r}; list the switches in ingest.sflow.senders instead"
    )
