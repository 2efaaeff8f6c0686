"""Figures of the clock on simulated traces, each with its conditions: of the live filter alone, with lines four times a
second, and (names with `table` and `mapped`) of what ships, see `shipped`.

    python -m evals.clock_parts.figures [--seeds 301,302,...] [--hosts 16] [--seconds 60] [--only idle,load,...]

What is tuned is tuned on `TUNED`; figures are of `SEEDS`, which nobody looked at before. Errors are of pairs
of hosts at the times at which fits are used (0.15 s to 0.4 s after the windows' end), from 10 s after the start on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.clock_parts.following import Errors, followed, hindsight_errors, live_errors
from evals.clock_parts.shipped import judged, mapped_errors, rows_of_traces, table_errors
from leadline.analysis.clock.edge import Points, fitted
from leadline.analysis.clock.mesh import solved
from leadline.analysis.columns import Ints
from leadline.simulator.oscillators import COLD, NORMAL, S_NS, STRESS, Nature, Oscillators
from leadline.simulator.probes import HEAVY, MEASURED, Conditions, Traces, regular_edges, traces

TUNED = (1, 2, 3, 101, 102, 103, 104, 105)  # looked at while it was built
SEEDS = tuple(range(301, 311))
SETTLED_S = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """Clocks and traces that a figure is taken on."""

    nature: Nature
    how: Conditions


CASES = {
    "idle": Case(NORMAL, Conditions()),
    "load": Case(NORMAL, Conditions(load=MEASURED)),
    "busy85": Case(NORMAL, Conditions(load=HEAVY)),
    "stress": Case(STRESS, Conditions(late_ratio=0.01, biased_ratio=0.1)),
    "cold": Case(COLD, Conditions()),
    "user": Case(NORMAL, Conditions(user=True)),
}


def of_case(name: str, seeds: Sequence[int], hosts: int, seconds: float) -> dict[str, float]:
    """All that one case tells, over all its seeds together."""
    case = CASES[name]
    pairs, later, covered, both, bounds, settled, target, recall, false, wrong = ([] for _ in range(10))
    shipped: list[dict[str, float]] = []
    for seed in seeds:
        clocks = Oscillators(hosts, seconds + 2, case.nature, seed)
        src_E, dst_E = regular_edges(hosts, 10, seed)
        told = traces(clocks, src_E, dst_E, seconds, case.how, seed)
        run = followed(clocks, told, seconds)
        errors, known = live_errors(run), hindsight_errors(run)
        pairs.append(errors.pairs(SETTLED_S))
        later.append(known.pairs(SETTLED_S))
        own, two = errors.covered(SETTLED_S)
        covered.append(own)
        both.append(two)
        bounds.append(errors.bound_TH[errors.second_T >= SETTLED_S].ravel())
        settled.append(errors.settled_s(1_000.0))
        target.append(_quiet_s(errors))
        flagged_E = np.mean([each.flagged_E for each in run.states[int(SETTLED_S * 4) :]], axis=0)
        recall.append(flagged_E[told.biased_E].mean() if told.biased_E.any() else np.nan)
        false.append(flagged_E[~told.biased_E].mean())
        wrong.append(_wrongly_ordered(errors))
        shipped.append(of_shipped(clocks, told, seconds, seed))
    live, bound = np.concatenate(pairs), np.concatenate(bounds)
    return {
        "live_p50_ns": float(np.median(live)),
        "live_p99_ns": float(np.percentile(live, 99)),
        "live_max_ns": float(live.max()),
        "hindsight_p99_ns": float(np.percentile(np.concatenate(later), 99)),
        "bound_coverage": float(np.mean(covered)),
        "bound_coverage_pairs": float(np.mean(both)),
        "bound_median_ns": float(np.median(bound)),
        "bound_p99_ns": float(np.percentile(bound, 99)),
        "converge_1us_s": float(np.max(settled)),
        "converge_live_s": float(np.max(target)),
        "flagged_recall": float(np.mean(recall)),
        "flagged_falsely": float(np.mean(false)),
        "wrong_order": float(np.sum(wrong)),
        **{name: _over_seeds(name, [each[name] for each in shipped]) for name in shipped[0]},
    }


def of_shipped(clocks: Oscillators, told: Traces, seconds: float, seed: int) -> dict[str, float]:
    """What one run tells through the analysis."""
    fits = judged(clocks, rows_of_traces(clocks, told, seconds, seed), seconds)
    out: dict[str, float] = {}
    for name, errors in (("table", table_errors(fits)), ("mapped", mapped_errors(fits))):
        pairs = errors.pairs(SETTLED_S)
        bound = errors.bound_TH[(errors.second_T >= SETTLED_S)[:, None] & np.isfinite(errors.error_TH)]
        own, two = errors.covered(SETTLED_S)
        out |= {
            f"{name}_p50_ns": float(np.median(pairs)), f"{name}_p99_ns": float(np.percentile(pairs, 99)),
            f"{name}_bound_coverage": own, f"{name}_bound_coverage_pairs": two,
            f"{name}_bound_median_ns": float(np.median(bound)), f"{name}_bound_p99_ns": float(np.percentile(bound, 99)),
            f"{name}_known": float(np.isfinite(errors.error_TH[errors.second_T >= SETTLED_S]).mean()),
            f"{name}_wrong_order": float(_wrongly_ordered(errors)),
        }  # fmt: skip
    flagged = [each["state"] == "asymmetric" for each in fits.delay]
    biased = {(int(a), int(b)) for a, b in zip(told.src_E[told.biased_E], told.dst_E[told.biased_E], strict=True)}
    ends = [(int(each["src"][1:]), int(each["dst"][1:])) for each in fits.delay]
    truth = np.array([(a, b) in biased or (b, a) in biased for a, b in ends])
    late = np.array([each["end_ns"] > clocks.start_ns + SETTLED_S * S_NS for each in fits.delay])
    out["table_flagged_recall"] = float(np.mean(np.array(flagged)[truth & late])) if (truth & late).any() else np.nan
    out["table_flagged_falsely"] = float(np.mean(np.array(flagged)[~truth & late]))
    out["table_converge_1us_s"] = table_errors(fits).settled_s(1_000.0)
    return out


def _over_seeds(name: str, values: list[float]) -> float:
    """Sums of what must not be, the largest of times and of what is worst, means of shares and of the rest."""
    if name.endswith("wrong_order"):
        return float(np.sum(values))
    if name.endswith("_s"):
        return float(np.max(values))
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _quiet_s(errors: Errors, within_ns: float = 60.0) -> float:
    """From when on the 99th percentile of pairs of each second is within this, s."""
    for second in range(1, int(errors.second_T[-1])):
        at = (errors.second_T >= second) & (errors.second_T < second + 1)
        part = Errors(errors.second_T[at], errors.error_TH[at], errors.bound_TH[at])
        if np.isfinite(part.error_TH).all() and np.percentile(part.pairs(), 99) <= within_ns:
            return float(second)
    return float("nan")


def _wrongly_ordered(errors: Errors) -> int:
    """Pairs of clock readings of one moment of which one would be told as earlier, over the whole run."""
    a, b = np.triu_indices(errors.error_TH.shape[1], 1)
    apart = np.abs(errors.error_TH[:, a] - errors.error_TH[:, b])
    return int((apart > errors.bound_TH[:, a] + errors.bound_TH[:, b]).sum())


def edge_fit_us(name: str = "idle", edges: int = 500, repeats: int = 5) -> float:
    """CPU time of one line, us: 100 pairs a direction (all 200 packets), the best of some repeats."""
    case = CASES[name]
    clocks = Oscillators(2, 4, case.nature, 1)
    told = traces(clocks, np.zeros(edges, np.int64), np.ones(edges, np.int64), 2.0, case.how, 1)
    begin = told.start_N
    sides = []
    for way in (1, 0):
        rows = np.concatenate([np.arange(begin[2 * e + way], begin[2 * e + way + 1]) for e in range(edges)])
        count_E = begin[way + 1 :: 2] - begin[way::2][:edges]
        begin_E = np.concatenate([[0], np.cumsum(count_E)]).astype(np.int64)
        tx_N, rx_N = told.tx_ns_N[rows], told.rx_ns_N[rows]
        sides.append(Points(begin_E, tx_N, rx_N - tx_N) if way else Points(begin_E, rx_N, tx_N - rx_N))
    end_E: Ints = clocks.shown(np.zeros(edges, np.int64), np.full(edges, clocks.start_ns + 2 * S_NS))
    fitted(sides[0], sides[1], end_E, 2 * S_NS)
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        fitted(sides[0], sides[1], end_E, 2 * S_NS)
        spent.append(time.process_time() - began)
    return min(spent) / edges * 1e6


def mesh_s(hosts: int = 100_000, degree: int = 20, biased_ratio: float = 0.1, repeats: int = 3) -> tuple[float, float]:
    """CPU time of one robust solution from nothing, s, islands and uncertainty included, and the pair p99, ns."""
    rng = np.random.default_rng(101)
    truth_H = rng.normal(0, 1_000, hosts)
    src_E, dst_E = regular_edges(hosts, degree, 101)
    value_E = truth_H[dst_E] - truth_H[src_E] + rng.normal(0, 30, len(src_E))
    value_E += (rng.random(len(src_E)) < biased_ratio) * rng.normal(0, 1_000, len(src_E))
    spread_E = np.full(len(src_E), 30.0)
    solved(src_E[:10], dst_E[:10], value_E[:10], spread_E[:10], hosts)
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        found = solved(src_E, dst_E, value_E, spread_E, hosts)
        spent.append(time.process_time() - began)
    off_H = found.x_H - truth_H
    a, b = rng.integers(0, hosts, (2, 100_000))
    return min(spent), float(np.percentile(np.abs(off_H[a] - off_H[b]), 99))


def figures(seeds: Sequence[int], hosts: int, seconds: float, cases: Sequence[str]) -> dict[str, dict[str, float]]:
    """All figures by case, those of speed under `speed`."""
    out = {name: of_case(name, seeds, hosts, seconds) for name in cases if name in CASES}
    if "speed" in cases:
        mesh_100k, p99 = mesh_s()
        out["speed"] = {
            "edge_fit_us": edge_fit_us(), "edge_fit_stress_us": edge_fit_us("stress"),
            "edge_fit_load_us": edge_fit_us("load"), "mesh_100k_s": mesh_100k, "mesh_100k_pair_p99_ns": p99,
        }  # fmt: skip
    return out


def main() -> None:
    """Print figures as JSON, one case a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default=",".join((*CASES, "speed")))
    told = parser.parse_args()
    seeds = [int(each) for each in told.seeds.split(",")]
    for name in told.only.split(","):
        found = figures(seeds, told.hosts, told.seconds, [name])[name]
        print(json.dumps({"case": name, **{key: round(value, 5) for key, value in found.items()}}), flush=True)


if __name__ == "__main__":
    main()
