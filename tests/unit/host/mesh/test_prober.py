"""Probers that run: over loopback, in pairs, and one with a stranger. They take seconds, as it is time they measure."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.host.mesh.commands import Options, Peer, add_line, option_lines
from leadline.host.mesh.lines import Counters, Edge, Failed, Line, Ready, Refused, Silence, Truth, parse_line
from leadline.host.mesh.packet import Packet, Stamp, encode
from leadline.host.mesh.prober import Prober, command_of, find_program
from leadline.host.mesh.recorded import parse_recorded
from leadline.model.errors import UsageError

KEY = b"sixteen bytes...".ljust(16)
FOUND_S = 20.0  # a machine that is busy with other tests is slow
NAMES = ("a", "b")


def free_port() -> int:
    """A port that nobody has now; its neighbours are most likely free too."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return min(int(one.getsockname()[1]), 65000)


def options(index: int, port: int, **more: object) -> Options:
    return Options(NAMES[index], index + 1, KEY, port, "127.0.0.1")._replace(**more)


class Heard:
    """A prober and the lines it has said."""

    def __init__(self, given: Options, command: list[str]) -> None:
        self.lines: list[Line] = []
        self._new: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self.prober = Prober(given, self._new.put, command)

    def until(self, enough: Callable[[Line], bool], seconds: float = FOUND_S) -> Line:
        """The first line from here on that is enough."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self.lines.append(line := self._new.get(timeout=left))
                if enough(line):
                    return line
        raise AssertionError(f"not heard in {seconds:g} s; the last lines: {self.lines[-3:]}")


@contextlib.contextmanager
def pair(first: list[str], second: list[str], *more: dict[str, object]) -> Iterator[tuple[Heard, Heard]]:
    """Two probers over loopback; the first owns their edge."""
    ports = [free_port(), free_port()]
    kept = more or ({}, {})
    both = [Heard(options(i, ports[i], **kept[i]), command) for i, command in enumerate((first, second))]
    try:
        for i, each in enumerate(both):
            each.prober.set_peers([Peer(2 - i, NAMES[1 - i], "127.0.0.1", ports[1 - i], i == 0)])
            each.prober.start()
        yield both[0], both[1]
    finally:
        for each in both:
            each.prober.stop()


def valid(line: Line) -> bool:
    return isinstance(line, Edge) and line.fit is not None


def at(truths: list[Truth], value: int, known: int, wanted: int) -> float:
    """One clock of an injected one, by the other."""
    index = min(max(bisect_left([each[known] for each in truths], value), 1), len(truths) - 1)
    before, after = truths[index - 1], truths[index]
    share = (value - before[known]) / (after[known] - before[known])
    return (
        before[wanted]
        + (value - before[known])
        + share * ((after[wanted] - before[wanted]) - (after[known] - before[known]))
    )


@pytest.fixture
def program(built: Path) -> list[str]:
    return [str(built / "leadline-prober")]


# --- what they find ---


def test_they_find_an_injected_offset_and_rate(program: list[str]) -> None:
    clocks = {"clock": (0, 0.0, 0.0, 0.0, 0.0, 1)}, {"clock": (-3_600_000_000_123, 20_000.0, 3.0, 200.0, 300.0, 2)}
    with pair(program, program, *clocks) as (a, b):
        bases = [each.until(lambda line: isinstance(line, Ready)).base_ns for each in (a, b)]
        for _ in range(4):
            edge = a.until(valid)
        b.until(
            lambda line: (
                isinstance(line, Truth) and line.host_ns - bases[1] + 3_600_000_000_123 > edge.end_ns - bases[0]
            )
        )
        a.until(lambda line: isinstance(line, Truth) and line.host_ns > edge.end_ns)
    truths = [[line for line in each.lines if isinstance(line, Truth)] for each in (a, b)]
    theirs = at(truths[1], round(at(truths[0], edge.end_ns, 1, 0)), 0, 1)
    assert edge.fit.offset_ns == pytest.approx(theirs - edge.end_ns, abs=edge.fit.bound_ns)
    assert edge.fit.offset_ns == pytest.approx(theirs - edge.end_ns, abs=5000)  # a busy machine; see bench for how well
    assert edge.fit.rate_ppb == pytest.approx(20_000, abs=5000)
    assert edge.stamp == "kernel"
    assert edge.there.lost == edge.back.lost == 0
    assert edge.there.min_ns > 0


def test_each_port_is_an_edge_of_its_own(program: list[str]) -> None:
    more = {"ports": 2, "dscp": 46, "rate": 100.0}
    with pair(program, program, more, more) as (a, _):
        found = {a.until(lambda line, n=n: valid(line) and line.label == n)[2:6:3] for n in (0, 1)}
    assert found == {(0, 46), (1, 46)}


def test_user_space_stamps_are_told_as_such(program: list[str]) -> None:
    with pair(program, program, {"stamps": "user"}, {}) as (a, _):
        assert a.until(lambda line: isinstance(line, Ready)).stamp == "user"
        assert a.until(valid).stamp == "user"


def test_a_nic_that_stamps_nothing_is_told_and_the_kernel_stamps(program: list[str]) -> None:
    with pair(program, program, {"stamps": "hardware", "nic": "lo"}, {}) as (a, _):
        refused = a.until(lambda line: isinstance(line, Refused))
        assert refused.text == "expected a NIC with a clock of its own, and lo has none"
        assert a.until(lambda line: isinstance(line, Ready)).stamp == "kernel"
        assert a.until(valid).stamp == "kernel"


@pytest.mark.parametrize("owner", ["C", "Python"])
def test_the_fallback_speaks_with_the_other(program: list[str], owner: str) -> None:
    slow = {"rate": 10.0, "window_ms": 4000.0}
    commands = [program, command_of(None)]
    with pair(*(commands if owner == "C" else commands[::-1]), slow, slow) as (a, b):
        edge = a.until(valid)
        assert edge.stamp == "user"
        assert abs(edge.fit.offset_ns) <= edge.fit.bound_ns
        for each in (a, b):
            counters = each.until(lambda line: isinstance(line, Counters))
            assert counters.received > 0
            assert sum(counters.refused.values()) == 0


def test_silence_is_told_at_once_and_its_end_too(program: list[str]) -> None:
    with pair(program, program) as (a, b):
        a.until(valid)
        b.prober.stop()
        silent = a.until(lambda line: isinstance(line, Silence))
        assert silent[:4] == (True, "b", "a", 0)
        assert 85_000_000 < silent.age_ns < 1_000_000_000
        again = Heard(Options("b", 2, KEY, b.until(lambda line: isinstance(line, Ready)).port, "127.0.0.1"), program)
        try:
            own = a.lines[0]
            assert isinstance(own, Ready)
            again.prober.set_peers([Peer(1, "a", "127.0.0.1", own.port, False)])
            again.prober.start()
            heard = a.until(lambda line: isinstance(line, Silence))
            assert heard[:4] == (False, "b", "a", 0)
            assert a.until(valid).fit is not None
        finally:
            again.prober.stop()


def test_raw_stamps_are_recorded(program: list[str], tmp_path: Path) -> None:
    file = tmp_path / "stamps"
    with pair(program, program, {"record": str(file)}, {}) as (a, _):
        a.until(valid)
    probes = list(parse_recorded(file.read_bytes()))
    for src, dst in ((1, 2), (2, 1)):
        way = [each for each in probes if (each.src, each.dst) == (src, dst)]
        assert len(way) >= 30
        assert {each.position for each in way} == {0, 1}
        assert len({(each.seq, each.position) for each in way}) == len(way)
        assert all(0 < each.rx_ns - each.tx_ns < 10**9 for each in way)


# --- what is refused ---


class Stranger:
    """One prober, and a socket that can say what it likes to it; it has the key, and is the peer of id 2."""

    def __init__(self, command: list[str]) -> None:
        self.port = free_port()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.heard = Heard(options(0, self.port), command)
        self.heard.prober.set_peers([Peer(2, "b", "127.0.0.1", self.socket.getsockname()[1], True)])
        self.heard.prober.start()
        self.boot = self.heard.until(lambda line: isinstance(line, Ready)).boot

    def packet(self, seq: int, key: bytes = KEY, to_boot: int | None = None, **more: object) -> bytes:
        given = Packet(2, 9, seq, 0, 0, 0, Stamp.USER, Stamp.USER, time.time_ns(), 0, 0)._replace(**more)
        return encode(given, key, 1, self.boot if to_boot is None else to_boot)

    def say(self, *packets: bytes) -> None:
        for each in packets:
            self.socket.sendto(each, ("127.0.0.1", self.port))

    def counters(self, enough: Callable[[Counters], bool]) -> Counters:
        return self.heard.until(lambda line: isinstance(line, Counters) and enough(line))


@pytest.fixture(params=["C", "sanitized", "Python"])
def stranger(request: pytest.FixtureRequest) -> Iterator[Stranger]:
    if request.param == "Python":
        command = command_of(None)
    else:
        where: Path = request.getfixturevalue("built" if request.param == "C" else "sanitized")
        command = [str(where / "leadline-prober")]
    one = Stranger(command)
    yield one
    one.heard.prober.stop()
    one.socket.close()


def test_each_refused_packet_is_counted_under_its_reason(stranger: Stranger) -> None:
    good = [stranger.packet(seq) for seq in range(300)]
    own = stranger.socket.recv(200)
    wrong = {
        "truncated": good[0][:40],
        "magic": b"\0" * 83,
        "version": b"LP\x02" + good[0][3:],
        "length": good[0] + b"\0",
        "reflected": own,
        "tag": stranger.packet(0, key=b"x" * 16),
        "field": stranger.packet(0, traffic_class=64),
        "stranger": encode(Packet(3, 9, 0, 0, 0, 0, Stamp.USER, Stamp.USER, 0, 0, 0), KEY, 1, stranger.boot),
    }
    stranger.say(*wrong.values(), stranger.packet(5, to_boot=stranger.boot ^ 1))
    stranger.say(*good[:3], good[1])  # one twice
    stranger.counters(lambda line: line.received == 3)
    stranger.say(good[299], good[10])  # one that is too old to know whether it came before
    stranger.counters(lambda line: line.received == 4)
    stranger.say(stranger.packet(0, boot=10), stranger.packet(300))  # after a new life one from before it
    found = stranger.counters(lambda line: line.refused["boot"] == 1)
    assert found.refused == {**dict.fromkeys(wrong, 1), "tag": 2, "replayed": 2, "boot": 1}
    assert found.received == 5


def test_a_hello_tells_the_boot_and_nothing_else(stranger: Stranger) -> None:
    stranger.say(stranger.packet(0, to_boot=0), stranger.packet(1, to_boot=0))
    found = stranger.counters(lambda line: line.hellos == 2)
    assert sum(found.refused.values()) == 0
    edge = stranger.heard.until(lambda line: isinstance(line, Edge))
    assert edge.points == 0


# --- commands, and the end ---


def said(command: list[str], data: bytes, seconds: float = FOUND_S) -> tuple[list[Line], int]:
    done = subprocess.run(command, input=data, capture_output=True, timeout=seconds, check=False)
    assert done.stderr == b""
    return [parse_line(line) for line in done.stdout.splitlines()], done.returncode


def lines_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_command_that_cannot_be_followed_changes_nothing(program: list[str]) -> None:
    bad = [
        "set rate fast",
        "set rate",
        "jump",
        "set colour blue",
        "x" * 2000,
        'set name a"b',
        "add 2 b 127.0.0.1 1 owned",
    ]
    bad += ["clock 1 2 3 4 5", "set soft nan", "set ports 17", "trace 2 0 33", "set key 00"]
    start = option_lines(options(0, free_port()))
    late = ["set rate 10", "add 1 a 127.0.0.1 1 owned", "remove 9", "add 2 b ::1 1 owned", "add 2 b 127.0.0.1 1 both"]
    lines, code = said(program, lines_of(*bad, *start, *late, "stop", "jump"))
    assert [type(line) for line in lines] == [Refused] * len(bad) + [Ready] + [Refused] * len(late)
    assert code == 0


def test_it_says_why_it_cannot_begin(program: list[str]) -> None:
    lines, code = said(program, b"start\n")
    assert lines == [Failed("expected a name (set name HOST)")]
    assert code == 3
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        lines, code = said(program, lines_of(*option_lines(options(0, taken.getsockname()[1]))))
    assert isinstance(lines[0], Failed)
    assert "Address already in use" in lines[0].text
    assert code == 3


@pytest.mark.parametrize("kind", ["C", "Python"])
@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "nobody reads"])
def test_it_ends(program: list[str], kind: str, how: str) -> None:
    command = program if kind == "C" else command_of(None)
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdin
        assert child.stdout
        child.stdin.write(
            lines_of(*option_lines(options(0, free_port())), add_line(Peer(2, "b", "127.0.0.1", 9, True)))
        )
        child.stdin.flush()
        assert isinstance(parse_line(child.stdout.readline()), Ready)
        if how == "end of input":
            child.stdin.close()
        elif how == "SIGTERM":
            child.send_signal(signal.SIGTERM)
        else:
            child.stdout.close()
        assert child.wait(FOUND_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_one_that_dies_is_started_anew_with_its_peers(program: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.mesh.prober.WAIT_S_MIN", 0.05)
    with pair(program, program) as (a, _):
        a.until(valid)
        child = a.prober._child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        a.until(lambda line: isinstance(line, Ready))
        a.until(valid)
        assert a.prober.starts == 2


def test_one_that_cannot_be_started_is_told_and_stops_in_time() -> None:
    one = Prober(options(0, 9000), lambda line: None, ["/nonexistent/prober"])
    one.start()
    end = time.monotonic() + FOUND_S
    while not one.last_error and time.monotonic() < end:
        time.sleep(0.01)
    assert one.last_error == "/nonexistent/prober cannot be started: No such file or directory"
    one.stop()


def test_one_that_hangs_is_killed_in_time() -> None:
    one = Prober(
        options(0, 9000),
        lambda line: None,
        ["bash", "-c", "trap '' TERM; echo nonsense; for i in {1..99}; do sleep 0.2; done"],
    )
    one.start()
    end = time.monotonic() + FOUND_S
    while not one.bad_lines and time.monotonic() < end:
        time.sleep(0.01)
    began = time.monotonic()
    one.stop()
    assert one.bad_lines == 1
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "wrong",
    [{"name": "a b"}, {"name": ""}, {"key": b"short"}, {"id": 0}, {"ports": 17}, {"port": 65536}, {"record": "a b"}],
)
def test_what_no_prober_would_take_is_refused_here(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        option_lines(options(0, 9000)._replace(**wrong))


def test_peers_that_no_prober_would_take_change_nothing() -> None:
    one = Prober(options(0, 9000), lambda line: None, ["true"])
    for wrong in (Peer(2, "b", "nowhere", 1, True), Peer(2, "b", "::1", 0, True), Peer(0, "b", "::1", 1, True)):
        with pytest.raises(UsageError):
            one.set_peers([wrong])
    with pytest.raises(UsageError):
        one.set_peers(Peer(id, "b", "::1", 1, True) for id in range(1, 66))


def test_the_program_is_found_where_it_is_named(tmp_path: Path) -> None:
    assert find_program({"LEADLINE_PROBER": "/opt/prober"}) == Path("/opt/prober")
    named = tmp_path / "leadline-prober"
    named.write_text("")
    named.chmod(0o755)
    assert find_program({"PATH": str(tmp_path)}) is not None


def test_fuzz(sanitized: Path) -> None:
    """Two seconds of what `make -C native/prober fuzz` does for ten."""
    done = subprocess.run([sanitized / "fuzz", "2", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "packets accepted" in done.stdout
