"""Flows of running jobs as `sampling` takes them: who sends to whom over which switches, and what is sampled there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.simulator.fabric import Bools, Fabric, Ints
from leadline.simulator.fleet import Fleet, text
from leadline.simulator.flow_rows import truth_rows
from leadline.simulator.jobs import JobSteps
from leadline.simulator.network import ROCE
from leadline.simulator.sampling import ROCE_PORT, UDP, Flows, Samples, Spray, columns, flow_ids, flow_samples
from leadline.simulator.spraying import possible_paths
from leadline.simulator.step_model import traffic_of
from leadline.simulator.switch_faults import SwitchFaults
from leadline.simulator.targets import Run

MOMENTS = 16  # of a span, at which the pace of a job is looked at


@dataclass(frozen=True, slots=True)
class Edges:
    """The flows of one run: global GPU numbers of both ends (a NIC each), the share of a rank's bytes, ids."""

    src_E: Ints
    dst_E: Ints
    share_E: NDArray[np.float64]
    path_EX: Ints
    ids_E2: NDArray[np.uint64]
    src_rank_E: Ints
    dst_rank_E: Ints


@dataclass(frozen=True, slots=True)
class Carried:
    """The flows of all runs in a span: ids (F, 2), GPU numbers of both ends, and which directions live (None: all)."""

    flows: Flows
    ids_F2: NDArray[np.uint64]
    src_F: Ints
    dst_F: Ints
    up_D: Bools | None


