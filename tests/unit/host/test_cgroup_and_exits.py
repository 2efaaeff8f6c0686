"""OOM kills of cgroups of both versions, and how processes end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.host.sources.cgroup import Cgroup, Group, Mounts, group_of, oom_kills, parse_flat, parse_mounts
from leadline.host.sources.exits import Exits, exit_event, zombie_status
from leadline.host.sources.ranks import Ranks
from leadline.host.sources.site import RankSeen, Site, process_is

from .conftest import recorded, site_with

V1 = Mounts("/cg/unified", "/cg/memory", "/cg/cpu")
V2 = Mounts("/cg", "", "")
RANK = RankSeen("bert-1", 3, 812, 9, 1_000, "")


def test_where_cgroups_are() -> None:
    mounts = parse_mounts(recorded("mounts"))
    assert mounts == Mounts("/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu")
    assert parse_mounts(b"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") == Mounts("/sys/fs/cgroup", "", "")
    assert parse_mounts(b"") == Mounts("", "", "")


def test_the_cgroup_of_a_process_of_either_version() -> None:
    v1 = b"9:memory:/job/r3\n4:cpu,cpuacct:/job/r3\n0::/elsewhere\n"
    assert group_of(v1, V1) == Group("/cg/memory/job/r3", "/cg/cpu/job/r3", "/job/r3")
    assert group_of(b"9:memory:/job/r3\n4:cpu:/\n", V1) == Group("/cg/memory/job/r3", "", "/job/r3")
    assert group_of(b"0::/user.slice/job\n", V2) == Group("/cg/user.slice/job", "/cg/user.slice/job", "/user.slice/job")
    assert group_of(b"0::/\n9:memory:/\n", V1) is None
    assert group_of(b"", V1) is None


def test_oom_kills_by_the_files_of_either_version(tmp_path: Path) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert oom_kills(str(tmp_path)) == 2
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 5\n")
    assert oom_kills(str(tmp_path)) == 5
    assert oom_kills(str(tmp_path / "none")) is None
    assert parse_flat(b"a 1\nb x\nc\n") == {"a": 1}


def test_a_kill_is_told_once_with_the_ranks_of_its_cgroup(tmp_path: Path) -> None:
    root = tmp_path / "cg"
    group = root / "job"
    proc = tmp_path / "proc"
    for directory in (group, proc / "self", proc / "812"):
        directory.mkdir(parents=True)
    (proc / "self" / "mounts").write_text(f"cgroup2 {root} cgroup2 rw 0 0\n")
    (proc / "812" / "cgroup").write_text("0::/job\n")
    for name, text in (
        ("memory.events", "oom_kill 1\n"), ("memory.current", "1000\n"), ("memory.max", "2000\n"),
        ("cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2500000\n"),
    ):  # fmt: skip
        (group / name).write_text(text)
    site = site_with(proc_root=proc)
    site.ranks[812] = RANK
    source = Cgroup(site)
    first = source.poll(5)
    assert first.events == []  # what was before we looked is not news
    assert {s.stream.name: s.value for s in first.samples} == {
        "container_oom_events_total": 1,
        "container_memory_usage_bytes": 1000,
        "container_spec_memory_limit_bytes": 2000,
        "container_cpu_cfs_periods_total": 10,
        "container_cpu_cfs_throttled_periods_total": 4,
        "container_cpu_cfs_throttled_seconds_total": 2.5,
    }
    (group / "memory.events").write_text("oom_kill 3\n")
    (event,) = source.poll(6).events
    assert (event.kind, event.entity, event.time_ns) == ("oom-kill", "host:h3", 6)
    assert event.attributes == {"cgroup": "/job", "kills": "2", "ranks": "rank:bert-1/3", "pids": "812"}
    assert source.poll(7).events == []
    site.ranks.clear()  # it has ended, and was the one that was killed
    (group / "memory.events").write_text("oom_kill 4\n")
    (event,) = source.poll(8).events
    assert event.attributes["pids"] == "812"
    assert source.poll(60 * 10**9).samples == []


@pytest.mark.parametrize(
    ("status", "is_oom", "code", "severity", "words"),
    [
        (0, False, "exit/0", "info", "ended with exit code 0"),
        (3 << 8, False, "exit/3", "error", "ended with exit code 3"),
        (9, False, "signal/SIGKILL", "error", "was killed by SIGKILL"),
        (9, True, "signal/SIGKILL", "error", "its cgroup counts an OOM kill"),
        (11 | 0x80, True, "signal/SIGSEGV", "error", "was killed by SIGSEGV"),
        (None, False, None, "error", "exit status unknown"),
        (None, True, None, "error", "its cgroup counts an OOM kill"),
    ],
)
def test_the_event_of_an_end(status: int | None, is_oom: bool, code: str | None, severity: str, words: str) -> None:
    event = exit_event(RANK, status, is_oom, 5)
    assert (event.entity, event.kind, event.code, event.severity) == ("rank:bert-1/3", "process-exit", code, severity)
    assert words in event.message
    assert event.attributes.get("reason") == ("oom-kill" if is_oom and status in (9, None) else None)


def seen(site: Site, process: subprocess.Popen[bytes]) -> None:
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    site.ranks[process.pid] = RankSeen("bert-1", 3, process.pid, int(stat[19]), 1_000, "")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def killed(site: Site, source: Exits, process: subprocess.Popen[bytes]) -> int:
    """Watch and kill a process; returns the file that tells its end, once it has ended. Nobody has waited for it."""
    seen(site, process)
    assert source.poll(time.time_ns()).events == []
    (handle,) = source.watched()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return handle


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the kernel tells nobody else before the parent has waited")
def test_a_process_that_nobody_has_waited_for() -> None:
    site = site_with()
    source = Exits(site)
    with sleeper() as process:
        (event,) = source.ready(killed(site, source, process), 5).events
    assert (event.code, event.time_ns) == ("signal/SIGKILL", 5)
    assert (site.ranks, source.watched()) == ({}, [])


def test_a_process_that_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.sources.exits.zombie_status", lambda *_: None)
    site = site_with()
    source = Exits(site)
    with sleeper() as process:
        handle = killed(site, source, process)
        assert source.held_ns is None
        seen_ns = time.time_ns()
        assert source.ready(handle, seen_ns).events == []  # how is not told yet
        assert source.held_ns == seen_ns
        assert source.watched() == []
        process.wait()
        found = source.poll(time.time_ns()).events or source.poll(time.time_ns() + 3 * 10**9).events
    source.close()
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    assert [event.code for event in found] == ["signal/SIGKILL" if release >= (6, 15) else None]


def test_what_is_not_told_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.sources.exits.zombie_status", lambda *_: None)
    site = site_with()
    source = Exits(site)
    with sleeper() as process:
        assert source.ready(killed(site, source, process), 10**9).events == []
        assert source.poll(2 * 10**9).events == []
        (event,) = source.poll(4 * 10**9).events
        assert "exit status unknown" in event.message
        assert event.time_ns == 10**9


def test_the_status_in_stat() -> None:
    fields = ["Z", *["0"] * 18, "77", *["0"] * 29, "139"]
    stat = f"5 (a) b) {' '.join(fields)}\n".encode()
    assert zombie_status(stat, 77, False) == 139
    assert zombie_status(stat, 78, True) is None  # another process has that pid now
    assert zombie_status(stat.replace(b"139", b"0"), 77, False) is None
    assert zombie_status(stat.replace(b"139", b"0"), 77, True) == 0
    assert zombie_status(stat.replace(b" Z ", b" S "), 77, True) is None
    assert zombie_status(b"", 0, True) is None


def test_a_pid_that_is_somebody_elses_now_is_not_watched() -> None:
    site = site_with()
    with sleeper() as process:
        seen(site, process)
        site.ranks[process.pid] = site.ranks[process.pid]._replace(start_ticks=1)
        source = Exits(site)
        source.poll(0)
        assert (source.watched(), site.ranks) == ([], {})
        assert process_is(site, process.pid, 0)
        process.kill()


def test_a_stopped_rank_is_told_and_its_going_on_too() -> None:
    site = site_with()
    source = Ranks(site)
    with sleeper() as process:
        seen(site, process)
        kinds = []
        for how in (None, signal.SIGSTOP, None, signal.SIGCONT):
            if how:
                process.send_signal(how)
                wanted = "T" if how is signal.SIGSTOP else "S"
                stat = Path(f"/proc/{process.pid}/stat")
                end = time.monotonic() + 5
                while stat.read_text().rpartition(")")[2].split()[0] != wanted and time.monotonic() < end:
                    time.sleep(0.01)
            kinds.append([event.kind for event in source.poll(5).events])
        process.kill()
    assert kinds == [[], ["process-stopped"], [], ["process-continued"]]


def test_a_debugger_is_told_apart_from_a_stop(tmp_path: Path) -> None:
    """As the kernel shows it: a tracing stop, or a tracer of a process that is stopped."""
    site = site_with(proc_root=tmp_path)
    site.ranks[812] = RANK
    directory = tmp_path / "812"
    directory.mkdir()
    fields = b"812 (python (3)) S " + b"1 " * 50

    def is_now(state: str, tracer: int) -> list[tuple[str, str]]:
        head, _, rest = fields.rpartition(b") ")
        (directory / "stat").write_bytes(head + b") " + state.encode() + rest[1:])
        (directory / "status").write_text(f"Name:\tpython\nTracerPid:\t{tracer}\nUid:\t0\n")
        return [(event.kind, event.severity) for event in source.poll(5).events]

    source = Ranks(site)
    begin, end = ("debugger-begin", "info"), ("debugger-end", "info")
    stopped, continued = ("process-stopped", "error"), ("process-continued", "info")
    assert is_now("S", 0) == []
    assert is_now("t", 99) == [begin]
    assert is_now("t", 99) == []
    assert is_now("S", 99) == [end]
    assert is_now("T", 99) == [begin]
    assert is_now("T", 0) == [end, stopped]  # the debugger left, and left it stopped
    assert is_now("R", 0) == [continued]
    site.ranks.clear()
    assert source.poll(6).events == []


def test_what_jobs_tell_waits_for_the_look_at_their_processes_but_not_for_a_look_that_hangs(tmp_path: Path) -> None:
    site = site_with(proc_root=tmp_path)
    now_ns = 100 * 10**9
    site.now_ns = lambda: now_ns
    source = Ranks(site)
    assert source.held_ns is None  # nobody to look at
    site.ranks[812] = RANK
    (tmp_path / "812").mkdir()
    (tmp_path / "812" / "stat").write_bytes(b"812 (python) t " + b"1 " * 50)
    assert source.held_ns == now_ns + 1
    now_ns += 3 * 10**9
    (event,) = source.poll(now_ns).events
    assert (event.kind, event.time_ns) == ("debugger-begin", 100 * 10**9)  # since the look before, as far as is known
    assert source.held_ns == now_ns + 1
    now_ns += 6 * 10**9
    assert source.held_ns is None


def test_ranks_are_looked_at_often_and_sampled_as_seldom_as_all_else() -> None:
    site = site_with(interval_s=5.0, ring_interval_s=0.5)
    source = Ranks(site)
    assert source.every_s == 0.5
    with sleeper() as process:
        seen(site, process)
        begin = 10**18
        looks = [len(source.poll(begin + step * 500_000_000).samples) > 0 for step in range(21)]
        process.kill()
    assert [step for step, has in enumerate(looks) if has] == [0, 10, 20]
