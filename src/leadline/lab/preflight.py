"""What a scenario needs of this machine, against what the machine has: refused before anything is started.

The estimates are measurements rounded up (comments below); they are there to refuse what cannot be, not to plan to the
megabyte. What is missing altogether (root, a program, a kernel feature) is told first, because it holds for every lab.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.lab.placement import ranks_of
from leadline.lab.realise import cgroups, privileges
from leadline.lab.realise.cgroups import Hierarchy
from leadline.lab.scenarios.parts import PlannedWorkload, Scenario
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import Workload
from leadline.model.errors import UsageError, WorldError

MB = 1_000_000
# Private memory (as smaps_rollup tells) of one process of each kind. A training rank: 354 MB in steps of `bert`; a rank
# of `rings`: 30 MB, more with longer messages; the agent: 15 MB; exporters and lldpd of a host: 5 MB; the server
# with its store: 400 MB at most in ten minutes; each namespace with its ports and queues: 1 MB of the kernel.
TORCH_RANK_MB, PLAIN_RANK_MB, AGENT_MB, HOST_MB, SERVER_MB, NAMESPACE_MB = 380, 60, 20, 5, 600, 1
PLAIN = frozenset({"rings", "bulk", "incast"})  # workloads without PyTorch
TORCH_START_CPU_S = 4.0  # importing PyTorch, each rank by itself
START_S_MAX = 200.0  # of the 240 s in which a job must be at work
PROCESSES_FIXED, PROCESSES_HOST, THREADS_RANK = (
    40,
    4,
    12,
)  # server, telemetry; agent, exporter, lldpd twice; gloo, torch
SHARE = 0.9  # of the free memory; the rest is for what is not ours

# What the kernel must have, and how a short try of it looks inside a namespace that is gone afterwards.
PROBES = (
    ("veth pairs (CONFIG_VETH)", ("ip", "link", "add", "ll0", "type", "veth", "peer", "name", "ll1")),
    ("HTB shaping (CONFIG_NET_SCH_HTB)", ("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb")),
    ("nftables (CONFIG_NF_TABLES)", ("nft", "add", "table", "inet", "leadline-probe")),
)
IFB_PROBE = ("ifb devices (CONFIG_IFB), which hosts that share a machine need", ("ip", "link", "add", "type", "ifb"))
PROBE_S_MAX = 10.0
UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Need:
    """What a scenario needs at its busiest moment."""

    memory_bytes: int
    processes: int  # threads too: the kernel counts them alike
    namespaces: int
    torch_ranks: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine still has."""

    memory_bytes: int
    processes: int
    namespaces: int
    cores: int


def need_of(scenario: Scenario, topology: Topology, jobs: Sequence[Workload]) -> Need:
    """The estimate for a scenario whose jobs have their hosts, see `placement`."""
    counts = [
        (work, ranks_of(job, topology, work.place) or len(topology.hosts))
        for work, job in zip(scenario.workloads, jobs, strict=True)
    ]
    busiest = max((_at_work(counts, work.at_s) for work in scenario.workloads), default=[], key=_rank_mb)
    hosts, nodes = len(topology.hosts), len(topology.nodes)
    ranks = sum(count for _, count in busiest)
    return Need(
        memory_bytes=MB * (SERVER_MB + hosts * (AGENT_MB + HOST_MB) + nodes * NAMESPACE_MB + _rank_mb(busiest)),
        processes=PROCESSES_FIXED + hosts * PROCESSES_HOST + ranks * THREADS_RANK,
        namespaces=nodes,
        torch_ranks=sum(count for work, count in busiest if work.kind not in PLAIN),
    )


