"""The parts of the harness that real jobs depend on: the way that can be cut, and the debugger's double."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from evals.jobs.place import free_ports
from evals.jobs.relay import Relay

WAIT_S = 10.0


def answer(listening: socket.socket) -> None:
    """Send back what comes, over one connection after the other."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)


@pytest.fixture
def way() -> Iterator[tuple[Relay, socket.socket]]:
    """A relay to a server that echoes, and a connection through it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        (port,) = free_ports(1)
        relay = Relay(port, listening.getsockname()[1])
        relay.start()
        try:
            with closing(socket.create_connection(("127.0.0.1", port), WAIT_S)) as connection:
                yield relay, connection
        finally:
            relay.stop()


def test_what_is_sent_while_the_way_is_cut_comes_when_it_is_mended(way: tuple[Relay, socket.socket]) -> None:
    relay, connection = way
    connection.sendall(b"before")
    assert connection.recv(100) == b"before"
    relay.cut()
    connection.sendall(b"meanwhile")
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        connection.recv(100)
    relay.mend()
    connection.settimeout(WAIT_S)
    assert connection.recv(100) == b"meanwhile"


def test_without_a_server_a_connection_is_closed() -> None:
    port, nobody = free_ports(2)
    relay = Relay(port, nobody)
    relay.start()
    try:
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
            connection.settimeout(WAIT_S)
            assert connection.recv(100) == b""
    finally:
        relay.stop()


def test_a_process_that_is_held_makes_no_progress_and_goes_on() -> None:
    """Skipped where tracing is not allowed."""
    counting = "import time\nwhile True: print(1, flush=True); time.sleep(0.01)"
    held = subprocess.Popen([sys.executable, "-c", counting], stdout=subprocess.PIPE)
    try:
        assert held.stdout is not None
        held.stdout.readline()
        double = subprocess.Popen(
            [sys.executable, "-m", "evals.jobs.debugger_double", str(held.pid), "0.5"], stderr=subprocess.PIPE
        )
        assert double.stderr is not None
        states = set()
        while double.poll() is None:
            states.add(state_of(held.pid))
            time.sleep(0.01)
        said = double.stderr.read().decode()
        double.stderr.close()
        if "Operation not permitted" in said:
            pytest.skip("ptrace is not permitted here")
        assert double.returncode == 0, said
        assert "t" in states  # tracing stop, not T: nobody sent it SIGSTOP
        time.sleep(0.1)
        assert state_of(held.pid) in "SR"
    finally:
        held.kill()
        held.wait()
        if held.stdout:
            held.stdout.close()


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
