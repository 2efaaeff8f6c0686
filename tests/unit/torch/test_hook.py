"""The hook in a process: switched on, switched off, forked, ended; and the sockets it finds."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.torch.job import rows_of

from leadline.model.ids import flow_id
from leadline.torch import rings as rings_module
from leadline.torch.announce import Announcer, flow_edges
from leadline.torch.identity import identity_from
from leadline.torch.rings import Rings, make_ring, ring_directory
from leadline.torch.sockets import Socket, own_sockets, parse_address
from leadline.wire.ring.format import read_header

pytestmark = pytest.mark.slow  # left out of make check

IDENTITY = identity_from({"LEADLINE_JOB": "a/b c", "RANK": "1", "CUDA_VISIBLE_DEVICES": "GPU-1"}, "n1")


def run(program: str, *arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


def test_a_ring_says_who_writes_it(tmp_path: Path) -> None:
    make_ring(tmp_path, IDENTITY).close()
    (path,) = tmp_path.iterdir()
    header = read_header(path.read_bytes())
    assert (header.job, header.rank, header.gpu, header.host) == ("a/b c", 1, "gpu:GPU-1", "n1")
    assert (header.pid, header.tid) == (os.getpid(), threading.get_native_id())
    assert header.pid_start_ticks > 0
    assert header.closed
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_ring_is_held_until_it_is_let_go(tmp_path: Path) -> None:
    """The agent sees by the lock that the writer lives."""
    ring = make_ring(tmp_path, IDENTITY)
    (path,) = tmp_path.iterdir()
    with path.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    ring.close()
    del ring
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_one_ring_per_thread_and_a_bound_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings_module, "RINGS_MAX", 3)
    rings = Rings(tmp_path, IDENTITY)
    all_there = threading.Barrier(5)

    def write() -> None:
        for _ in range(3):
            rings.of_thread().event("x", 1)
        all_there.wait(10)  # a thread that ended would leave its number, and its ring, to the next

    threads = [threading.Thread(target=write) for _ in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(list(tmp_path.glob("*.ring"))) == 3
    assert rings.dropped == 6
    rings.close()
    assert len(rows_of(tmp_path)["event"]) == 9
    rings.of_thread().event("x", 1)  # after the end: nothing, and no error


def test_a_directory_that_is_not_there_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ring_directory(str(tmp_path / "missing")) is None
    assert caplog.text.count("LEADLINE_RING_DIR") == 1
    assert ring_directory(str(tmp_path)) == tmp_path
    rings = Rings(None, IDENTITY)
    rings.of_thread().step(1, 2, 3)
    assert not rings.is_on


def test_a_directory_that_may_not_even_be_looked_at_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", denied)
    assert ring_directory("/nowhere/rings") is None


def test_no_setting_makes_the_job_fail(tmp_path: Path) -> None:
    program = """
import os, sys
os.environ["RANK"] = "9" * 5000
import leadline.torch as leadline_torch
watch = leadline_torch.watch(directory=sys.argv[1])
with watch.step(1):
    watch.event("x")
watch.close()
"""
    assert "training is not watched" in run(program, str(tmp_path))


def test_a_job_may_have_a_long_name_in_any_letters(tmp_path: Path) -> None:
    identity = identity_from({"LEADLINE_JOB": "ä" * 300}, "n1")
    make_ring(tmp_path, identity).close()
    (path,) = tmp_path.iterdir()
    assert read_header(path.read_bytes()).job == "ä" * 300


def test_a_ring_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    rings = Rings(tmp_path, IDENTITY)
    rings.of_thread().event("x", 1)
    assert rings.dropped == 1
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_writes_nothing_into_its_parents_rings(tmp_path: Path) -> None:
    program = """
import os, sys
import torch
import leadline.torch as leadline_torch
watch = leadline_torch.watch(directory=sys.argv[1], job="fork-1", collectives=False)
watch.event("before")
if (child := os.fork()) == 0:
    watch.event("child")
    with watch.step(5):
        pass
    watch.close()
    again = leadline_torch.watch(directory=sys.argv[1], job="fork-1", rank=1, collectives=False)
    again.event("own")
    again.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
