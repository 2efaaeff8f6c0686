"""What faults are measured by: CPU time, the job's own log, the storage server's log; and what faults refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.faults import BY_NAME
from leadline.lab.faults.measured import cores_used, cpu_seconds, same_batches, told, work
from leadline.lab.realise.cgroups import Cgroup, Hierarchy
from leadline.lab.topology import load
from leadline.lab.workloads.base import RankProcess
from leadline.lab.workloads.storage.log import Request, line, requests
from leadline.model.errors import UsageError


def rank_with(log: Path, pid: int = 0) -> RankProcess:
    """A rank of which only log and process number matter."""
    process: Any = SimpleNamespace(pid=pid or os.getpid())
    return RankProcess(0, "h1", process, "GPU-0", log.with_suffix(".json"), log)


def test_cpu_time_of_a_process_is_what_it_says_itself() -> None:
    work = "x = 0\nwhile __import__('time').process_time() < 0.3: x += 1\nprint('done', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        used = cpu_seconds(child.pid)
        assert 0.25 <= used < 5
        assert cores_used([rank_with(Path("none"), child.pid)], 0.05) == pytest.approx([0.0], abs=0.3)
        child.communicate(b"\n")
    assert cpu_seconds(child.pid) == 0.0, "it is gone"


def test_the_log_tells_the_last_work_and_how_long_a_batch_repeats(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    assert work(rank_with(log)) == {}
    assert same_batches(rank_with(log)) == 0
    lines = [f'{{"rank": 0, "event": "work", "number": {n}, "batch": {b}}}' for n, b in enumerate((7, 8, 8, 8))]
    log.write_text("\n".join(["a warning", *lines[:2], '{"event": "step"}', *lines[2:], '{"rank": 0, "event": "wor']))
    assert work(rank_with(log))["number"] == 3
    assert same_batches(rank_with(log)) == 3
    log.write_text(lines[3] + "\n" + lines[0] + "\n")
    assert same_batches(rank_with(log)) == 1


@given(st.binary(max_size=300))
def test_any_log_is_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    log = tmp_path_factory.mktemp("logs") / "x.log"
    log.write_bytes(data + b'\n{"event": "work", "number": 1}\n{"object": "a/b", "bytes": 3, "seconds": 0.5}\n')
    assert told(log, "work")[-1]["number"] == 1
    assert requests(log)[-1] == Request("a/b", 3, 0.5, stored=True)


@given(
    st.builds(
        Request,
        st.from_regex(r"[\w.-]{1,20}/[\w.-]{1,20}", fullmatch=True),
        st.integers(0, 2**31),
        st.integers(0, 10**6).map(lambda ms: ms / 1000),
        st.booleans(),
    )
)
def test_what_the_storage_server_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, request_: Request
) -> None:
    log = tmp_path_factory.mktemp("logs") / "storage.log"
    log.write_text(f"listening on 1.2.3.4:5\n{line(request_)}\n{line(request_)[:-4]}")
    assert requests(log) == [request_]
    assert requests(log.with_name("none")) == []


def test_a_quota_below_the_kernels_least_gets_a_longer_period(tmp_path: Path) -> None:
    group = Cgroup("g", Hierarchy(2, {"": tmp_path}))
    (tmp_path / "g").mkdir()
    group.set_cpu_quota(0.02)
    assert (tmp_path / "g/cpu.max").read_text() == "1000 50000"
    group.set_cpu_quota(0.0001)
    assert (tmp_path / "g/cpu.max").read_text() == "1000 1000000"


def test_memory_that_cannot_be_taken_back_in_both_versions(tmp_path: Path) -> None:
    group = tmp_path / "g"
    group.mkdir()
    (group / "memory.stat").write_text("anon 100\nfile 900\nkernel 20\nshmem 3\n")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 0\noom_kill 0\n")
    second = Cgroup("g", Hierarchy(2, {"": tmp_path}))
    assert (second.memory_kept_bytes(), second.memory_limit_hits()) == (123, 5)
    (group / "memory.stat").write_text("cache 900\nrss 100\nshmem 3\n")
    (group / "memory.failcnt").write_text("7\n")
    first = Cgroup("g", Hierarchy(1, {"memory": tmp_path}))
    assert (first.memory_kept_bytes(), first.memory_limit_hits()) == (103, 7)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("colocated-neighbour", {}, "tiny has none; take the preset shared or cloud16"),
        ("slow-worker", {"share": 1.5}, "share is what is left of a rank's CPU, 0 to 1, got 1.5"),
        ("slow-worker", {"cores": 0.0}, "cores must be > 0, got 0.0; leave it out"),
        ("slow-storage", {"host": "h1"}, "host must be a storage host, storage1, got h1"),
        ("slow-storage", {"rate_ratio": 0.0}, "rate_ratio 0 to 1"),
        ("sigsegv", {"ranks": 0}, "ranks must be at least 1, got 0"),
        ("sigstop", {"hang_s": -1.0}, "hang_s must be seconds >= 0"),
        ("imbalanced-sequences", {"factor": 1.0}, "> 1, got 1.0"),
        ("loop-bug", {"share": 0.0}, "share is a part of the ranks"),
        ("checkpoint-storm", {"mb_per_step": 0.0}, "mb_per_step must be > 0"),
        ("slow-operator", {"repeats": 0}, "repeats must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        BY_NAME[name](**given).check(load("tiny"))
    assert said in str(caught.value)
    assert str(caught.value).startswith(name)
