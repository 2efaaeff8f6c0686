"""The way from hosts of a lab to Leadline, which can be cut: over loopback, the hosts' sockets beside each other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from leadline.lab import relay
from leadline.lab.relay import CONNECTIONS_MAX, HELD_BYTES_MAX, Relay
from leadline.lab.topology import load
from leadline.model.errors import UsageError

WAIT_S = 10.0  # for what takes milliseconds: the machine may be busy
CUT_S = 0.4


class Echo:
    """A server that answers with what it was sent, once the sender has said all."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            told = b""
            while data := connection.recv(1 << 16):
                told += data
            connection.sendall(told)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Beside:
    """A double of a cluster whose hosts are not in namespaces: what is run on one is run here."""

    topology = load("tiny")

    def call_in(self, _: str, function: Callable[[], Any]) -> Any:
        return function()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ports of the hosts, in the order of the topology, once a relay has started: each any that is free."""
    found: list[int] = []
    listening = relay._listening

    def anywhere(_: tuple[str, int]) -> socket.socket:
        made = listening(("127.0.0.1", 0))
        found.append(made.getsockname()[1])
        return made

    monkeypatch.setattr(relay, "_listening", anywhere)
    return found


@pytest.fixture
def way(echo: Echo, ports: list[int]) -> Iterator[Relay]:
    made = Relay(cast("Any", Beside()), f"http://127.0.0.1:{echo.port}")
    made.start()
    yield made
    made.stop()


def asked(port: int, data: bytes, timeout_s: float = WAIT_S) -> bytes:
    """What comes back for `data`. Errors: TimeoutError, OSError."""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        told = b""
        while piece := connection.recv(1 << 16):
            told += piece
        return told


def test_a_user_reaches_the_default_address() -> None:
    assert relay.SERVER == "http://127.0.0.1:8440"


def test_all_that_is_said_comes_to_the_other_side_and_back(way: Relay, ports: list[int]) -> None:
    assert way.unheard() == ["h1", "h2"]
    much = bytes(range(256)) * (HELD_BYTES_MAX // 64)  # more than is ever held
    assert asked(ports[0], b"small") == b"small"
    assert way.unheard() == ["h2"]
    assert asked(ports[1], much) == much


def test_more_connections_than_are_held_wait_their_turn(way: Relay, ports: list[int]) -> None:
    idle = [socket.create_connection(("127.0.0.1", ports[0]), WAIT_S) for _ in range(CONNECTIONS_MAX)]
    with pytest.raises(TimeoutError):
        asked(ports[0], b"one too many", 0.2)
    for each in idle:
        each.close()
    assert asked(ports[0], b"now") == b"now"


def test_a_cut_way_hangs_and_goes_on_by_itself(way: Relay, ports: list[int]) -> None:
    with socket.create_connection(("127.0.0.1", ports[0]), WAIT_S) as open_before:
        way.cut(CUT_S, ["h1"])
        assert way.cut_hosts() == ["h1"]
        open_before.sendall(b"before")
        open_before.shutdown(socket.SHUT_WR)
        open_before.settimeout(CUT_S / 4)
        with pytest.raises(TimeoutError):
            open_before.recv(16)
        assert asked(ports[1], b"of h2") == b"of h2"
        open_before.settimeout(WAIT_S)
        assert open_before.recv(16) == b"before"
    assert way.cut_hosts() == []
    assert asked(ports[0], b"after") == b"after"


def test_all_ways_are_cut_until_they_are_mended(way: Relay, ports: list[int]) -> None:
    way.pause()
    assert way.cut_hosts() == ["h1", "h2"]
    for port in ports:
        with pytest.raises(TimeoutError):
            asked(port, b"nobody hears", 0.1)
    way.resume(["h2"])
    assert asked(ports[1], b"of h2") == b"of h2"
    way.resume()
    assert asked(ports[0], b"of h1") == b"of h1"


def test_without_a_server_the_connection_ends(way: Relay, echo: Echo, ports: list[int]) -> None:
    assert asked(ports[0], b"there") == b"there"
    listener, echo._listener = echo._listener, socket.create_server(("127.0.0.1", 0))
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    assert heard(ports[0]) == b""


def heard(port: int) -> bytes:
    """What comes of a question; a connection that is reset is as good as one that ends: it depends on who is faster."""
    try:
        return asked(port, b"is anybody there?")
    except TimeoutError:
        raise
    except OSError:  # reset; or gone when we say that we have said all
        return b""


def test_nothing_stays_open_after_the_end(way: Relay, ports: list[int]) -> None:
    with socket.create_connection(("127.0.0.1", ports[0]), WAIT_S) as held:
        way.stop()
        assert held.recv(16) == b""
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), WAIT_S)
    way.stop()  # harmless


@pytest.mark.parametrize("server", ["unix:/run/x", "https://127.0.0.1:1", "http://127.0.0.1", "127.0.0.1:1"])
def test_what_is_no_address_of_a_server_is_refused(server: str) -> None:
    with pytest.raises(UsageError, match="a lab reaches Leadline at http://ADDRESS:PORT"):
        Relay(cast("Any", Beside()), server)


def test_a_host_that_the_lab_has_not_is_refused(way: Relay) -> None:
    with pytest.raises(UsageError, match="h9"):
        way.cut(1.0, ["h9"])
