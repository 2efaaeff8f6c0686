"""What a scenario needs and a machine has: refused with what is needed, what there is, what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.lab import preflight
from leadline.lab.preflight import Machine, Need, need_of, refusals, this_machine
from leadline.lab.realise import privileges
from leadline.lab.realise.cgroups import Hierarchy
from leadline.lab.run import Plan, plan_for
from leadline.lab.scenarios.spec import parse
from leadline.lab.topology import load
from leadline.model.errors import UsageError, WorldError

GB = 10**9
ROOMY = Machine(memory_bytes=64 * GB, processes=30_000, namespaces=10_000, cores=16)
MODEST = Need(memory_bytes=3 * GB, processes=300, namespaces=14, torch_ranks=8)


def plan(work: str, topology: str = "clos8") -> Plan:
    return plan_for(parse(f"duration_s: 60\nname: big\nworkloads: [{work}]", "x.yaml"), load(topology), 1)


def need(work: str, topology: str = "clos8") -> Need:
    found = plan(work, topology)
    return need_of(found.scenario, found.topology, found.jobs)


def test_what_fits_is_not_refused() -> None:
    assert refusals(MODEST, ROOMY) == []


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (Machine(2 * GB, 30_000, 99, 4), "about 3000 MB of memory, and 2000 MB are free: use fewer ranks"),
        (
            Machine(9 * GB, 200, 99, 4),
            "about 300 processes and threads, and 200 more are allowed: raise kernel.pid_max",
        ),
        (Machine(9 * GB, 30_000, 9, 4), "14 network namespaces, and 9 are allowed: raise user.max_net_namespaces"),
    ],
)
def test_what_a_machine_lacks_is_told_with_what_to_do(machine: Machine, told: str) -> None:
    [found] = refusals(MODEST, machine)
    assert found.startswith(told)


def test_ranks_that_cannot_start_in_time_are_refused() -> None:
    many = Need(memory_bytes=GB, processes=1, namespaces=1, torch_ranks=128)
    assert refusals(many, Machine(64 * GB, 30_000, 999, 16)) == []
    assert refusals(many, Machine(64 * GB, 30_000, 999, 2)) == [
        "128 ranks that load PyTorch at once, some 256 s on 2 cores: at most 100 here"
    ]


def test_the_need_grows_with_ranks_and_hosts() -> None:
    few, all_of = need("{workload: bert, hosts: [h1, h2]}"), need("{workload: bert}")
    assert (few.torch_ranks, all_of.torch_ranks) == (2, 8)
    assert all_of.memory_bytes - few.memory_bytes == 6 * preflight.TORCH_RANK_MB * preflight.MB
    light = need("{workload: rings}")
    assert light.torch_ranks == 0
    assert light.memory_bytes < all_of.memory_bytes
    assert all_of.namespaces == len(load("clos8").nodes)
    two_each = need("{workload: bert, gpus_per_host: 2}", "cloud16")
    assert two_each.torch_ranks == 32


def test_jobs_that_follow_each_other_need_no_more_than_the_largest() -> None:
    one = need("{workload: bert, hosts: [h1, h2], for_s: 20}")
    both = need("{workload: bert, hosts: [h1, h2], for_s: 20, every_s: 30}")
    at_once = need("{workload: bert, hosts: [h1, h2]}, {workload: bert, name: c, hosts: [h3]}")
    assert both == one
    assert at_once.torch_ranks == 3


def test_a_scenario_too_large_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", list)
    monkeypatch.setattr(preflight, "missing_features", lambda topology: [])
    monkeypatch.setattr(preflight, "this_machine", lambda: Machine(GB, 100, 99, 2))
    with pytest.raises(UsageError) as caught:
        plan("{workload: bert}").require_machine()
    assert str(caught.value).startswith("x.yaml, line 1: big on clos8 needs about ")
    assert "MB of memory, and 1000 MB are free" in str(caught.value)
    assert "; and about" in str(caught.value), "all of it at once"


def test_a_kernel_without_what_the_lab_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", list)
    nothing = ("carrier pigeons (CONFIG_PIGEON)", ("no-such-program-of-the-lab",))
    monkeypatch.setattr(preflight, "PROBES", (nothing,))
    with pytest.raises(WorldError, match=r"the lab needs carrier pigeons \(CONFIG_PIGEON\); .*leadline replay"):
        plan("{workload: rings}").require_machine()


def test_missing_programs_come_with_the_package_that_brings_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(privileges, "_effective_capabilities", lambda: (1 << 41) - 1)
    with pytest.raises(WorldError, match=r"needs `ip` \(Debian: iproute2\), `tc` .*`nft` \(Debian: nftables\)"):
        plan("{workload: rings}").require_machine()


def test_this_machine_has_something() -> None:
    here = this_machine()
    assert here.cores >= 1
    assert 0 < here.memory_bytes < preflight.UNLIMITED
    assert 0 < here.processes < preflight.UNLIMITED


@pytest.mark.parametrize(
    ("version", "names"),
    [(1, ("memory.limit_in_bytes", "memory.usage_in_bytes")), (2, ("memory.max", "memory.current"))],
)
def test_the_limits_of_the_group_above_count(tmp_path: Path, version: int, names: tuple[str, str]) -> None:
    roots = {"": tmp_path} if version == 2 else {"memory": tmp_path, "pids": tmp_path}
    groups = Hierarchy(version, roots)
    assert preflight._group_memory_bytes(groups) == preflight.UNLIMITED, "no file, no limit"
    (tmp_path / names[0]).write_text("1000\n")
    (tmp_path / names[1]).write_text("700\n")
    (tmp_path / "memory.stat").write_text(
        "cache 5\ntotal_inactive_file 100\n" if version == 1 else "inactive_file 100\n"
    )
    assert preflight._group_memory_bytes(groups) == 1000 - 700 + 100
    (tmp_path / "pids.max").write_text("50\n")
    (tmp_path / "pids.current").write_text("8\n")
    assert preflight._group_pids(groups) == 42
    (tmp_path / "pids.max").write_text("max\n")
    assert preflight._group_pids(groups) == preflight.UNLIMITED
