"""How right the clock of the mesh is, beside others: all figures in one run.

    python -m bench.clock [--json] [--quick] [--only simulated,daemons,speed,colocation,localise] [--seconds 30]

simulated   16 hosts, degree 10, 50 pairs/s, 60 s, seeds 301 to 310 (evals.clock_parts; nothing was tuned on them):
            clocks, and delays of kernel stamps on virtual Ethernet (docs/analyses/clock.md). `load`: ports that are
            busy 85 % of the time; `delays`: those that were measured at "80 %" on a machine that this saturated
daemons     our prober, chronyd and ptp4l in turn over the same virtual Ethernet of two namespaces, idle and with ports
            that other traffic keeps busy 85 %; one kernel clock, so the truth is 0. A ratio is theirs by ours, the
            lesser of idle and loaded. Needs root; bench/clock_parts/daemons.py says how each is asked
speed       CPU time of one edge's line and of one solution of 100,000 hosts and 1 M edges
colocation, localise    evals.mesh, simulated

`wrong_order` counts pairs of readings of one moment of which one would be told as earlier, over all simulated runs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evals.clock_parts.figures import SEEDS, edge_fit_us, mesh_s, of_case
from evals.mesh import colocation, localise

from bench.clock_parts import daemons
from bench.clock_parts.hosts import Hosts, missing
from bench.figures import Figure, conditions, tell
from leadline.model.errors import WorldError

HOSTS, RUN_S = 16, 60.0
QUICK_S = 30.0  # rows are mapped by fits 15 s old at least, and fits count from 10 s on
PORT_MBIT, LOAD = 20, 0.85
CASES = ("idle", "busy85", "load", "stress", "cold", "user")
COVERED = ("idle", "busy85", "load", "stress")  # clocks that have settled, none of them tuned on

CHRONY = {"of": "chrony, the best setting tried, on such delays", "value": "494 ns idle, 414 loaded"}
HUYGENS = {"of": "Huygens (NSDI 2018), hardware stamps", "value": "30.2 ns"}
LEAST_SQUARES = {"of": "plain least squares over the same mesh", "value": "449 ns"}
PINGMESH = {"of": "R-Pingmesh (SIGCOMM 2024), all problems located", "value": "0.85"}


def simulated(quick: bool, seconds: float) -> list[Figure]:
    """What hosts' clocks are off on simulated traces."""
    seeds, run_s = (SEEDS[:1], QUICK_S) if quick else (SEEDS, RUN_S)
    of = {name: of_case(name, seeds, HOSTS, run_s) for name in CASES}
    covered = min(of[name]["bound_coverage"] for name in COVERED)
    return [
        Figure("live_p99_idle_ns", of["idle"]["live_p99_ns"], "ns", 60, "lower", CHRONY),
        Figure("live_p99_load_ns", of["busy85"]["live_p99_ns"], "ns", 100, "lower", CHRONY),
        Figure("live_p99_delays_ns", of["load"]["live_p99_ns"], "ns", 100, "lower", CHRONY),
        Figure("hindsight_p99_idle_ns", of["idle"]["hindsight_p99_ns"], "ns", 40, "lower", HUYGENS),
        Figure("hindsight_p99_load_ns", of["busy85"]["hindsight_p99_ns"], "ns", 50, "lower", HUYGENS),
        Figure("hindsight_p99_delays_ns", of["load"]["hindsight_p99_ns"], "ns", 50, "lower", HUYGENS),
        Figure("stress_p99_ns", of["stress"]["live_p99_ns"], "ns", 150, "lower", LEAST_SQUARES),
        Figure("biased_recall", of["stress"]["flagged_recall"], "ratio", 0.9),
        Figure("biased_falsely", of["stress"]["flagged_falsely"], "ratio", better="lower"),
        Figure("converge_1us_s", of["cold"]["converge_1us_s"], "s", 3, "lower"),
        Figure("converge_live_s", of["cold"]["converge_live_s"], "s", 10, "lower"),
        Figure("bound_coverage", covered, "ratio", 0.999),
        Figure("bound_median_ns", of["idle"]["bound_median_ns"], "ns", 200, "lower"),
        Figure("bound_median_load_ns", of["busy85"]["bound_median_ns"], "ns", 200, "lower"),
        Figure("user_stamp_p99_ns", of["user"]["live_p99_ns"], "ns", 2_000, "lower"),
        Figure("wrong_order", sum(each["wrong_order"] for each in of.values()), "pairs", 0, "lower"),
    ]


