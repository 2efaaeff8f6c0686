"""How often hosts that share a machine are found by their clocks, and how often others are.

    python -m evals.mesh.colocation [--seeds 101-110] [--quick] [--json]

Each row: 1,000 hosts on 600 machines, offsets each quarter second as the runner would feed them, judged once at the
end. F1 is over pairs of hosts. The constants were looked at on seeds 1 to 5; those told are by default others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from bench.figures import Figure, conditions, tell

from evals.mesh.oscillators import Readings, Scene, readings
from leadline.analysis.colocation.colocation import Colocated, colocated
from leadline.analysis.colocation.history import History, fed, series
from leadline.model.units import S

FEED_S = 5.0


@dataclass(frozen=True, slots=True)
class Score:
    """Pairs of hosts: right, wrong and missed; hosts of which it was unknown; seconds of CPU."""

    right: int
    wrong: int
    missed: int
    unknown: int
    feed_s: float
    judge_s: float

    @property
    def f1(self) -> float:
        return 2 * self.right / max(2 * self.right + self.wrong + self.missed, 1)


def history_of(told: Readings, feed_s: float = FEED_S) -> History:
    """Fed window by window, as the runner does."""
    history, hosts = History(), len(told.hosts)
    step_ns = int(told.time_T[1] - told.time_T[0])
    size = max(1, round(feed_s * S / step_ns))
    for at in range(0, len(told.time_T), size):
        time_T, offset_HT = told.time_T[at : at + size], told.offset_HT[:, at : at + size]
        host_N = np.repeat(np.arange(hosts), len(time_T))
        history = fed(history, told.hosts, host_N, np.tile(time_T, hosts), offset_HT.ravel())
    return history


def scored(scene: Scene, seed: int) -> Score:
    """Make a fleet, feed it, judge it."""
    told = readings(scene, seed)
    start = time.process_time()
    history = history_of(told)
    fed_at = time.process_time()
    found = colocated(series(history), span_ns=round(scene.span_s * S))
    done = time.process_time()
    truth, said = true_pairs(told), told_pairs(found)
    unknown = sum(each.why is not None for each in found)
    return Score(len(truth & said), len(said - truth), len(truth - said), unknown, fed_at - start, done - fed_at)


def true_pairs(told: Readings) -> set[tuple[str, str]]:
    """Pairs of hosts on one machine, in order of name."""
    by: dict[int, list[str]] = {}
    for host, machine in zip(told.hosts, told.machine_H.tolist(), strict=True):
        by.setdefault(machine, []).append(host)
    return {pair for hosts in by.values() for pair in combinations(sorted(hosts), 2)}


def told_pairs(found: Sequence[Colocated]) -> set[tuple[str, str]]:
    """Pairs that were told."""
    return {(min(each.host, other), max(each.host, other)) for each in found for other in each.others}


SCENES: dict[str, Scene] = {
    "60 s, 10 ns": Scene(),
    "120 s, 50 ns": Scene(seconds=120, noise_ns=50),
    "60 s, 50 ns": Scene(noise_ns=50),
    "20 s, 10 ns": Scene(seconds=20),
    "60 s, 10 ns, each offset for itself": Scene(span_s=0),
    "60 s, 10 ns, quiet oscillators (1e-9)": Scene(wander=1e-9),
    "60 s, 10 ns, wander differs (sigma 1)": Scene(wander_varies=1.0),
    "120 s, 200 ns": Scene(seconds=120, noise_ns=200),
    "300 s, 10 ns": Scene(seconds=300),
    "300 s, 50 ns": Scene(seconds=300, noise_ns=50),
    "300 s, 200 ns": Scene(seconds=300, noise_ns=200),
    "120 s, 10 ns, all steered by a daemon": Scene(seconds=120, steered="daemon"),
    "120 s, 10 ns, all steered exactly": Scene(seconds=120, steered="exact"),
    "60 s, 10 ns, 8 hosts on 7 machines": Scene(hosts=8, machines=7),
    "60 s, 10 ns, 8 hosts on 8 machines": Scene(hosts=8, machines=8),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each scene, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101-110")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true", help="100 hosts on 60 machines, two seeds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    first, _, last = options.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))[: 2 if options.quick else None]
    figures = []
    for name, whole in SCENES.items():
        if options.only not in name:
            continue
        scene = replace(whole, hosts=100, machines=60) if options.quick and whole.hosts > 100 else whole
        scores = [scored(scene, seed) for seed in seeds]
        wrong, missed, unknown = (
            sum(getattr(each, what) for each in scores) for what in ("wrong", "missed", "unknown")
        )
        print(
            f"{name:42} F1 mean {np.mean([each.f1 for each in scores]):.4f} least {min(each.f1 for each in scores):.4f}"
            f"  pairs {sum(each.right + each.missed for each in scores)} wrong {wrong} missed {missed}"
            f" hosts unknown {unknown}  CPU feed {np.mean([each.feed_s for each in scores]):.2f} s"
            f" judge {np.mean([each.judge_s for each in scores]):.2f} s",
            flush=True,
        )
        if name in ("60 s, 10 ns", "120 s, 50 ns"):
            least = min(each.f1 for each in scores)
            figures.append(Figure(f"colocation_f1 ({name}, least of {len(seeds)} seeds)", least, "ratio", 0.99))
        if name.startswith("300 s"):
            figures.append(Figure(f"false pairs ({name}, {len(seeds)} seeds)", wrong, "pairs", 0, better="lower"))
    tell("mesh.colocation", conditions(seeds[0], seeds=options.seeds), figures, options.json)


if __name__ == "__main__":
    main()
