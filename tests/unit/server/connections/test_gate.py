"""Which connections may stay, on times that the test brings."""

from __future__ import annotations

import resource

import pytest

from leadline.server.connections import files, gate
from leadline.server.connections.gate import Connection, Gate, Phase


def connected(limits: Gate, sender: str, now: float = 0.0, phase: Phase = Phase.FRESH) -> Connection:
    made = Connection(sender, None, now)
    assert limits.arrive(made, 10) is not None
    made.enter(phase, now)
    return made


@pytest.mark.parametrize(
    ("phase", "seconds", "reason"),
    [
        (Phase.FRESH, gate.HEADER_S_MAX, "header_slow"),
        (Phase.HEADER, gate.HEADER_S_MAX, "header_slow"),
        (Phase.IDLE, gate.IDLE_S_MAX, "idle"),
    ],
)
def test_each_phase_has_its_time(phase: Phase, seconds: float, reason: str) -> None:
    limits = Gate(10, 1000)
    made = connected(limits, "a", 100.0, phase)
    assert limits.overdue(100.0 + seconds) == []
    assert limits.overdue(100.1 + seconds) == [(made, reason)]


def test_a_body_is_whole_in_time_and_comes_on() -> None:
    limits = Gate(10, 1000)
    made = connected(limits, "a", 0.0, Phase.BODY)
    for second in range(0, 130, 10):
        made.moved = float(second)
        assert limits.overdue(made.moved) == []
    assert limits.overdue(130.1) == [(made, "body_slow")], "a byte now and then does not hold it for ever"
    other = connected(limits, "a", 200.0, Phase.BODY)
    assert (other, "body_slow") in limits.overdue(240.1)


def test_an_answer_may_take_as_long_as_it_is_taken() -> None:
    limits = Gate(10, 1000)
    made = connected(limits, "a", 0.0, Phase.ANSWER)
    assert limits.overdue(1e6) == []
    made.stuck = 1e6
    assert limits.overdue(1e6 + gate.READER_S_MAX + 1) == [(made, "reader_slow")]


def test_who_has_most_makes_room_with_what_does_least() -> None:
    limits = Gate(6, 1000)
    honest = [connected(limits, "honest", 0.0, Phase.IDLE) for _ in range(2)]
    body = connected(limits, "flood", 1.0, Phase.BODY)
    idle = connected(limits, "flood", 2.0, Phase.IDLE)
    fresh = connected(limits, "flood", 4.0)
    older = connected(limits, "flood", 3.0)
    order = []
    for _ in range(4):
        room = limits.arrive(Connection("other", None, 5.0), 10)
        assert room is not None
        order += room
    assert order[:2] == [older, fresh]
    assert not set(honest) & set(order[:2])
    assert idle in order or body in order or len(order) == 4
    assert len(limits) == 6


def test_nobody_who_waits_for_an_answer_is_cut() -> None:
    limits = Gate(3, 1000)
    waiting = [connected(limits, "a", 0.0, Phase.ANSWER) for _ in range(3)]
    assert limits.arrive(Connection("b", None, 1.0), 10) is None
    assert len(limits) == 3
    waiting[1].enter(Phase.IDLE, 2.0)
    assert limits.arrive(Connection("b", None, 3.0), 10) == [waiting[1]]


def test_files_that_run_out_are_no_room_either() -> None:
    """Whoever opened them: gRPC, the store, a worker's pipes."""
    limits = Gate(1000, 800)
    first = connected(limits, "a")
    assert limits.arrive(Connection("b", None, 0.0), 799) == []
    assert limits.arrive(Connection("b", None, 0.0), 800) == [first]


def test_a_connection_leaves_once() -> None:
    limits = Gate(10, 1000)
    made = connected(limits, "a")
    limits.leave(made)
    limits.leave(made)
    assert len(limits) == 0
    assert list(limits) == []


def test_the_limit_of_files_is_raised_and_four_fifths_are_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: now.__setitem__(0, limit))
    assert files.raise_file_limit() == 4096
    assert now == [(4096, 4096)]
    assert files.last_file_for_connections() == 3276