def beside(quick: bool, seconds: float) -> list[Figure]:
    """Our prober, chrony and ptp4l, in turn, over the same links."""
    asked = {"prober": daemons.prober, "chrony": daemons.chrony, "ptp4l": daemons.ptp4l}
    found: dict[tuple[str, str], float] = {}
    why = dict.fromkeys(asked, missing())
    for part, ratio in (("idle", 0.0), ("load", LOAD)):
        if not why["prober"]:
            _in_turn(asked, part, ratio, seconds, found, why)
    out = []
    for name in asked:
        values = {part: found.get((name, part)) for part in ("idle", "load")}
        out += [
            Figure(f"{name}_p99_{part}_ns", value, "ns", reason=why[name] or None) for part, value in values.items()
        ]
    for name in ("chrony", "ptp4l"):
        ratios = [
            found[name, part] / found["prober", part]
            for part in ("idle", "load")
            if (name, part) in found and ("prober", part) in found
        ]
        reason = why[name] or why["prober"] or None
        out.append(Figure(f"ratio_{name}", min(ratios) if ratios else None, "times", 5, reason=reason))
    return out


def _in_turn(
    asked: Mapping[str, Callable[[Hosts, Path, float], daemons.Errors]], part: str, ratio: float, seconds: float,
    found: dict[tuple[str, str], float], why: dict[str, str],
) -> None:  # fmt: skip
    with (
        Hosts(2, PORT_MBIT) as hosts,
        tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder,
        hosts.load(ratio),
    ):
        for name, ask in asked.items():
            try:
                found[name, part] = daemons.p99(ask(hosts, Path(folder), seconds))
            except WorldError as error:
                why[name] = str(error)


def speed(quick: bool, seconds: float) -> list[Figure]:
    """CPU time."""
    hosts = 10_000 if quick else 100_000
    solve_s, _ = mesh_s(hosts)
    return [
        Figure(
            "edge_fit_us", edge_fit_us(), "us", 10, "lower", {"of": "the same in C, one hull a side", "value": "7.2 us"}
        ),
        Figure("mesh_100k_s", None if quick else solve_s, "s", 0.5, "lower", reason="--quick" if quick else None),
    ]


def colocated(quick: bool, seconds: float) -> list[Figure]:
    """Which hosts share a machine, told by their clocks: the least of both conditions and all seeds."""
    scenes = [colocation.SCENES[name] for name in ("60 s, 10 ns", "120 s, 50 ns")]
    seeds = range(101, 102 if quick else 111)
    least = min(colocation.scored(scene, seed).f1 for scene in scenes for seed in seeds)
    return [Figure("colocation_f1", least, "ratio", 0.99)]


def localised(quick: bool, seconds: float) -> list[Figure]:
    """One faulty link or card in a fat tree of k = 8."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        localise.main(["--json", *(["--quick"] if quick else [])])
    told = {each["figure"]: each["value"] for each in json.loads(said.getvalue().splitlines()[-1])["figures"]}
    return [
        Figure("localise_exact", told["localise_exact"], "ratio", 0.98, anchor=PINGMESH),
        Figure("localise_false_positive", told["localise_false_positive"], "ratio", 0.005, "lower"),
    ]


KINDS = {"simulated": simulated, "daemons": beside, "speed": speed, "colocation": colocated, "localise": localised}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--seconds", type=float, default=30.0, help="that each daemon is listened to, idle and loaded")
    parser.add_argument("--quick", action="store_true", help="one seed, 20 s, no mesh of 100,000 hosts")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(argv)
    under = conditions(SEEDS[0], hosts=HOSTS, seconds=told.seconds, quick=told.quick, link="veth, one kernel clock")
    found = [figure for name in told.only.split(",") for figure in KINDS[name](told.quick, told.seconds)]
    tell("clock", under, found, told.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
