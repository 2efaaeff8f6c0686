"""Simulated fabrics whose flows' paths are known: rows as switches and sources tell them, and the truth beside them.

    condition, seed ──> flows of two tenants' jobs ──> spans without change ──> samples ──> silent, lying, incomplete
                                                              └── truth: bytes of every flow at every switch

Which way a flow goes is drawn from a hash at every switch, as in `leadline lab simulate`; what is told of it is drawn
apart, so the same seed gives the same flows under every condition of one fabric, and other samples of them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from evals.path.conditions import WINDOW_NS, Condition
from evals.path.told import FLOW_SAMPLE, Switches, told_relations
from evals.path.traffic import Batch, jobs_of, traffic_of
from leadline.lab.flow_truth import SCHEMA
from leadline.simulator.fabric import Bools, Fabric, Floats, Ints, mixed
from leadline.simulator.fleet import Fleet
from leadline.simulator.flows import fabric_of_fleet
from leadline.simulator.sampling import Flows, Spray, flow_samples, frames_of, receiving_port
from leadline.store.bundle_rows import in_order

S = 10**9
START_NS = 1_767_225_600 * S
SETTLED_NS = START_NS - 3600 * S  # since when relations hold
FLEETS = {
    2: Fleet(gpus=256, gpus_per_host=4, pod_hosts=16, name="two"),  # 16 leaves, 8 spines
    3: Fleet(gpus=576, gpus_per_host=8, pod_hosts=8, name="three"),  # 72 leaves, 36 spines, 16 super-spines
}
SPRAY_DRAWS = 400  # hashes by which all paths of a flow are found: one of 16 is missed with a chance of 1e-10


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of one fabric, and what is true. `truth`: columns of `leadline.lab.flow_truth`."""

    condition: Condition
    flow_sample: pa.Table
    relation: pa.Table
    truth: pa.Table
    job_of: dict[bytes, str]  # by flow
    from_ns: int
    to_ns: int


def case(condition: Condition, seed: int) -> Case:
    """Make one. The same condition and seed give the same rows."""
    fleet = FLEETS[condition.tiers]
    fabric = fabric_of_fleet(fleet)
    to_ns = START_NS + condition.windows * WINDOW_NS
    rng = np.random.default_rng([seed, condition.tiers])
    jobs = jobs_of(fleet, rng)
    traffic = traffic_of(condition, fleet, jobs, START_NS, to_ns, rng)
    rng = np.random.default_rng([seed, condition.tiers, zlib.crc32(condition.name.encode())])  # what is told
    switches = Switches(condition, fleet, rng)
    rows, truth = [], []
    for from_ns, until_ns, up_D in _spans(condition, fleet, fabric, traffic, rng):
        for batch in traffic:
            flows = batch.flows(batch.paths(fabric, up_D), fleet.links, from_ns, until_ns)
            spray = _sprayed(batch, fabric, condition.spray_ways) if condition.spray else None
            told = switches.rows(flows, batch.ids_F2, flow_samples(flows, condition.rate, spray, rng), rng)
            rows += [] if told is None else [told]
            ways = _single(flows) if spray is None else _all_ways(flows, spray, rng)
            truth.append(_truth(fleet, switches, batch, flows, ways, from_ns, until_ns))
    relation = told_relations(condition, fleet, jobs, traffic, SETTLED_NS, rng)
    samples = in_order(FLOW_SAMPLE, pa.concat_tables(rows).unify_dictionaries())
    job_of = {
        flow: jobs.names[job]
        for batch in traffic
        for flow, job in zip(batch.id_bytes.to_pylist(), batch.job_F.tolist(), strict=True)
    }
    return Case(condition, samples, relation, pa.concat_tables(truth), job_of, START_NS, to_ns)


def _spans(
    condition: Condition, fleet: Fleet, fabric: Fabric, traffic: list[Batch], rng: np.random.Generator
) -> list[tuple[int, int, Bools | None]]:
    """Spans in which no path changes, none longer than a window, and the directions that live in each (None: all).

    Links fail in the second window, so that a window before them, theirs and one after are judged.
    """
    cuts = [START_NS + place * WINDOW_NS for place in range(condition.windows + 1)]
    if not condition.failing:
        return [(begin, end, None) for begin, end in pairwise(cuts)]
    crossed = np.concatenate([batch.paths(fabric).ravel() for batch in traffic])
    between = np.unique(crossed[crossed >= 0] % fleet.links)
    between = between[between >= fleet.host_links]
    dead = rng.choice(between, min(condition.failing, len(between)), replace=False)
    up_D = np.ones(2 * fleet.links, bool)
    up_D[np.concatenate((dead, dead + fleet.links))] = False
    fail_ns = cuts[1] + int(WINDOW_NS * condition.fail_at)
    cuts = sorted({*cuts, fail_ns})
    return [(begin, end, up_D if begin >= fail_ns else None) for begin, end in pairwise(cuts)]


