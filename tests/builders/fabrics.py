"""A tiny training fabric as rows of `relation` and `flow_sample`, in the manner of real senders.

    spine1   spine2        leaf L, port EthernetN: host N of the leaf; behind the hosts' ports, one for each spine
      | \\   / |           spine S, port EthernetL: leaf L
      |   X   |            host hN, port eth0, address 10.<leaf>.<place>.1, two GPUs
    leaf1   leaf2
     /\\      /\\           `Clos` knows names and paths, `Flow` what is sent, `claims` and `samples` make rows,
    h1 h2   h3 h4          `relation_table` and `sample_table` make Arrow tables of them.

Nothing is drawn by chance: the same call gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from leadline.model.ids import flow_id, link_id
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table

S = 10**9
T0 = 1_750_000_000 * S  # where a window of 10 s begins
BOOT = T0 - 3600 * S  # since when infrastructure stands
STARTED = T0 - 600 * S  # since when jobs run
PROVIDER = "provider"
TCP, UDP, ROCE_PORT = 6, 17, 4791


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of `relation`."""

    child: str
    kind: str
    parent: str
    source: str
    from_ns: int = BOOT
    to_ns: int | None = None
    confidence: float = 1.0
    tenant: str = PROVIDER


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of `flow_sample`, but for its flow id, which follows from the rest."""

    switch: str
    in_port: str | None
    out_port: str | None
    time_ns: int
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int
    protocol: int = TCP
    dst_qp: int | None = None
    rate: int = 1000
    frame_bytes: int = 1500
    dscp: int = 0
    ecn: int = 0
    dropped: str | None = None

    @property
    def flow(self) -> int:
        """Its flow id; 0 for a frame without an IP header."""
        if not self.src_ip:
            return 0
        return flow_id(self.protocol, self.src_ip, self.dst_ip, self.src_port, self.dst_port, self.dst_qp)


@dataclass(frozen=True, slots=True)
class Hop:
    """A switch on a path, with the ports that the path enters and leaves it by."""

    switch: str
    in_port: str
    out_port: str


@dataclass(frozen=True)
class Clos:
    """A fabric of leaves and spines: hosts are numbered from 1 across the leaves, leaf 1 first."""

    leaves: int = 2
    spines: int = 2
    hosts_per_leaf: int = 2
    gpus_per_host: int = 2

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """Numbers of the hosts."""
        return tuple(range(1, self.leaves * self.hosts_per_leaf + 1))

    def leaf_of(self, host: int) -> int:
        """Number of the leaf that a host hangs on."""
        return (host - 1) // self.hosts_per_leaf + 1

    def place_of(self, host: int) -> int:
        """Place of a host at its leaf, from 1: the number of its port there."""
        return (host - 1) % self.hosts_per_leaf + 1

    def address(self, host: int) -> str:
        """Address of a host's only NIC port."""
        return f"10.{self.leaf_of(host)}.{self.place_of(host)}.1"

    def nic(self, host: int) -> str:
        """Entity of a host's only NIC port."""
        return f"port:h{host}/eth0"

    def edge(self, host: int) -> str:
        """Entity of the switch port that a host hangs on."""
        return f"swport:leaf{self.leaf_of(host)}/Ethernet{self.place_of(host)}"

    def up(self, leaf: int, spine: int) -> str:
        """Entity of a leaf's port towards a spine."""
        return f"swport:leaf{leaf}/Ethernet{self.hosts_per_leaf + spine}"

    def down(self, spine: int, leaf: int) -> str:
        """Entity of a spine's port towards a leaf."""
        return f"swport:spine{spine}/Ethernet{leaf}"

    def gpu(self, host: int, place: int) -> str:
        """Entity of a host's GPU, places from 0."""
        return f"gpu:GPU-{host:08x}-0000-4000-8000-{place:012x}"

    def cables(self) -> Iterator[tuple[str, str]]:
        """All links: (lower end, upper end)."""
        for host in self.hosts:
            yield self.nic(host), self.edge(host)
        for leaf in range(1, self.leaves + 1):
            for spine in range(1, self.spines + 1):
                yield self.up(leaf, spine), self.down(spine, leaf)

    def hops(self, src: int, dst: int, spine: int) -> tuple[Hop, ...]:
        """Switches that a packet crosses between two hosts; `spine` does not matter below one leaf."""
        first, last = self.leaf_of(src), self.leaf_of(dst)
        enters, leaves = _port(self.edge(src)), _port(self.edge(dst))
        if first == last:
            return (Hop(f"leaf{first}", enters, leaves),)
        return (
            Hop(f"leaf{first}", enters, _port(self.up(first, spine))),
            Hop(f"spine{spine}", _port(self.down(spine, first)), _port(self.down(spine, last))),
            Hop(f"leaf{last}", _port(self.up(last, spine)), leaves),
        )

    def links(self, src: int, dst: int, spine: int) -> tuple[str, ...]:
        """Link ids of a path, the sender's first."""
        first, last = self.leaf_of(src), self.leaf_of(dst)
        ends = [(self.nic(src), self.edge(src))]
        if first != last:
            ends += [(self.up(leaf, spine), self.down(spine, leaf)) for leaf in (first, last)]
        return tuple(link_id(*each) for each in (*ends, (self.nic(dst), self.edge(dst))))

    def inventory(self, source: str = "inventory") -> Iterator[Claim]:
        """What a site wrote down: switches, their ports and all cables, the upper end linked the lower one."""
        for leaf in range(1, self.leaves + 1):
            ports = self.hosts_per_leaf + self.spines
            yield from _ports(f"leaf{leaf}", ports, source)
        for spine in range(1, self.spines + 1):
            yield from _ports(f"spine{spine}", self.leaves, source)
        for lower, upper in self.cables():
            yield Claim(upper, "linked", lower, source)

    def agents(self, addresses: bool = True) -> Iterator[Claim]:
        """What agents see on each host: GPUs, the port, its address, and the neighbour's port by LLDP."""
        for host in self.hosts:
            for place in range(self.gpus_per_host):
                yield Claim(self.gpu(host, place), "in", f"host:h{host}", "agent/graph")
            yield Claim(self.nic(host), "in", f"host:h{host}", "agent/graph")
            yield Claim(self.nic(host), "linked", self.edge(host), "agent/lldp")
            if addresses:
                yield Claim(f"address:{self.address(host)}", "in", self.nic(host), "agent/graph")


