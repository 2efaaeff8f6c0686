"""Memory cgroups of the ranks, and configured ones: OOM kills as events; memory and throttling as metrics.

Both versions: v2 has `memory.events` and `cpu.stat` in one directory, v1 has `memory.oom_control` and `cpu.stat` in
those of their controllers. Metrics have cAdvisor's names, with the cgroup's path as label `id`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from leadline.host.found import Event, Found, Sample, Stream
from leadline.host.sources.access import Access, Grant, UntriedError
from leadline.host.sources.site import RankSeen, Site, numbers_by_name, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError
from leadline.model.ids import entity_id

UNLIMITED = 1 << 60  # v1 writes "no limit" as a number near 2**63
CGROUPS_MAX = 256
LINGER_NS = 10 * 10**9  # how long the cgroup of a rank that has ended is looked at: its end may be the OOM kill


class Mounts(NamedTuple):
    """Where the hierarchies are mounted; empty where there is none."""

    unified: str
    memory: str
    cpu: str


class Group(NamedTuple):
    """The directories of one cgroup: of its memory, and of its processor time if that is known."""

    memory: str
    cpu: str
    name: str


def _kills(site: Site) -> str:
    """Read what cgroups of running processes and configured ones say of OOM kills. Errors: OSError, WorldError."""
    proc = site.config.proc_root
    mounts = parse_mounts(read_if_there(proc / "self" / "mounts"))
    if not (mounts.unified or mounts.memory):
        raise WorldError("no hierarchy of cgroups with memory is mounted here")
    pids = sorted((name for name in os.listdir(proc) if name.isdigit()), key=int)[-CGROUPS_MAX:]
    found = {group_of(read_if_there(proc / pid / "cgroup"), mounts) for pid in pids} - {None}
    directories = {str(path) for path in site.config.cgroups} | {group.memory for group in found if group}
    if not directories:
        raise UntriedError("no process here has a cgroup of its own")
    told = sum(oom_kills(directory) is not None for directory in directories)
    if not told:
        raise PermissionError(f"none of {len(directories)} cgroups can be seen below {mounts.unified or mounts.memory}")
    return f"{told} of {len(directories)} cgroups"


class Cgroup(Source):
    """Memory cgroups."""

    name = "cgroup"
    reports = "OOM kills, memory and throttling in the cgroups of the ranks (version 1 and 2)"
    told_as = "event `oom-kill` of the host; `container_*` with the path as `id`"
    accesses = (
        Access(
            "cgroups of the host's processes",
            _kills,
            "OOM kills are known from the kernel log only; memory limits and CPU quotas of ranks are not seen",
            Grant(
                service="the unit may not have ProtectControlGroups or PrivateUsers",
                pod="mount the node's /sys/fs/cgroup",
            ),
            ("oom-kill", "memory-pressure", "cpu-throttled"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._mounts = parse_mounts(read_if_there(site.config.proc_root / "self" / "mounts"))
        self._kills: dict[str, int] = {}
        # Of each rank's process: its cgroup as it was first seen, and when the rank was seen last.
        self._groups: dict[int, tuple[RankSeen, Group, int]] = {}

    def poll(self, now_ns: int) -> Found:
        found = Found()
        watched = self._watched(now_ns)
        for group, ranks in watched.items():
            kills = oom_kills(group.memory)
            before = self._kills.get(group.memory)
            if kills is not None and before is not None and kills > before:
                found.events.append(_oom_event(self.site, group, kills - before, ranks, now_ns))
            found.samples += _samples(group, kills, now_ns)
            if kills is not None:
                self._kills[group.memory] = kills
        gone = self._kills.keys() - {group.memory for group in watched}
        for memory in gone:
            del self._kills[memory]
        return found

    def _watched(self, now_ns: int) -> dict[Group, list[RankSeen]]:
        """Every cgroup to look at, with the ranks in it, those that have just ended included."""
        for pid, rank in self.site.ranks.items():
            known = self._groups.get(pid)
            if known is not None and known[0] == rank:
                self._groups[pid] = (rank, known[1], now_ns)
                continue
            group = group_of(read_if_there(self.site.config.proc_root / str(pid) / "cgroup"), self._mounts)
            if group is not None and len(self._groups) < CGROUPS_MAX:
                self._groups[pid] = (rank, group, now_ns)
        self._groups = {pid: each for pid, each in self._groups.items() if now_ns - each[2] < LINGER_NS}
        watched: dict[Group, list[RankSeen]] = {
            Group(str(path), str(path), str(path)): [] for path in self.site.config.cgroups[:CGROUPS_MAX]
        }
        for rank, group, _ in self._groups.values():
            watched.setdefault(group, []).append(rank)
        return watched


def parse_mounts(text: bytes) -> Mounts:
    """/proc/self/mounts: where cgroups are."""
    unified = memory = cpu = ""
    for line in text.decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        options = words[3].split(",")
        if words[2] == "cgroup2":
            unified = unified or words[1]
        elif words[2] == "cgroup" and "memory" in options:
            memory = memory or words[1]
        elif words[2] == "cgroup" and "cpu" in options:
            cpu = cpu or words[1]
    return Mounts(unified, memory, cpu)


def group_of(text: bytes, mounts: Mounts) -> Group | None:
    """The cgroup of a process, from its /proc/<pid>/cgroup: v1's memory controller if there is one, else v2.

    The root is nobody's own and gives None.
    """
    paths: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path
    if mounts.memory and paths.get("memory", "/") != "/":
        cpu = paths.get("cpu", "/")
        return Group(mounts.memory + paths["memory"], mounts.cpu + cpu if cpu != "/" else "", paths["memory"])
    if mounts.unified and paths.get("", "/") != "/":
        directory = mounts.unified + paths[""]
        return Group(directory, directory, paths[""])
    return None


def parse_flat(text: bytes) -> dict[str, int]:
    """A file of `name number` lines."""
    return numbers_by_name(text, " ")


def oom_kills(directory: str) -> int | None:
    """How many processes of a cgroup were killed for memory; None where the kernel does not say."""
    for file in ("memory.events", "memory.oom_control"):
        kills = parse_flat(read_if_there(f"{directory}/{file}")).get("oom_kill")
        if kills is not None:
            return kills
    return None


def _samples(group: Group, kills: int | None, now_ns: int) -> list[Sample]:
    found: list[tuple[Stream, float]] = []
    labels = (("id", group.name),)
    if kills is not None:
        found.append((Stream("container_oom_events_total", labels, True, "1"), kills))
    for name, files in (
        ("container_memory_usage_bytes", ("memory.current", "memory.usage_in_bytes")),
        ("container_spec_memory_limit_bytes", ("memory.max", "memory.limit_in_bytes")),
    ):
        text = next(filter(None, (read_if_there(f"{group.memory}/{file}").strip() for file in files)), b"")
        if text.isdigit() and int(text) < UNLIMITED:
            found.append((Stream(name, labels, unit="bytes"), int(text)))
    cpu = parse_flat(read_if_there(f"{group.cpu}/cpu.stat")) if group.cpu else {}
    if "nr_periods" in cpu:
        throttled_s = cpu.get("throttled_usec", 0) / 1e6 + cpu.get("throttled_time", 0) / 1e9
        found += [
            (Stream("container_cpu_cfs_periods_total", labels, True, "1"), cpu["nr_periods"]),
            (Stream("container_cpu_cfs_throttled_periods_total", labels, True, "1"), cpu.get("nr_throttled", 0)),
            (Stream("container_cpu_cfs_throttled_seconds_total", labels, True, "s"), throttled_s),
        ]
    return [Sample(stream, now_ns, value) for stream, value in found]


def _oom_event(site: Site, group: Group, kills: int, ranks: list[RankSeen], now_ns: int) -> Event:
    attributes = {"cgroup": group.name, "kills": str(kills)}
    if ranks:
        attributes |= {"ranks": " ".join(rank.entity for rank in ranks), "pids": " ".join(str(r.pid) for r in ranks)}
    text = f"{kills} process{'es' if kills > 1 else ''} of cgroup {group.name} killed for memory"
    return Event(now_ns, entity_id("host", site.host), "oom-kill", "error", text, attributes, "agent/cgroup")
