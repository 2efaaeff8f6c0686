"""Receiving many datagrams in one call: their bytes, senders and stamps, in order, whatever their sizes."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from leadline.ingest import sflow_receiver
from leadline.ingest.sflow_receiver import SO_RXQ_OVFL, SO_TIMESTAMPNS, Batch, Receiver


@contextmanager
def listening(family: int, host: str, *options: int) -> Iterator[tuple[socket.socket, Receiver]]:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        for option in options or (SO_TIMESTAMPNS, SO_RXQ_OVFL):
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind((host, 0))
        yield sock, Receiver(sock, lambda: 7)


def drained(sock: socket.socket, receiver: Receiver, count: int, batch: Batch | None = None) -> Batch:
    batch = Batch() if batch is None else batch
    end = time.monotonic() + 5
    waiting = select.poll()  # select() takes no descriptor beyond 1023, and a whole suite has more
    waiting.register(sock, select.POLLIN)
    while len(batch) < count and time.monotonic() < end:
        waiting.poll(100)
        receiver.drain(batch)
    return batch


@pytest.mark.parametrize(
    ("family", "host", "source"),
    [(socket.AF_INET, "127.0.0.1", "127.77.0.9"), (socket.AF_INET6, "::1", "::1")],
    ids=["v4", "v6"],
)
def test_datagrams_come_whole_and_in_order(family: int, host: str, source: str) -> None:
    given = [bytes([n % 256]) * size for n, size in enumerate([0, 1, 1400, 65_000, 3] * 30)]  # more than two calls
    with listening(family, host) as (sock, receiver), socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        began_ns = time.time_ns()
        batch = Batch()
        for number, one in enumerate(given, 1):
            sender.sendto(one, sock.getsockname())
            if number % 50 == 0:  # 0.7 MB: the buffer holds them
                drained(sock, receiver, number, batch)
        told = drained(sock, receiver, len(given), batch).cut()
        ended_ns = time.time_ns()
        assert not batch
    starts = [0, *told.ends[:-1]]
    assert [told.data[start:end] for start, end in zip(starts, told.ends, strict=True)] == given
    assert set(told.senders) == {source}
    stamps = np.asarray(told.arrived_ns)
    assert len(stamps) == len(given)
    assert began_ns <= stamps.min()
    assert stamps.max() <= ended_ns
    assert receiver.lost() == 0


def test_what_found_the_buffer_full_is_told_with_later_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for options in ((SO_TIMESTAMPNS, SO_RXQ_OVFL), (SO_RXQ_OVFL,)):
            with listening(socket.AF_INET, "127.0.0.1", *options) as (sock, receiver):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                for _ in range(100):
                    sender.sendto(b"x" * 1000, sock.getsockname())
                batch = Batch()
                receiver.drain(batch)
                came = len(batch)
                sender.sendto(b"y", sock.getsockname())
                stamps = drained(sock, receiver, came + 1, batch).cut().arrived_ns
                assert receiver.lost() == 100 - came > 0
                assert receiver.lost() == 0
            assert (set(stamps) == {7}) == (SO_TIMESTAMPNS not in options), "without a stamp it is our clock's time"


def test_addresses_that_are_made_up_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sflow_receiver, "SENDERS_MAX", 2)
    with listening(socket.AF_INET, "127.0.0.1") as (sock, receiver):
        for number in range(1, 6):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((f"127.0.0.{number}", 0))
                sender.sendto(b"x", sock.getsockname())
        assert drained(sock, receiver, 5).cut().senders == [f"127.0.0.{number}" for number in range(1, 6)]
        assert len(receiver._texts) <= 2
