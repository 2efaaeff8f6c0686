"""Rows of `edge_fit` of a fleet whose clocks are known: seeded, each edge once a second, as agents tell them.

Probers' clocks run as their machine's oscillator does; hosts' own clocks are steered to a microsecond of true time, so
that nothing of an oscillator is left in them. The runner's coarse mapping of times is off by some ms, of each host its
own. A line is right in its middle to within `noise_ns`, and its rate to what that means over its span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints
from leadline.model.tables.fabric import EDGE_FIT
from leadline.model.units import S
from leadline.simulator.oscillators import NORMAL, Nature, Oscillators
from leadline.store.schema import arrow_table

START_NS = 1_767_225_600 * S  # a whole minute
SPAN_NS = 2 * S


@dataclass(frozen=True, slots=True)
class Mesh:
    """A fleet and how its edges are read."""

    hosts: int = 24
    machines: int = 16
    seconds: int = 120
    degree: int = 6
    noise_ns: float = 20.0  # of a line in its middle
    nature: Nature = NORMAL
    one_clock: bool = False  # all machines keep one time: nothing tells them apart
    asymmetric_ns: float = 500.0  # by which ways of an edge differ, uniform
    coarse_ns: float = 5e6  # by which the time of a row is told wrongly


def machines_of(mesh: Mesh, seed: int) -> Ints:
    """Which machine each host is on: each has one at least, the rest fall where they fall."""
    rng = np.random.default_rng([seed, 41])
    rest = rng.integers(0, mesh.machines, mesh.hosts - mesh.machines)
    found: Ints = rng.permutation(np.r_[np.arange(mesh.machines), rest]).astype(np.int64)
    return found


def names_of(hosts: int) -> list[str]:
    """Names in the order of their numbers."""
    width = len(str(hosts))
    return [f"h{number:0{width}}" for number in range(1, hosts + 1)]


def rows_of_edges(mesh: Mesh, seed: int, start_ns: int = START_NS) -> pa.Table:
    """Rows that end in (start, start + seconds]."""
    rng = np.random.default_rng([seed, 42])
    machine_H = np.zeros(mesh.hosts, np.int64) if mesh.one_clock else machines_of(mesh, seed)
    clocks = Oscillators(
        mesh.hosts, mesh.seconds + 4, mesh.nature, seed, start_ns=start_ns - 3 * S, machine_H=machine_H
    )
    src_E, dst_E = _edges(mesh, rng)
    phase_E = rng.integers(0, S, len(src_E))
    true_N = (start_ns + phase_E[None, :] + np.arange(mesh.seconds)[:, None] * S).ravel()
    src_N, dst_N = np.tile(src_E, mesh.seconds), np.tile(dst_E, mesh.seconds)
    apart_E = np.rint(rng.uniform(-mesh.asymmetric_ns, mesh.asymmetric_ns, len(src_E)) / 2).astype(np.int64)
    half = SPAN_NS // 2

    def apart(at_N: Ints) -> Ints:
        found: Ints = clocks.shown(dst_N, at_N) - clocks.shown(src_N, at_N)
        return found

    middle_N, before_N = apart(true_N - half), apart(true_N - SPAN_NS)
    rate_N = (apart(true_N) - before_N) / SPAN_NS + rng.normal(0, mesh.noise_ns * 3.46 / SPAN_NS, len(true_N))
    line_N = middle_N + np.rint(rng.normal(0, mesh.noise_ns, len(true_N)) + rate_N * half).astype(np.int64)
    coarse_H = rng.uniform(-mesh.coarse_ns, mesh.coarse_ns, mesh.hosts)
    names = np.array(names_of(mesh.hosts))
    src, dst = names[src_N], names[dst_N]
    count = len(true_N)
    values = {
        "tenant": pa.repeat("default", count), "cluster": pa.repeat("default", count), "host": src,
        "clock": [f"{name}/1" for name in src], "src": src, "dst": dst, "dst_clock": [f"{name}/1" for name in dst],
        "src_port": np.full(count, 8446), "class": np.zeros(count, np.int64),
        "end_ns": true_N + np.rint(coarse_H[src_N]).astype(np.int64), "probe_ns": clocks.shown(src_N, true_N),
        "window_ns": np.full(count, SPAN_NS), "report_ns": np.full(count, S),
        "offset_ns": line_N + np.tile(apart_E, mesh.seconds), "rate_ppb": rate_N * 1e9,
        "bound_ns": np.full(count, 3000), "width_ns": np.full(count, 2000.0),
        "noise_ns": np.full(count, 8 * mesh.noise_ns), "probes": np.full(count, 200), "batch": [0] * count,
        "state": pa.repeat("valid", count), "stamp": pa.repeat("kernel", count),
    }  # fmt: skip
    for column in EDGE_FIT.columns:
        if column.name not in values:
            values[column.name] = [None] * count if column.nullable else np.zeros(count, np.int64)
    return arrow_table(EDGE_FIT, values)


def _edges(mesh: Mesh, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """A ring, so that all are connected, and others at random."""
    ring = np.arange(mesh.hosts)
    more = max(0, mesh.hosts * (mesh.degree - 2) // 2)
    src, dst = rng.integers(0, mesh.hosts, more), rng.integers(1, mesh.hosts, more)
    one, other = np.r_[ring, src], np.r_[(ring + 1) % mesh.hosts, (src + dst) % mesh.hosts]
    pairs = np.unique(np.stack([np.minimum(one, other), np.maximum(one, other)]), axis=1)  # one host owns each edge
    return pairs[0].astype(np.int64), pairs[1].astype(np.int64)