def refusals(need: Need, machine: Machine) -> list[str]:
    """What the machine cannot give, one sentence each: what is needed, what there is, what to do."""
    found = []
    if need.memory_bytes > machine.memory_bytes * SHARE:
        found.append(
            f"about {need.memory_bytes // MB} MB of memory, and {machine.memory_bytes // MB} MB are free: use fewer "
            "ranks (`world_size`) or a smaller topology"
        )
    if need.processes > machine.processes:
        found.append(
            f"about {need.processes} processes and threads, and {machine.processes} more are allowed: raise "
            "kernel.pid_max or the pids limit of the control group"
        )
    if need.namespaces > machine.namespaces:
        found.append(
            f"{need.namespaces} network namespaces, and {machine.namespaces} are allowed: raise user.max_net_namespaces"
        )
    start_s = need.torch_ranks * TORCH_START_CPU_S / machine.cores
    if start_s > START_S_MAX:
        most = int(START_S_MAX * machine.cores / TORCH_START_CPU_S)
        found.append(
            f"{need.torch_ranks} ranks that load PyTorch at once, some {start_s:.0f} s on {machine.cores} cores: at "
            f"most {most} here"
        )
    return found


def require(scenario: Scenario, topology: Topology, jobs: Sequence[Workload]) -> None:
    """Errors: WorldError for what every lab needs and is missing, UsageError for what this scenario asks too much."""
    privileges.require()
    if lacks := missing_features(topology):
        raise WorldError(
            f"the lab needs {'; '.join(lacks)}; this kernel does not give that. `leadline replay` works without"
        )
    if wanted := refusals(need_of(scenario, topology, jobs), this_machine()):
        raise UsageError(f"{scenario.topology_place}: {scenario.name} on {topology.name} needs {'; and '.join(wanted)}")


def missing_features(topology: Topology) -> list[str]:
    """What the kernel lacks, tried in a network namespace that ends with the trial. Needs root."""
    shared = any(len(hosts) > 1 for hosts in topology.machines().values())
    lacks = [feature for feature, words in (*PROBES, *([IFB_PROBE] if shared else [])) if _tried(words)]
    if not Path("/proc/sys/net/ipv4/fib_multipath_hash_fields").exists():
        lacks.append("equal-cost paths by a hash that can be chosen (CONFIG_IP_ROUTE_MULTIPATH, Linux 5.14 or newer)")
    return lacks


def this_machine() -> Machine:
    """What is free now: of the machine, and of the control groups in which a lab's processes will be."""
    groups = cgroups.hierarchy()
    return Machine(
        memory_bytes=max(0, min(_available_bytes(), _group_memory_bytes(groups))),
        processes=max(0, min(_free_pids(), _group_pids(groups))),
        namespaces=_number(Path("/proc/sys/user/max_net_namespaces")) or UNLIMITED,
        cores=len(os.sched_getaffinity(0)),
    )


def _at_work(counts: Sequence[tuple[PlannedWorkload, int]], at_s: float) -> list[tuple[PlannedWorkload, int]]:
    return [(work, count) for work, count in counts if work.at_s <= at_s < work.end_s]


def _rank_mb(busy: Sequence[tuple[PlannedWorkload, int]]) -> int:
    return sum(count * (PLAIN_RANK_MB if work.kind in PLAIN else TORCH_RANK_MB) for work, count in busy)


def _tried(words: Sequence[str]) -> str:
    """What a program said when it failed in a namespace of its own; "" where it works."""
    command = ["unshare", "--net", "--", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return UNLIMITED


def _free_pids() -> int:
    most = min(_number(Path(f"/proc/sys/kernel/{name}")) or UNLIMITED for name in ("pid_max", "threads-max"))
    threads = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return most - threads


def _group_memory_bytes(groups: Hierarchy) -> int:
    """What the group above the lab's may still take; what it holds of files can be given back."""
    root = groups.roots.get("" if groups.version == 2 else "memory", Path("/nonexistent"))
    names = (
        ("memory.max", "memory.current") if groups.version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    limit, used = (_number(root / name) for name in names)
    if limit is None or used is None:
        return UNLIMITED
    return limit - used + (_inactive_file_bytes(root) if limit < UNLIMITED else 0)


def _inactive_file_bytes(root: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (root / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("total_inactive_file", "inactive_file") and value.isdigit():
                return int(value)
    return 0


def _group_pids(groups: Hierarchy) -> int:
    root = groups.roots.get("" if groups.version == 2 else "pids", Path("/nonexistent"))
    limit, used = _number(root / "pids.max"), _number(root / "pids.current")
    return UNLIMITED if limit is None or used is None else limit - used


def _number(path: Path) -> int | None:
    """The number in a file of the kernel; None where there is none, or the word `max`."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
