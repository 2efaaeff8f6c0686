"""Users' statements: read in a process that is ended at its limit, and run in turns."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from leadline.model.errors import BusyError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig
from leadline.store.asking.process import GuardProcess
from leadline.store.asking.turns import Turns
from leadline.store.guard import rewrite

MINE = Principal("mine", role=Role.TENANT_READ)
SQL = "SELECT count() FROM event WHERE message = 'é'"


@pytest.fixture(scope="module")
def guard() -> Iterator[GuardProcess]:
    guard = GuardProcess(BY_NAME, read_s_max=2.0, wait_s_max=0.2)
    yield guard
    guard.close()
    assert guard.pid is None


def test_it_says_what_the_guard_says(guard: GuardProcess) -> None:
    for who in (MINE, Principal()):
        assert guard.rewritten(SQL, who) == rewrite(SQL, who)
    with pytest.raises(UsageError, match=r"the table system\.one"):
        guard.rewritten("SELECT * FROM system.one", MINE)
    long = "SELECT " + ", ".join(f"'{n} {'x' * 50}'" for n in range(900))  # more than a pipe holds, both ways
    assert guard.rewritten(long, MINE) == rewrite(long, MINE)


def test_what_takes_too_long_is_ended_and_the_next_is_read(guard: GuardProcess) -> None:
    guard.rewritten(SQL, MINE)
    pid = guard.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # as good as a statement that takes for ever
    with pytest.raises(UsageError, match="took more than 2 s"):
        guard.rewritten(SQL, MINE)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert guard.rewritten(SQL, MINE) == rewrite(SQL, MINE)
    assert guard.pid not in (pid, None)


def test_whoever_comes_meanwhile_is_told_to_come_again(guard: GuardProcess) -> None:
    guard.rewritten(SQL, MINE)
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGSTOP)

    def read_in_vain() -> None:
        with pytest.raises(UsageError):
            guard.rewritten(SQL + "'" * 70_000, MINE)  # more than the pipe holds

    first = threading.Thread(target=read_in_vain)
    first.start()
    while not guard._turn.locked():
        time.sleep(0.01)
    with pytest.raises(BusyError):
        guard.rewritten(SQL, MINE)
    first.join()


def test_one_that_ended_meanwhile_is_begun_again(guard: GuardProcess) -> None:
    guard.rewritten(SQL, MINE)
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGKILL)
    assert guard.rewritten(SQL, MINE) == rewrite(SQL, MINE)


def test_a_process_with_many_open_files_reads_statements_too(guard: GuardProcess) -> None:
    """Its pipes have handles from 1,024 on, which `select` refuses: so has a server with many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip(f"needs a limit of 1,200 open files, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    guard.close()
    with ExitStack() as held:
        while True:
            handle = held.enter_context(open(os.devnull, "rb"))
            if handle.fileno() >= 1030:
                break
        assert guard.rewritten(SQL, MINE) == rewrite(SQL, MINE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_name_has_its_turns_and_no_more() -> None:
    turns = Turns(2)
    with turns.turn("a", 0) as first, turns.turn("a", 0) as second, turns.turn("a", 0) as third:
        assert (first, second, third) == (True, True, False)
        with turns.turn("b", 0) as other:
            assert other
    with turns.turn("a", 0) as again:
        assert again
    assert not turns._taken


def test_a_tenants_slow_query_leaves_room_for_others(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections for tenants: one tenant has one of them at a time, an operator has others."""
    monkeypatch.setattr("leadline.store.client.TURN_S_MAX", 0.1)
    store = Store(StoreConfig(path=str(tmp_path), readers=2))
    store.start()
    running, goes_on = threading.Event(), threading.Event()
    run_on = store._run_on

    def slowly(client: Any, sql: str, *more: Any) -> Any:
        if "111" in sql:
            running.set()
            goes_on.wait(60)
        return run_on(client, sql, *more)

    monkeypatch.setattr(store, "_run_on", slowly)
    with running_beside(lambda: store.query_as(MINE, "SELECT 111"), goes_on):
        assert running.wait(60)
        with pytest.raises(BusyError, match="1 of the tenant's queries still run"):
            store.query_as(MINE, "SELECT 2")
        assert store.query_as(Principal("other", role=Role.TENANT_READ), "SELECT 2 AS n").to_pylist() == [{"n": 2}]
        assert store.query_as(Principal(), "SELECT 3 AS n").to_pylist() == [{"n": 3}]
    assert store.query_as(MINE, "SELECT 4 AS n").to_pylist() == [{"n": 4}]
    store.stop()


@contextmanager
def running_beside(call: Any, goes_on: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        goes_on.set()
        thread.join()