@dataclass(frozen=True, slots=True)
class Job:
    """A job: rank N of it runs on `hosts[N]`, on that host's GPU `gpu`."""

    name: str
    tenant: str
    hosts: tuple[int, ...]
    gpu: int = 0

    def rank(self, number: int) -> str:
        """Entity of a rank."""
        return f"rank:{self.name}/{number}"

    def claims(self, clos: Clos, from_ns: int = STARTED, to_ns: int | None = None) -> Iterator[Claim]:
        """What the hook in each rank tells, and the agent of its process."""

        def claim(child: str, kind: str, parent: str, source: str = "torch-hook") -> Claim:
            return Claim(child, kind, parent, source, from_ns, to_ns, tenant=self.tenant)

        for number, host in enumerate(self.hosts):
            rank, process = self.rank(number), f"process:h{host}/{4000 + 10 * self.gpu + number}"
            yield claim(rank, "in", f"job:{self.name}")
            yield claim(rank, "runs-on", f"host:h{host}")
            yield claim(rank, "runs-on", clos.gpu(host, self.gpu))
            yield claim(rank, "member", f"comm:{self.name}/0x1")
            yield claim(process, "member", rank, "agent/graph")
            yield claim(process, "in", f"host:h{host}", "agent/graph")


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow between hosts, on one path or, with several spines, each packet on the next one."""

    src: int
    dst: int
    src_port: int
    dst_port: int = ROCE_PORT
    protocol: int = UDP
    dst_qp: int | None = None
    spines: tuple[int, ...] = (1,)
    src_ip: str = ""  # instead of the host's own

    def sample(self, clos: Clos) -> Sample:
        """A sample of it, at no switch yet."""
        roce = self.protocol == UDP and self.dst_port == ROCE_PORT
        return Sample(
            "", None, None, 0, self.src_ip or clos.address(self.src), clos.address(self.dst), self.src_port,
            self.dst_port, self.protocol, self.dst_qp, frame_bytes=4170 if roce else 1514, dscp=26 if roce else 0,
            ecn=2 if roce else 0,
        )  # fmt: skip

    def id(self, clos: Clos) -> int:
        """Its flow id."""
        return self.sample(clos).flow

    def owner(self, clos: Clos, rank: str, tenant: str, source: str = "torch-hook", both: str = "") -> Iterator[Claim]:
        """The rank that sends it owns it; `both`: the receiver says so, too, as the hook at both ends of a socket."""
        entity = f"flow:{self.id(clos):032x}"
        for one in filter(None, (rank, both)):
            yield Claim(entity, "owns", one, source, STARTED, tenant=tenant)

    def queue_pair(self, clos: Clos, receiver: str, comm: str, tenant: str) -> Iterator[Claim]:
        """The rank that receives it owns its queue pair."""
        entity = f"qp:{clos.address(self.dst)}/{self.dst_qp}"
        yield Claim(entity, "owns", receiver, "nccl-plugin", STARTED, tenant=tenant)
        yield Claim(entity, "member", comm, "nccl-plugin", STARTED, tenant=tenant)


def samples(
    clos: Clos,
    flow: Flow,
    count: int,
    from_ns: int = T0,
    span_ns: int = 10 * S,
    only: Sequence[str] = (),
    rate: int = 1000,
) -> Iterator[Sample]:
    """`count` samples of a flow at each switch on its path (or those of them in `only`), evenly in time."""
    plain = replace(flow.sample(clos), rate=rate)
    for number in range(count):
        spine = flow.spines[number % len(flow.spines)]
        for place, hop in enumerate(clos.hops(flow.src, flow.dst, spine)):
            if not only or hop.switch in only:
                # Switches choose packets by themselves: no two samples are of one time.
                at_ns = from_ns + (3 * number + place) * span_ns // (3 * count) + flow.src_port % 1000
                yield replace(plain, switch=hop.switch, in_port=hop.in_port, out_port=hop.out_port, time_ns=at_ns)


def relation_table(claims: Iterable[Claim], cluster: str = "default") -> pa.Table:
    """Rows of `relation`, as the runner gives them: one for each identity, all columns."""
    distinct = {(each.tenant, each.child, each.kind, each.from_ns, each.parent, each.source): each for each in claims}
    columns = _columns(list(distinct.values()), Claim)
    return arrow_table(BY_NAME["relation"], {**columns, "cluster": [cluster] * len(distinct)})


def sample_table(rows: Iterable[Sample], tenant: str = PROVIDER, cluster: str = "default") -> pa.Table:
    """Rows of `flow_sample`, as the runner gives them."""
    given = list(rows)
    columns: dict[str, Any] = _columns(given, Sample)
    columns |= {"flow": [each.flow for each in given], "tenant": [tenant] * len(given)}
    columns |= {"cluster": [cluster] * len(given), "batch": [1] * len(given), "batch_row": list(range(len(given)))}
    return arrow_table(BY_NAME["flow_sample"], columns)


# --- A small site with everything in it ------------------------------------------------------------------------

TINY = Clos()
BERT = Job("bert-1", "ana", (1, 2, 3, 4))
MOE = Job("moe-2", "bo", (2, 4), gpu=1)

# A ring of bert-1 over RoCE: one queue pair each, and one flow more on the second of two queue pairs.
RING = tuple(
    Flow(src, dst, 49152 + 7 * src, dst_qp=256 + dst, spines=(1 + src % 2,))
    for src, dst in ((1, 2), (2, 3), (3, 4), (4, 1))
)
SECOND_PAIR = Flow(2, 3, 50001, dst_qp=513, spines=(2,))
# moe-2 over sockets: what is sent, and what comes back on another spine.
SOCKET = Flow(2, 4, 40100, 5001, TCP, spines=(2,))
SOCKET_BACK = Flow(4, 2, 5001, 40100, TCP, spines=(1,))
SPRAYED = Flow(4, 2, 51007, dst_qp=777, spines=(1, 2))
NOBODYS = Flow(1, 4, 50222, 22, TCP, spines=(2,))
PARTIAL = Flow(3, 1, 50333, 873, TCP, spines=(1,))  # only the leaf of its sender tells of it
STRANGER = Flow(1, 2, 50444, 443, TCP, src_ip="10.9.9.9")  # an address that no port has
LIED_ABOUT = Flow(4, 1, 50555, dst_qp=888, spines=(2,))  # spine2 says that it came by the wrong port
FLOWS = (*RING, SECOND_PAIR, SOCKET, SOCKET_BACK, SPRAYED, NOBODYS, PARTIAL, STRANGER, LIED_ABOUT)


def tiny_claims(addresses: bool = True) -> list[Claim]:
    """Two jobs of two tenants on the tiny Clos. LLDP and the inventory contradict each other about host 4's cable."""
    found = [*TINY.inventory(), *TINY.agents(addresses)]
    wrong = Claim(TINY.edge(3), "linked", TINY.nic(4), "inventory")
    found = [
        wrong if (each.child, each.kind, each.source) == (TINY.edge(4), "linked", "inventory") else each
        for each in found
    ]
    for job in (BERT, MOE):
        found += job.claims(TINY)
        found += [
            Claim(f"job:{job.name}", "mounts", "storage:nfs-a", "scheduler", STARTED, tenant=job.tenant),
        ]
    found.append(Claim("host:h2", "shares-machine", "host:h1", "inventory"))
    for number, flow in ((0, RING[0]), (1, RING[1]), (2, RING[2]), (3, RING[3]), (1, SECOND_PAIR), (3, LIED_ABOUT)):
        found += flow.owner(TINY, BERT.rank(number), BERT.tenant, "nccl-plugin")
        found += flow.queue_pair(TINY, BERT.rank(flow.dst - 1), "comm:bert-1/0x1", BERT.tenant)
    for flow, here, there in ((SOCKET, 0, 1), (SOCKET_BACK, 1, 0)):
        found += flow.owner(TINY, MOE.rank(here), MOE.tenant, both=MOE.rank(there))
    found += SPRAYED.owner(TINY, MOE.rank(1), MOE.tenant, "nccl-plugin")
    return found