def fabric_of_fleet(fleet: Fleet) -> Fabric:
    """The whole fabric, links numbered as in `fleet`."""
    hosts = np.arange(fleet.hosts)
    rails = np.arange(fleet.rails)
    leaf = np.arange(fleet.leaves)
    slot = np.arange(fleet.uplinks)
    climb = fleet.host_links + leaf[:, None] * fleet.uplinks + slot
    rise = None
    spine = np.broadcast_to(slot, climb.shape)
    if fleet.three_tiers:
        spine = (leaf // fleet.rails)[:, None] * fleet.uplinks + slot
        rise = fleet.host_links + fleet.leaf_links + np.arange(fleet.spine_links).reshape(fleet.spines, -1)
    return Fabric(
        fleet.links,
        hosts[:, None] * fleet.rails + rails,
        fleet.leaf_of(hosts[:, None], rails),
        climb,
        np.ascontiguousarray(spine),
        rise,
    )


class FlowSource:
    """Samples of all runs' flows at the switches of the first `pods` pods (and those above them)."""

    def __init__(
        self, fleet: Fleet, rate: int, spray: bool, pods: int, seed: int, faults: SwitchFaults | None = None
    ) -> None:
        self.fleet, self.rate, self.spray, self.pods, self.faults = fleet, rate, spray, pods, faults
        self.fabric = fabric_of_fleet(fleet)
        self.rng = np.random.default_rng([seed, 40])
        self._edges: dict[int, Edges | None] = {}
        self._untold: list[tuple[Run, Edges]] = []
        ports = fleet.swports
        number = 2 * ports.link + ~ports.lower
        self._switch_of = np.zeros(2 * fleet.links, np.int64)
        self._switch_of[number] = ports.switch
        name_of = np.zeros(2 * fleet.links, np.int64)
        name_of[number] = ports.number
        self._switch_names = pa.DictionaryArray.from_arrays(pa.array(self._switch_of), fleet.switch_names)
        most = int(name_of.max())
        self._port_names = pa.DictionaryArray.from_arrays(pa.array(name_of), text("Ethernet", np.arange(most + 1)))
        leaf = np.arange(fleet.leaves) // fleet.rails < pods
        spine = np.arange(fleet.spines) // fleet.uplinks < pods if fleet.three_tiers else np.ones(fleet.spines, bool)
        self.tells_W = np.concatenate((leaf, spine, np.ones(fleet.supers, bool)))
        if faults is not None:
            self.tells_W &= ~faults.silent_W

    @property
    def switches(self) -> int:
        """How many switches tell."""
        return int(self.tells_W.sum())

    def carried(self, jobs: list[JobSteps], from_ns: int, to_ns: int, up_D: Bools | None = None) -> Carried | None:
        """What flows carry in a span in which these directions live (None: all); None if there are no flows."""
        found = [(job, edges) for job in jobs if (edges := self._of(job)) is not None]
        if not found:
            return None
        begin = [max(from_ns, job.start_ns + round(job.run.start_s * 1e9)) for job, _ in found]
        end = [min(to_ns, job.start_ns + round(min(job.run.end_s, 1e9) * 1e9)) for job, _ in found]
        lasts_s = np.maximum(np.array(end) - np.array(begin), 1) / 1e9
        counts = [len(edges.src_E) for _, edges in found]
        moments = (np.arange(MOMENTS) + 0.5) / MOMENTS
        rate = np.array(
            [
                job.port_bytes_per_s((first + (last - first) * moments).astype(np.int64)).mean()
                for (job, _), first, last in zip(found, begin, end, strict=True)
            ]
        ) / (1 + ROCE.header_share)
        src = np.concatenate([edges.src_E for _, edges in found])
        dst = np.concatenate([edges.dst_E for _, edges in found])
        count = len(src)
        flows = Flows(
            np.concatenate([edges.path_EX for _, edges in found]) if up_D is None else self._paths(src, dst, up_D),
            self.fleet.links,
            np.concatenate([edges.share_E for _, edges in found]) * np.repeat(rate * lasts_s, counts),
            np.repeat(np.array(begin), counts), np.repeat(np.array(end), counts),
            address(src), address(dst), source_port(src, dst), np.full(count, ROCE_PORT), np.full(count, UDP),
            queue_pair(src, dst), np.full(count, 26), np.full(count, 0.001),
        )  # fmt: skip
        return Carried(flows, np.concatenate([edges.ids_E2 for _, edges in found]), src, dst, up_D)

    def columns(self, carried: Carried) -> tuple[dict[str, Any], Samples] | None:
        """Columns of `flow_sample` of what was carried; None if nothing was sampled."""
        spray = self._sprayed(carried) if self.spray else None
        samples = flow_samples(carried.flows, self.rate, spray, self.rng)
        told = self.tells_W[self._switch_of[samples.in_port_N]]
        samples = self._as_told(taken(samples, np.flatnonzero(told)))
        if not len(samples.flow_N):
            return None
        samples = in_order_of_flows(samples, carried.ids_F2)
        return columns(samples, carried.flows, carried.ids_F2, self._switch_names, self._port_names), samples

    def truth(self, carried: Carried) -> pa.Table:
        """Rows of `lab.flow_truth` of what was carried; sprayed flows have what is expected on each link."""
        sprayed = None
        if self.spray:
            rails = self.fleet.rails
            src, dst = carried.src_F, carried.dst_F
            sprayed = possible_paths(self.fabric, src // rails, src % rails, dst // rails, dst % rails, carried.up_D)
        return truth_rows(carried.flows, carried.ids_F2, self.fleet, self._switch_of, sprayed)

    def _as_told(self, samples: Samples) -> Samples:
        if self.faults is None:
            return samples
        first, second = self.faults.told(self.switch_of(samples), samples.in_port_N, samples.out_port_N)
        return replace(samples, in_port_N=first, out_port_N=second)

    def _paths(self, src_N: Ints, dst_N: Ints, up_D: Bools | None) -> Ints:
        rails = self.fleet.rails
        hash_N = src_N << 20 ^ dst_N
        return self.fabric.paths(src_N // rails, src_N % rails, dst_N // rails, dst_N % rails, hash_N, up_D)

    def met(self) -> list[tuple[Run, Edges]]:
        """The runs whose flows were looked at for the first time since the last call: who owns them is to be told."""
        found, self._untold = self._untold, []
        return found

    def switch_of(self, samples: Samples) -> Ints:
        """Switch of each sample."""
        return self._switch_of[samples.in_port_N]

    def forget(self, run: int) -> None:
        """A run has ended: its flows are needed no more."""
        self._edges.pop(run, None)

    def _of(self, job: JobSteps) -> Edges | None:
        if job.run.number not in self._edges:
            made = self._edges[job.run.number] = self._made(job)
            if made is not None:
                self._untold.append((job.run, made))
        return self._edges[job.run.number]

    def _made(self, job: JobSteps) -> Edges | None:
        if not job.step_bytes:
            return None
        traffic = traffic_of(job.plan)
        gpu_R = job.gpu_R[job.by_rail_R]
        src, dst = gpu_R[traffic.src_E], gpu_R[traffic.dst_E]
        rails = self.fleet.rails
        pod = self.fleet.pod_hosts * rails
        told = (src // rails != dst // rails) & ((src // pod < self.pods) | (dst // pod < self.pods))
        if not told.any():
            return None
        share = traffic.bytes_E / np.bincount(traffic.src_E, weights=traffic.bytes_E)[traffic.src_E]
        src, dst, share = src[told], dst[told], share[told]
        rank_E = [job.by_rail_R[end][told] for end in (traffic.src_E, traffic.dst_E)]
        path = self._paths(src, dst, None)
        none = np.zeros(len(src), np.int64)
        flows = Flows(
            path, self.fleet.links, share, none, none, address(src), address(dst), source_port(src, dst),
            np.full(len(src), ROCE_PORT), np.full(len(src), UDP), queue_pair(src, dst), none, share,
        )  # fmt: skip
        return Edges(src, dst, share, path, flow_ids(flows), *rank_E)

    def _sprayed(self, carried: Carried) -> Spray:
        rails = self.fleet.rails

        def paths(flow_N: Ints, hash_N: NDArray[np.uint64]) -> Ints:
            src, dst = carried.src_F[flow_N], carried.dst_F[flow_N]
            ends = (src // rails, src % rails, dst // rails, dst % rails)
            return self.fabric.paths(*ends, hash_N.astype(np.int64), carried.up_D)

        return paths


def address(link_N: Ints) -> NDArray[np.uint32]:
    """IPv4 address of a NIC: as `Fleet.addresses`."""
    return (10 << 24 | (link_N * 2 + 1)).astype(np.uint32)


def source_port(src_N: Ints, dst_N: Ints) -> Ints:
    """UDP source port of a queue pair: what its entropy is made from."""
    return 49152 + (src_N * 2654435761 + dst_N * 40503 >> 7) % 16384


def queue_pair(src_N: Ints, dst_N: Ints) -> Ints:
    """Number of the queue pair at the receiver."""
    return 64 + (src_N * 31 + dst_N) % 0xFFFF00


def in_order_of_flows(samples: Samples, ids_F2: NDArray[np.uint64]) -> Samples:
    """The same by the key of the table: the id's bytes, then time."""
    swapped = ids_F2.byteswap()
    place_F = np.empty(len(ids_F2), np.int64)
    place_F[np.lexsort((swapped[:, 1], swapped[:, 0]))] = np.arange(len(ids_F2))
    order = np.lexsort((samples.time_ns_N, place_F[samples.flow_N]))
    return taken(samples, order)


def taken(samples: Samples, place_M: Ints) -> Samples:
    """Some of the samples, in this order."""
    return Samples(
        samples.flow_N[place_M],
        samples.in_port_N[place_M],
        samples.out_port_N[place_M],
        samples.time_ns_N[place_M],
        samples.frame_bytes_N[place_M],
        samples.ecn_N[place_M],
        samples.rate,
    )
