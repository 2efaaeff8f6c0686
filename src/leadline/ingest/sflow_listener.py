"""The sFlow listener on 6343/udp: receives in one thread, decodes in another, with a bounded queue between them.

    kernel's buffer ──> receive: stamps, batches ──> queue ──> SflowIntake
      `kernel`                                       `queue`    `store`           where what is lost is counted

While a batch fills, the receiving thread looks every few milliseconds, not at each datagram. A datagram counts with
what we note of it, so that empty ones, which anybody may send, fill a batch and the queue too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import queue
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from leadline.ingest.config import SflowConfig
from leadline.ingest.intake import Intake
from leadline.ingest.sflow import Datagrams, SflowIntake
from leadline.ingest.sflow_receiver import BATCH_BYTES, NOTE_BYTES, SO_RXQ_OVFL, SO_TIMESTAMPNS, Batch, Receiver
from leadline.model.counters import counter
from leadline.model.errors import ConfigError, WorldError

log = logging.getLogger(__name__)

IDLE_S = 0.2  # how soon a stop is noticed
REFRESH_S = 1.0  # how soon a changed file of senders is noticed

# Between two looks while a batch fills: a look costs some 100 us, whatever it finds. A buffer of 8 MiB (twice the 4 MiB
# asked for, as Linux counts) has room for 3,000 datagrams, so none is dropped up to 300,000 a second; with a smaller
# one the looks are as much closer.
NAP_S, NAP_BUFFER_BYTES = 0.01, 8 << 20


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
            receivers = {each.fileno(): Receiver(each, self._now_ns) for each in self._sockets}
            for number in receivers:
                poll.register(number, select.POLLIN)
            buffers = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in self._sockets]
            nap_s = NAP_S * min(1.0, min(buffers, default=0) / NAP_BUFFER_BYTES)
            batch = Batch(min(BATCH_BYTES, self._config.queue_bytes_max // 4))
            while receivers and not self._stopping.is_set():
                for number, _ in poll.poll(0 if batch else IDLE_S * 1000):
                    receivers[number].drain(batch)
                if batch and (batch.full or time.monotonic() >= batch.due):
                    self._hand_on(batch.cut())
                elif batch:
                    time.sleep(max(0.0, min(nap_s, batch.due - time.monotonic())))
                lost = sum(receiver.lost() for receiver in receivers.values())
                self._intake.counts.add(counter("sflow_lost", "kernel"), lost)
            if batch:
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
