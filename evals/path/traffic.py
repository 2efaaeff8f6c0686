"""Flows of two tenants' jobs on a simulated fleet: RDMA, and TCP with its acknowledgements. Arrays only, from a seed.

Sizes are drawn so that a flow is sampled once to `samples_max` times a window whatever the sampling rate is: what is
asked is what so many samples tell, not whether a link could carry it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evals.path.conditions import Condition
from leadline.simulator.fabric import Bools, Fabric, Floats, Ints
from leadline.simulator.fleet import Fleet
from leadline.simulator.flows import address
from leadline.simulator.sampling import ACK_FRAME_BYTES, ROCE_PORT, TCP, UDP, Flows, flow_ids

TENANTS = ("blue", "red")
JOB_HOSTS = (3, 5, 8, 8, 12, 16)  # of each job; what is left of the fleet is idle
SAME_RAIL = 0.8  # share of flows between NICs of one rail, as collectives prefer
PARTIAL = 0.2  # share of flows that begin or end within the span
TCP_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs J on hosts, which are not neighbours: each rank has a GPU and a NIC, numbered `host * rails + rail`."""

    names: list[str]
    tenants: list[str]
    nic_JR: list[Ints]  # NIC of each rank


@dataclass(frozen=True)
class Batch:
    """Flows of one transport, arrays over F. `bytes_F` is payload over their whole life."""

    src_F: Ints  # NICs
    dst_F: Ints
    job_F: Ints
    src_rank_F: Ints
    dst_rank_F: Ints
    bytes_F: Floats
    begin_ns_F: Ints
    end_ns_F: Ints
    hash_F: Ints
    src_port_F: Ints
    dst_port_F: Ints
    dst_qp_F: Ints
    protocol: int
    segment_bytes: int
    header_bytes: int

    def __len__(self) -> int:
        return len(self.src_F)

    @cached_property
    def ids_F2(self) -> NDArray[np.uint64]:
        """Flow ids."""
        none = np.zeros((len(self), 6), np.int64)
        return flow_ids(self.flows(none, 1, 0, 1))

    @cached_property
    def id_bytes(self) -> pa.Array:
        """Flow ids as they are stored, 16 bytes each."""
        raw = np.ascontiguousarray(self.ids_F2, "<u8")
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw), [None, pa.py_buffer(raw)])

    def paths(self, fabric: Fabric, up_D: Bools | None = None) -> Ints:
        """Directions that the flows cross (F, 6), while links live as `up_D` says."""
        rails = fabric.host_link_HK.shape[1]
        ends = (self.src_F // rails, self.src_F % rails, self.dst_F // rails, self.dst_F % rails)
        return fabric.paths(*ends, self.hash_F, up_D)

    def flows(self, path_FX: Ints, links: int, from_ns: int, to_ns: int) -> Flows:
        """What they carry within a span, as `sampling` takes it: their bytes are spread evenly over their life."""
        begin_F, end_F = np.maximum(self.begin_ns_F, from_ns), np.minimum(self.end_ns_F, to_ns)
        share_F = np.maximum(end_F - begin_F, 0) / (self.end_ns_F - self.begin_ns_F)
        count = len(self)
        return Flows(
            path_FX, links, self.bytes_F * share_F, begin_F, np.maximum(end_F, begin_F), address(self.src_F),
            address(self.dst_F), self.src_port_F, self.dst_port_F, np.full(count, self.protocol), self.dst_qp_F,
            np.full(count, 26), np.zeros(count), self.segment_bytes, self.header_bytes,
        )  # fmt: skip


def jobs_of(fleet: Fleet, rng: np.random.Generator) -> Jobs:
    """Jobs on hosts at random, so that their flows cross the whole fabric; tenants take turns."""
    hosts = rng.permutation(fleet.hosts)
    ends = np.cumsum(JOB_HOSTS)
    names, nics = [], []
    for place, (end, size) in enumerate(zip(ends, JOB_HOSTS, strict=True)):
        mine = np.sort(hosts[end - size : end])
        names.append(f"{TENANTS[place % 2]}-{place + 1}")
        nics.append((mine[:, None] * fleet.rails + np.arange(fleet.rails)).ravel())
    return Jobs(names, [TENANTS[place % 2] for place in range(len(names))], nics)


def traffic_of(
    condition: Condition, fleet: Fleet, jobs: Jobs, from_ns: int, to_ns: int, rng: np.random.Generator
) -> list[Batch]:
    """Flows of the jobs: RDMA, TCP, and the acknowledgements of TCP the other way."""
    count = condition.flows
    tcp = round(count * TCP_SHARE / 2)
    job_F, src_R, dst_R = _pairs(fleet, jobs, count - tcp, rng)
    nics = [jobs.nic_JR[job] for job in job_F]
    src_F = np.array([nic[rank] for nic, rank in zip(nics, src_R, strict=True)])
    dst_F = np.array([nic[rank] for nic, rank in zip(nics, dst_R, strict=True)])
    whole = Batch(
        src_F, dst_F, job_F, src_R, dst_R, *_spans(condition, len(src_F), from_ns, to_ns, rng),
        rng.integers(0, 2**62, len(src_F)), rng.integers(49_152, 65_536, len(src_F)), np.full(len(src_F), ROCE_PORT),
        64 + np.arange(len(src_F)), UDP, 4096, 82,
    )  # fmt: skip
    rdma, plain = _taken(whole, slice(tcp, None)), _taken(whole, slice(0, tcp))
    return [rdma, *_tcp(plain, rng)]


def _pairs(fleet: Fleet, jobs: Jobs, count: int, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Job, sending and receiving rank of flows; ends are on different hosts, mostly on one rail."""
    sizes = np.array([len(each) for each in jobs.nic_JR])
    job_F = rng.choice(len(sizes), count, p=sizes / sizes.sum())
    src_F = rng.integers(0, sizes[job_F])
    hosts_F = sizes[job_F] // fleet.rails
    host_F = (src_F // fleet.rails + rng.integers(1, hosts_F)) % hosts_F
    same = rng.random(count) < SAME_RAIL
    rail_F = np.where(same, src_F % fleet.rails, rng.integers(0, fleet.rails, count))
    return job_F, src_F, host_F * fleet.rails + rail_F


def _spans(
    condition: Condition, count: int, from_ns: int, to_ns: int, rng: np.random.Generator
) -> tuple[Floats, Ints, Ints]:
    """Payload and life of flows: as many packets as give the wanted number of samples at three switches."""
    begin_F, end_F = np.full(count, from_ns), np.full(count, to_ns)
    cut_F = from_ns + (rng.random(count) * (to_ns - from_ns)).astype(np.int64)
    kind_F = rng.random(count)
    begin_F = np.where(kind_F < PARTIAL / 2, cut_F, begin_F)
    end_F = np.where((kind_F >= PARTIAL / 2) & (kind_F < PARTIAL), cut_F + 1, end_F)
    wanted_F = condition.samples_max ** rng.random(count)
    windows_F = (end_F - begin_F) / (to_ns - from_ns) * condition.windows
    return wanted_F * windows_F / 3 * condition.rate * 4096, begin_F, end_F


def _tcp(plain: Batch, rng: np.random.Generator) -> list[Batch]:
    """The same ends over TCP, one acknowledgement for two segments; the way back is drawn for itself."""
    port_F = rng.integers(32_768, 49_152, len(plain))
    server_F = rng.integers(29_500, 29_600, len(plain))
    none_F = np.full(len(plain), -1)
    there = Batch(
        plain.src_F, plain.dst_F, plain.job_F, plain.src_rank_F, plain.dst_rank_F, plain.bytes_F * 1448 / 4096,
        plain.begin_ns_F, plain.end_ns_F, plain.hash_F, port_F, server_F, none_F, TCP, 1448, ACK_FRAME_BYTES,
    )  # fmt: skip
    # Acknowledgements carry one byte here, because a flow without payload would have no packets.
    back = Batch(
        plain.dst_F, plain.src_F, plain.job_F, plain.dst_rank_F, plain.src_rank_F, there.bytes_F / 1448 / 2,
        plain.begin_ns_F, plain.end_ns_F, rng.integers(0, 2**62, len(plain)), server_F, port_F, none_F, TCP, 1,
        ACK_FRAME_BYTES - 1,
    )  # fmt: skip
    return [there, back]


def _taken(batch: Batch, part: slice) -> Batch:
    arrays: dict[str, Any] = {name: each[part] for name, each in vars(batch).items() if isinstance(each, np.ndarray)}
    return replace(batch, **arrays)
