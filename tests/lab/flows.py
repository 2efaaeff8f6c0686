"""Traffic for tests: a TCP transfer between two hosts, and a collector that keeps the datagrams it gets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from leadline.lab.realise.cluster import Cluster
from leadline.wire.sflow.datagrams import SflowBatch, decode_sflow

PATIENCE_S = 20.0


def transfer(cluster: Cluster, source: str, target: str, size: int, port: int = 5001) -> None:
    """Send `size` bytes from one host to another and wait until they are there."""
    with (
        cluster.socket_in(target, socket.AF_INET, socket.SOCK_STREAM) as listener,
        cluster.socket_in(source, socket.AF_INET, socket.SOCK_STREAM) as sender,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(1)
        sender.settimeout(PATIENCE_S)
        sender.connect((cluster.address(target), port))
        receiver, _ = listener.accept()
        with receiver:
            thread = threading.Thread(target=_send, args=(sender, size))
            thread.start()
            buffer, left = bytearray(1 << 17), size
            while left > 0 and (got := receiver.recv_into(buffer)):
                left -= got
            thread.join()
    assert left == 0, f"{left} bytes of {size} did not arrive"


def _send(sender: socket.socket, size: int) -> None:
    block = bytes(1 << 16)
    while size > 0:
        size -= sender.send(block[:size])


class Collector:
    """Listens where switches send; what came is read by our own decoder."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.1)
        self.port = int(self._socket.getsockname()[1])
        self.got: list[tuple[str, bytes]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                data, (address, _) = self._socket.recvfrom(65535)
                self.got.append((address, data))

    def of(self, address: str) -> tuple[SflowBatch, int]:
        """What one switch sent so far, and how many datagrams; each must be readable to its last byte."""
        datagrams = [data for sender, data in self.got if sender == address]
        batch = decode_sflow(b"".join(datagrams), np.cumsum([len(each) for each in datagrams]))
        assert [error for number in range(len(datagrams)) if (error := batch.error(number))] == []
        assert {batch.agent(number) for number in range(len(datagrams))} <= {address}
        return batch, len(datagrams)


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector while it listens."""
    collector = Collector()
    collector._thread.start()
    try:
        yield collector
    finally:
        collector._ended.set()
        collector._thread.join()
        collector._socket.close()


def wait_for(what: str, condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s} s"
        time.sleep(0.05)