watch.event("after")
"""
    run(program, str(tmp_path))
    events = [row for row in rows_of(tmp_path)["event"] if row["kind"] != "run-info"]
    assert sorted((row["kind"], row["entity"]) for row in events) == [
        ("after", "rank:fork-1/0"),
        ("before", "rank:fork-1/0"),
        ("own", "rank:fork-1/1"),  # a child may be watched by itself
    ]


def test_what_was_written_stays_when_the_process_is_killed(tmp_path: Path) -> None:
    program = """
import io, os, signal, sys
import leadline.torch as leadline_torch
watch = leadline_torch.watch(directory=sys.argv[1], job="killed-1", collectives=False)
sys.stdin = io.StringIO("where\\nc\\n")
breakpoint()
with watch.span("evaluation", "after step 3"):
    pass
with watch.step(4):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    run(program, str(tmp_path), code=-signal.SIGKILL)
    rows = rows_of(tmp_path)
    assert [row["kind"] for row in rows["event"]] == [
        "debugger-begin",
        "debugger-end",
        "evaluation-begin",
        "evaluation-end",
    ]
    assert [row["step"] for row in rows["step"]] == [4]
    assert not read_header(next(tmp_path.glob("*.ring")).read_bytes()).closed


def test_an_optimiser_alone_is_a_watched_loop(tmp_path: Path) -> None:
    program = """
import sys, torch
import leadline.torch as leadline_torch
watch = leadline_torch.watch(directory=sys.argv[1], job="auto-1")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=4, num_workers=2)
for batch in watch.data(loader):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
    run(program, str(tmp_path))
    rows = rows_of(tmp_path)["step"]
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert all(row["optimizer_ns"] > 0 and row["data_ns"] > 0 for row in rows)


# -- sockets ------------------------------------------------------------------------------------------------------


def test_own_sockets_are_found_with_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.torch.sockets._is_loopback", lambda _: False)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            found = own_sockets()
            here, there = client.getsockname(), client.getpeername()
    assert Socket(socket.IPPROTO_TCP, *here, *there) in found
    assert Socket(socket.IPPROTO_TCP, *there, *here) in found
    assert not {one for one in found if one.local_port == there[1] and one.peer_port == 0}  # the listener has no peer


def test_addresses() -> None:
    inet = struct.pack("=H", socket.AF_INET) + b"\x11\x5c" + bytes([10, 1, 2, 3]) + bytes(8)
    assert parse_address(inet) == ("10.1.2.3", 4444)
    mapped = (
        struct.pack("=H", socket.AF_INET6) + b"\x11\x5c" + bytes(4) + bytes(10) + b"\xff\xff" + bytes([10, 1, 2, 3])
    )
    assert parse_address(mapped + bytes(4)) == ("10.1.2.3", 4444)
    assert parse_address(struct.pack("=H", socket.AF_UNIX) + b"/x" + bytes(20)) is None


@given(st.binary(max_size=40))
def test_any_address_is_read_or_is_none(data: bytes) -> None:
    found = parse_address(data)
    assert found is None or 0 <= found[1] < 65536


def test_flows_of_a_socket_are_those_that_a_switch_sees() -> None:
    out, back = flow_edges(IDENTITY, Socket(6, "10.1.1.1", 40000, "10.2.2.1", 29500))
    assert out == (f"flow:{flow_id(6, '10.1.1.1', '10.2.2.1', 40000, 29500):032x}", "owns", "rank:a/b c/1")
    assert back[0] == f"flow:{flow_id(6, '10.2.2.1', '10.1.1.1', 29500, 40000):032x}"


def test_edges_are_told_when_they_begin_and_when_they_end(tmp_path: Path) -> None:
    rings = Rings(tmp_path, IDENTITY)
    announcer = Announcer(rings, IDENTITY, lambda _: None)
    one, other = ("rank:a/1", "owns", "flow:1"), ("rank:a/1", "owns", "flow:2")
    announcer.tell([one], 100)
    announcer.tell([one, other], 200)
    announcer.tell([other], 300)
    rings.close()
    told = [(row["parent"], row["from_ns"], row["to_ns"]) for row in rows_of(tmp_path)["relation"]]
    assert told == [("flow:1", 100, None), ("flow:2", 200, None), ("flow:1", 100, 300)]
