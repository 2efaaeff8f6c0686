"""How error and cost of the clock grow with the size of a fleet. Simulated, seeded.

    python -m evals.clock_parts.growth [--seed 401] [--sizes 100,1000,10000,100000]

Whom each host probes is what the server would say (`peers.mesh_of`), with pods of 1,000 hosts. What an edge is off is
drawn from fits of simulated traces of that load (`edge_errors`), with the noise that each states; one edge in a hundred
is asymmetric by 1 us in the mean. So this shows the graph and the solver at that size, not each packet.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.clock_parts.figures import CASES
from leadline.analysis.clock.edge import Points, fitted
from leadline.analysis.clock.mesh import solved
from leadline.analysis.clock.peers import mesh_of
from leadline.analysis.clock.pods import solved_by_pod
from leadline.simulator.fabric import Floats, Ints
from leadline.simulator.oscillators import S_NS, Oscillators
from leadline.simulator.probes import traces

SIZES = (100, 1_000, 10_000, 100_000)
POD_HOSTS = 1_000
LOADS = ("idle", "busy85")
EDGES = 2_000  # that errors are drawn from
BIASED_RATIO, BIASED_NS = 0.01, 1_000.0
TRUTH_NS = 1_000.0  # what hosts are off; after a prediction is taken away it is less
PAIRS = 200_000
ROW_BYTES, ROWS_PER_S = 32, 4  # of an edge, packed as section 4.3 of the reference counts it, each quarter second


@dataclass(frozen=True, slots=True)
class Grown:
    """A fleet of one size under one load. Errors: 99th percentile of pairs of hosts, ns; CPU time, s."""

    hosts: int
    load: str
    edges: int
    edge_p99_ns: float
    pair_p99_ns: float  # any two hosts, solved as a whole
    pods_pair_p99_ns: float  # any two hosts, solved pod by pod
    pod_pair_p99_ns: float  # two hosts of a pod, solved pod by pod
    solve_s: float
    pods_solve_s: float
    mbyte_per_s: float  # what all hosts tell the solver


def edge_errors(load: str, seed: int) -> tuple[Floats, Floats]:
    """Errors of lines in the middle of their windows, and the standard errors that they state, ns, of `EDGES` edges."""
    case = CASES[load]
    clocks = Oscillators(2, 4, case.nature, seed)
    told = traces(clocks, np.zeros(EDGES, np.int64), np.ones(EDGES, np.int64), 2.0, case.how, seed)
    begin, sides = told.start_N, []
    for way in (1, 0):
        pieces = [np.arange(begin[2 * edge + way], begin[2 * edge + way + 1]) for edge in range(EDGES)]
        rows, count_E = np.concatenate(pieces), np.array([len(each) for each in pieces])
        begin_E = np.concatenate([[0], np.cumsum(count_E)]).astype(np.int64)
        tx_N, rx_N = told.tx_ns_N[rows], told.rx_ns_N[rows]
        sides.append(Points(begin_E, tx_N, rx_N - tx_N) if way else Points(begin_E, rx_N, tx_N - rx_N))
    one_E, other_E = np.zeros(EDGES, np.int64), np.ones(EDGES, np.int64)
    end_E = clocks.shown(one_E, np.full(EDGES, clocks.start_ns + 2 * S_NS))
    lines = fitted(sides[0], sides[1], end_E, 2 * S_NS)
    time_E = np.full(EDGES, clocks.start_ns + S_NS)
    for _ in range(2):  # when the source's clock showed the middle: its rate is 20 ppm off at most
        time_E = time_E + lines.mid_at_E - clocks.shown(one_E, time_E)
    truth_E = clocks.shown(other_E, time_E) - lines.mid_at_E
    off_E = (lines.base_E - truth_E).astype(np.float64) + lines.mid_E
    return off_E[lines.valid_E], lines.spread_E[lines.valid_E]


def grown(hosts: int, load: str, errors: tuple[Floats, Floats], seed: int) -> Grown:
    """One fleet."""
    rng = np.random.default_rng([seed, hosts])
    names = [f"h{number}" for number in range(hosts)]
    pod_H = np.arange(hosts) // POD_HOSTS
    number_of = {name: number for number, name in enumerate(names)}
    edges = mesh_of({name: f"pod{pod}" for name, pod in zip(names, pod_H.tolist(), strict=True)})
    src_E: Ints = np.array([number_of[each.one] for each in edges])
    dst_E: Ints = np.array([number_of[each.other] for each in edges])
    drawn_E = rng.integers(0, len(errors[0]), len(edges))
    truth_H = rng.normal(0, TRUTH_NS, hosts)
    off_E = errors[0][drawn_E] + (rng.random(len(edges)) < BIASED_RATIO) * rng.normal(0, BIASED_NS, len(edges))
    value_E, spread_E = truth_H[dst_E] - truth_H[src_E] + off_E, errors[1][drawn_E]
    began = time.process_time()
    whole = solved(src_E, dst_E, value_E, spread_E, hosts)
    between = time.process_time()
    parts = solved_by_pod(src_E, dst_E, value_E, spread_E, pod_H)
    done = time.process_time()
    a, b = rng.integers(0, hosts, (2, PAIRS))
    near = (a // POD_HOSTS) * POD_HOSTS
    c = near + rng.integers(0, np.minimum(POD_HOSTS, hosts - near))

    def p99(x_H: Floats, one: Ints, other: Ints) -> float:
        off_H = x_H - truth_H
        return float(np.percentile(np.abs(off_H[one] - off_H[other]), 99))

    return Grown(
        hosts, load, len(edges), float(np.percentile(np.abs(errors[0]), 99)), p99(whole.x_H, a, b),
        p99(parts.x_H, a, b), p99(parts.x_H, a, c), between - began, done - between,
        len(edges) * ROW_BYTES * ROWS_PER_S / 1e6,
    )  # fmt: skip


def growth(seed: int, sizes: Sequence[int]) -> list[Grown]:
    """All sizes under all loads."""
    drawn = {load: edge_errors(load, seed) for load in LOADS}
    grown(100, LOADS[0], drawn[LOADS[0]], seed)  # compiles
    return [grown(hosts, load, drawn[load], seed) for load in LOADS for hosts in sizes]


def main() -> None:
    """Print each as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=401)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    told = parser.parse_args()
    for each in growth(told.seed, [int(size) for size in told.sizes.split(",")]):
        fields = {name: getattr(each, name) for name in each.__slots__}
        print(json.dumps({name: round(v, 4) if isinstance(v, float) else v for name, v in fields.items()}), flush=True)


if __name__ == "__main__":
    main()