def tiny_samples() -> list[Sample]:
    """Samples of all flows of the tiny site in the window [T0, T0 + 10 s), and of some of them before it."""
    found: list[Sample] = []
    for flow in (*RING, SECOND_PAIR, SOCKET, SOCKET_BACK, NOBODYS):
        found += samples(TINY, flow, 9)
    for flow in (*RING, SOCKET):
        found += samples(TINY, flow, 4, T0 - 10 * S)
    found += samples(TINY, SPRAYED, 24)
    found += samples(TINY, PARTIAL, 6, only=("leaf2",))
    found += samples(TINY, STRANGER, 3)
    for sample in samples(TINY, LIED_ABOUT, 9):
        found.append(replace(sample, in_port="Ethernet1") if sample.switch == "spine2" else sample)
    sample = RING[0].sample(TINY)
    found += [
        replace(sample, switch="leaf1", in_port="Ethernet1", time_ns=T0 + S, dropped="no_buffer_space", ecn=3),
        replace(sample, switch="leaf1", out_port="Ethernet2", time_ns=T0 + 2 * S),
        # An LLDP frame: no IP header, it ended in the switch.
        Sample("leaf1", "Ethernet3", None, T0 + 3 * S, "", "", 0, 0, protocol=0, frame_bytes=90),
    ]
    return found


def tiny() -> tuple[pa.Table, pa.Table]:
    """(relation, flow_sample) of the tiny site; its window is [T0, T0 + 10 s)."""
    return relation_table(tiny_claims()), sample_table(tiny_samples())


def _ports(switch: str, count: int, source: str) -> Iterator[Claim]:
    for number in range(1, count + 1):
        yield Claim(f"swport:{switch}/Ethernet{number}", "in", f"switch:{switch}", source)


def _port(entity: str) -> str:
    """The name of a switch port at its switch."""
    return entity.partition("/")[2]


def _columns(rows: Sequence[Any], kind: type[Any]) -> dict[str, list[Any]]:
    return {each.name: [getattr(row, each.name) for row in rows] for each in fields(kind)}