def _sprayed(batch: Batch, fabric: Fabric, ways: int) -> Spray:
    """Ways of packets by their hashes: any, or those of so many hashes of each flow."""
    rails = fabric.host_link_HK.shape[1]

    def paths(flow_N: Ints, hash_N: object) -> Ints:
        src, dst = batch.src_F[flow_N], batch.dst_F[flow_N]
        number_N = np.asarray(hash_N, np.int64)
        if ways:
            number_N = mixed(batch.hash_F[flow_N] + number_N % ways).view(np.int64)
        return fabric.paths(src // rails, src % rails, dst // rails, dst % rails, number_N)

    return paths


@dataclass(frozen=True, slots=True)
class _Ways:
    """What passes a switch: flow, directions it comes and goes by, and the share of the flow's bytes. Arrays over N."""

    flow_N: Ints
    in_N: Ints
    out_N: Ints
    share_N: Floats
    sprayed_F: Bools


def _single(flows: Flows) -> _Ways:
    return _ways(flows.path_FX, np.arange(len(flows)), np.ones(len(flows)), np.zeros(len(flows), bool))


def _all_ways(flows: Flows, spray: Spray, rng: np.random.Generator) -> _Ways:
    """Every path that a packet may take, each as likely."""
    flow_N = np.repeat(np.arange(len(flows)), SPRAY_DRAWS)
    path_NX = spray(flow_N, rng.integers(0, 2**62, len(flow_N)).astype(np.uint64))
    each = np.unique(np.column_stack((flow_N, path_NX)), axis=0)
    count_F = np.bincount(each[:, 0], minlength=len(flows))
    return _ways(each[:, 1:], each[:, 0], 1.0 / count_F[each[:, 0]], count_F > 1)


def _ways(path_MX: Ints, flow_M: Ints, share_M: Floats, sprayed_F: Bools) -> _Ways:
    """Neighbouring hops of paths; what several paths of a flow have in common is summed."""
    order_MX = np.take_along_axis(path_MX, np.argsort(path_MX < 0, axis=1, kind="stable"), axis=1)
    row, hop = np.nonzero(order_MX[:, 1:] >= 0)
    steps = np.column_stack((flow_M[row], order_MX[row, hop], order_MX[row, hop + 1]))
    distinct, place = np.unique(steps, axis=0, return_inverse=True)
    share_N = np.bincount(place.ravel(), weights=share_M[row], minlength=len(distinct)).astype(np.float64)
    return _Ways(distinct[:, 0], distinct[:, 1], distinct[:, 2], share_N, sprayed_F)


def _truth(
    fleet: Fleet, switches: Switches, batch: Batch, flows: Flows, ways: _Ways, from_ns: int, to_ns: int
) -> pa.Table:
    """Rows of the truth within a span: packets and bytes as `sampling` assumes them, headers included."""
    packets_F = frames_of(flows.bytes_F, flows.segment_bytes)
    bytes_F = flows.bytes_F + packets_F * flows.header_bytes
    there = np.flatnonzero(packets_F[ways.flow_N] > 0)
    flow_N, share_N = ways.flow_N[there], ways.share_N[there]
    switch_N = switches.switch_P[receiving_port(ways.in_N[there], fleet.links)]
    ends = {"src_ip": fleet.addresses(batch.src_F), "dst_ip": fleet.addresses(batch.dst_F)}
    numbers = {"src_port": batch.src_port_F, "dst_port": batch.dst_port_F}
    index = pa.array(flow_N)
    columns = {
        "flow": batch.id_bytes.take(index),
        **{name: each.take(index) for name, each in ends.items()},
        "protocol": np.full(len(there), batch.protocol),
        **{name: each[flow_N] for name, each in numbers.items()},
        "dst_qp": pa.array(batch.dst_qp_F[flow_N], mask=batch.dst_qp_F[flow_N] < 0),
        "switch": fleet.switch_names.take(pa.array(switch_N)),
        "in_link": fleet.link_names.take(pa.array(ways.in_N[there] % fleet.links)),
        "out_link": fleet.link_names.take(pa.array(ways.out_N[there] % fleet.links)),
        "from_ns": np.full(len(there), from_ns),
        "to_ns": np.full(len(there), to_ns),
        "packets": packets_F[flow_N] * share_N,
        "bytes": bytes_F[flow_N] * share_N,
        "sprayed": ways.sprayed_F[flow_N],
    }
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
