"""The `bulk` workload: storage and shuffle traffic between hosts, as an antagonist of training.

bulk = Bulk(src="h1", dst="h4", flows=4, rate_mbit=20)                      # four flows
bulk = Bulk(src="h1", dst="h4", src_ports=colliding_ports(cluster, "h1", "h4", 4)[0])   # ... on one uplink
bulk = Bulk(transfers=[Transfer("h1", "storage1", source_nic="fe0"), ...])  # each flow by itself
bulk.start(cluster)
bulk.wait(30)
bulk.bytes_sent()
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from leadline.lab.workloads.base import Lab, RankJob, RankProcess, job_directory
from leadline.lab.workloads.bulk.flow import BYTES_MAX, BulkFlow, dumped
from leadline.lab.workloads.control import write_control
from leadline.model.errors import UsageError, WorldError
from leadline.model.programs import OWN_PYTHON

if TYPE_CHECKING:
    from leadline.lab.realise.cluster import Cluster
    from leadline.lab.topology import Link

SINK_PORT = 5201  # what iperf3 uses
EXTRA_S = 3.0  # a sink stays longer than its flows: the last bytes are still under way
CANDIDATES = range(40_000, 40_256)  # source ports tried for a collision: 64 uplinks would still give 4 each


@dataclass(frozen=True, slots=True)
class Transfer:
    """One flow between two hosts, in words of the lab. Other fields as in BulkFlow."""

    source: str
    target: str
    source_port: int = 0
    rate_bps: int = 0
    start_s: float = 0.0
    seconds: float = 600.0
    bytes_most: int = BYTES_MAX
    source_nic: str = "primary"  # port that sends: eth0, eth1, fe0
    target_nic: str = "primary"


@dataclass(kw_only=True)
class Bulk(RankJob):
    """TCP flows between hosts. One process per host that takes part, storage hosts too; none uses a GPU.

    Either `src`, `dst` with `flows` (or `src_ports`), or `transfers`. `nic`: eth0, fe0, ... on both ends.
    """

    name: str = "bulk-1"
    src: str = ""
    dst: str = ""
    flows: int = 1
    src_ports: Sequence[int] = ()
    rate_mbit: float = 0.0  # of each flow; 0: as much as it gets
    seconds: float = 600.0
    nic: str = "primary"
    transfers: Sequence[Transfer] = ()
    port: int = SINK_PORT
    congestion: str = "cubic"
    program: str = field(default="leadline.lab.workloads.bulk.rank", init=False)

    def __post_init__(self) -> None:
        self.transfers = [_transfer(each, self.name) for each in self.transfers] or self._between()
        ends = {end for each in self.transfers for end in (each.source, each.target)}
        self.hosts = sorted(ends)

    def _between(self) -> list[Transfer]:
        if not self.src or not self.dst or self.flows < 1:
            raise UsageError(f"workload {self.name} needs src, dst and at least one flow, or transfers")
        rate_bps = round(self.rate_mbit * 1e6)
        return [
            Transfer(
                self.src, self.dst, source_port, rate_bps, seconds=self.seconds,
                source_nic=self.nic, target_nic=self.nic,
            )
            for source_port in self.src_ports or [0] * self.flows
        ]  # fmt: skip

    def start(self, lab: Lab) -> None:
        """Spawn a process per host. Errors: UsageError if it runs already."""
        if self.ranks:
            raise UsageError(f"workload {self.name} runs already; stop() it, or give the second one another name")
        try:
            for rank, host in enumerate(self.hosts):
                self.ranks.append(self._spawn_on(lab, rank, host))
        except BaseException:
            self.stop()
            raise

    def _spawn_on(self, lab: Lab, rank: int, host: str) -> RankProcess:
        directory = job_directory(lab, self.name)
        control, log = directory / f"rank{rank}.json", directory / f"rank{rank}.log"
        write_control(control, {})
        ring = lab.state / "hosts" / host / "ring"
        ring.mkdir(parents=True, exist_ok=True)
        label = f"{self.name}-rank{rank}"
        process = lab.spawn(
            host,
            [*OWN_PYTHON, "-m", self.program, *self.arguments(lab, rank)],
            name=label,
            env={
                "RANK": str(rank), "WORLD_SIZE": str(len(self.hosts)), "LEADLINE_JOB": self.name,
                "LEADLINE_HOST": host, "LEADLINE_RING_DIR": str(ring), "PYTHONUNBUFFERED": "1",
            },
            stdout=log,
            cgroup=label,
        )  # fmt: skip
        return RankProcess(rank, host, process, "", control, log)

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The flows that this host sends, the addresses on which it takes."""
        host = self.hosts[rank]
        sends = [self._flow(lab, each) for each in self.transfers if each.source == host]
        takes = {_address(lab, host, each.target_nic) for each in self.transfers if each.target == host}
        words = ["--flows", dumped(sends), "--congestion", self.congestion]
        for address in sorted(takes):
            words += ["--listen", f"{address}:{self.port}"]
        last_s = max(each.start_s + each.seconds for each in self.transfers)
        return [*words, "--seconds", str(last_s + EXTRA_S)]

    def reports(self) -> dict[str, dict[str, Any]]:
        """By host: its flows with what they carried so far, and what was received, at most a second old."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.ranks:
            found[one.host] = {}
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[one.host] = json.loads(one.log.read_text().splitlines()[-1])
        return found

    def carried_bytes(self) -> list[int]:
        """Bytes that each transfer gave to its socket, in the order of `transfers`; at most a second old."""
        reports, places = self.reports(), Counter[str]()
        carried = []
        for each in self.transfers:
            told = reports.get(each.source, {}).get("flows", [])
            place = places[each.source]
            places[each.source] += 1
            carried.append(int(told[place]["sent_bytes"]) if place < len(told) else 0)
        return carried

    def bytes_sent(self) -> int:
        """Bytes of all flows together."""
        return sum(self.carried_bytes())

    def _flow(self, lab: Lab, each: Transfer) -> BulkFlow:
        return BulkFlow(
            source=_address(lab, each.source, each.source_nic),
            target=_address(lab, each.target, each.target_nic),
            target_port=self.port,
            source_port=each.source_port,
            rate_bps=each.rate_bps,
            start_s=each.start_s,
            seconds=each.seconds,
            bytes_most=each.bytes_most,
        )


def _transfer(given: Any, job: str) -> Transfer:
    """A transfer, also from a mapping as it stands in a scenario. Errors: UsageError."""
    if isinstance(given, Transfer):
        return given
    names = [each.name for each in fields(Transfer)]
    if not isinstance(given, dict) or not {"source", "target"} <= given.keys() <= set(names):
        may = ", ".join(names[2:])
        raise UsageError(f"workload {job}: a transfer has source and target, perhaps {may}; got {given!r}")
    return Transfer(**given)


def _address(lab: Lab, host: str, nic: str) -> str:
    return lab.address(host) if nic == "primary" else lab.address(host, nic)


def colliding_ports(cluster: Cluster, src: str, dst: str, count: int, port: int = SINK_PORT) -> tuple[list[int], Link]:
    """Source ports with which `count` flows from `src` to `dst` all take one uplink, and that link.

    The kernel of the leaf is asked (`ip route get`) where each port would go. Only the lab may know this: real
    switches do not tell. Errors: WorldError if no uplink gets that many of the ports tried.
    """
    topology = cluster.topology
    entry = topology.neighbour(topology.host(src).primary)
    source, target = cluster.address(src), cluster.address(dst)
    asked = "".join(
        f"route get {target} from {source} iif {entry.name} ipproto tcp sport {each} dport {port}\n"
        for each in CANDIDATES
    )
    answers = [
        line for line in cluster.command(entry.node, ["ip", "-batch", "-"], asked).splitlines() if " dev " in line
    ]
    by_uplink: dict[str, list[int]] = defaultdict(list)
    for each, answer in zip(CANDIDATES, answers, strict=True):
        by_uplink[answer.split(" dev ")[1].split()[0]].append(each)
    for uplink, ports in sorted(by_uplink.items()):
        if len(ports) >= count:
            return ports[:count], topology.link_of(topology.node(entry.node).port(uplink))
    raise WorldError(f"no uplink of {entry.node} gets {count} of {len(CANDIDATES)} source ports from {src} to {dst}")
