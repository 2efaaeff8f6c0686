"""How often hosts that share a machine are found from lines of edges, as the analysis `colocation` reads them.

    python -m evals.mesh.machines [--seeds 401-403] [--quick]

200 hosts on 120 machines, 10 edges each, a line a second; what hosts show is steered, probers' clocks are not.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from evals.mesh.colocation import told_pairs
from evals.mesh.lines import Mesh, machines_of, names_of, rows_of_edges
from leadline.analysis.colocation.colocation import colocated
from leadline.analysis.colocation.lines import series_of

FLEET = Mesh(hosts=200, machines=120, degree=10)
SCENES: dict[str, Mesh] = {
    "60 s, lines to 20 ns": replace(FLEET, seconds=60),
    "120 s, lines to 50 ns": replace(FLEET, noise_ns=50),
    "120 s, lines to 150 ns": replace(FLEET, noise_ns=150),
    "120 s, one clock for all": replace(FLEET, one_clock=True),
}


@dataclass(frozen=True, slots=True)
class Score:
    """Pairs of hosts, hosts of which it is unknown by reason, seconds of CPU."""

    right: int
    wrong: int
    missed: int
    unknown: Counter[str]
    cpu_s: float


def scored(mesh: Mesh, seed: int) -> Score:
    """Make a fleet's rows and judge them once."""
    rows, names, machine = rows_of_edges(mesh, seed), names_of(mesh.hosts), machines_of(mesh, seed).tolist()
    start = time.process_time()
    told, span_ns = series_of(rows)
    found = colocated(told, span_ns=span_ns)
    took_s = time.process_time() - start
    truth = {(names[a], names[b]) for a, b in combinations(range(mesh.hosts), 2) if machine[a] == machine[b]}
    said = told_pairs(found)
    unknown = Counter(each.why.name for each in found if each.why is not None)
    return Score(len(truth & said), len(said - truth), len(truth - said), unknown, took_s)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each scene and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="401-403")
    parser.add_argument("--quick", action="store_true", help="20 hosts on 13 machines, one seed")
    options = parser.parse_args(argv)
    first, _, last = options.seeds.partition("-")
    for name, whole in SCENES.items():
        mesh = replace(whole, hosts=20, machines=13, degree=6) if options.quick else whole
        for seed in [int(first)] if options.quick else range(int(first), int(last or first) + 1):
            found = scored(mesh, seed)
            print(
                f"{name:26} seed {seed}: right {found.right} wrong {found.wrong} missed {found.missed} "
                f"unknown {dict(found.unknown)} CPU {found.cpu_s:.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
