"""Control groups of both versions. Plain directories stand for cgroup file systems; tests/lab has real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.lab.realise.cgroups import Cgroup, Hierarchy, find_hierarchy
from leadline.model.errors import WorldError

V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
V2 = "sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


def test_which_version_a_machine_has() -> None:
    assert find_hierarchy(V1) == Hierarchy(
        1, {"cpu": Path("/sys/fs/cgroup/cpu,cpuacct"), "memory": Path("/sys/fs/cgroup/memory")}
    )
    assert find_hierarchy(V2) == Hierarchy(2, {"": Path("/sys/fs/cgroup")})
    assert find_hierarchy("proc /proc proc rw 0 0\n").version == 0


@pytest.fixture
def directory_as_v1(tmp_path: Path) -> Hierarchy:
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
    return Hierarchy(1, {name: tmp_path / name for name in ("cpu", "memory")})


@pytest.fixture
def directory_as_v2(tmp_path: Path) -> Hierarchy:
    for group in ("", "leadline-lab", "leadline-lab/x", "leadline-lab/x/h1"):
        (tmp_path / group).mkdir(exist_ok=True)
        (tmp_path / group / "cgroup.controllers").write_text("cpuset cpu memory\n")
    return Hierarchy(2, {"": tmp_path})


def test_version_1(directory_as_v1: Hierarchy, tmp_path: Path) -> None:
    group = Cgroup("leadline-lab/x/h1/rank0", directory_as_v1)
    assert group.make() == ""
    assert group.entrances() == [
        str(tmp_path / name / "leadline-lab/x/h1/rank0/cgroup.procs") for name in ("cpu", "memory")
    ]
    group.set_cpu_quota(0.25)
    cpu = tmp_path / "cpu" / group.path
    assert (cpu / "cpu.cfs_quota_us").read_text() == "5000"
    assert (cpu / "cpu.cfs_period_us").read_text() == "20000"
    group.set_cpu_quota(None)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "-1"
    group.set_memory_limit(30_000_000)
    assert (tmp_path / "memory" / group.path / "memory.limit_in_bytes").read_text() == "30000000"
    (tmp_path / "memory" / group.path / "memory.oom_control").write_text(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    assert group.oom_kills() == 2


def test_version_2(directory_as_v2: Hierarchy, tmp_path: Path) -> None:
    group = Cgroup("leadline-lab/x/h1/rank0", directory_as_v2)
    assert group.make() == ""
    assert (tmp_path / "leadline-lab/x/h1/cgroup.subtree_control").read_text() == "+cpu +memory"
    group.set_cpu_quota(0.5)
    assert (tmp_path / group.path / "cpu.max").read_text() == "10000 20000"
    group.set_cpu_quota(None)
    assert (tmp_path / group.path / "cpu.max").read_text() == "max 20000"
    group.set_memory_limit(None)
    assert (tmp_path / group.path / "memory.max").read_text() == "max"
    (tmp_path / group.path / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n")
    assert group.oom_kills() == 1


def test_without_control_groups_limits_are_refused_with_a_reason(tmp_path: Path) -> None:
    nothing = Cgroup("leadline-lab/x/h1/rank0", find_hierarchy("proc /proc proc rw 0 0\n"))
    assert "no cgroup file system" in nothing.make()
    assert nothing.entrances() == []
    assert nothing.processes() == set()
    assert nothing.remove() == 0
    with pytest.raises(WorldError, match="no cgroup file system"):
        nothing.set_cpu_quota(1.0)
    only_cpu = Cgroup("leadline-lab/x", Hierarchy(1, {"cpu": tmp_path}))
    with pytest.raises(WorldError, match=r"no cgroup controller 'memory'.*cpu"):
        only_cpu.set_memory_limit(1)
