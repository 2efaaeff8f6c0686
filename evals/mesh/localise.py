"""How often the mesh names what is broken, exactly, how fast, and how often it names what is not.

    python -m evals.mesh.localise [--seeds 201-205] [--runs N] [--quick] [--json]

A simulated fat tree of 128 hosts (k = 8), degree 10, 4 source ports, 50 pairs a second and edge. Exact: one class of
components is named, the truth is in it, and nothing is as likely. A link that nothing tells from its card and host (a
host has one) is in their class. Judged each second, later each five, over all since the begin: a run of 60 s is 20
chances to be wrong.
The constants were looked at on seeds 1 to 3; those told are by default others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from bench.figures import Figure, conditions, tell

from evals.mesh.fat_tree import Fault, Measured, Mesh, Noise, measured, mesh, misled
from leadline.analysis.localise.mesh_found import Found
from leadline.analysis.localise.mesh_paths import Classes, Component
from leadline.analysis.localise.mesh_silence import dead, stalled
from leadline.analysis.localise.probes import lossy, queueing

PORTS = 4
LOOKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60)


@dataclass(frozen=True, slots=True)
class Judged:
    """One run: seconds until what was named was right and stayed so (None: never), and whether anything else was."""

    found_s: int | None
    exact: bool
    false: bool  # something was named that is no part of the truth (of a link that is bad both ways, one way is)


def fault_of(made: Mesh, kind: str, rng: np.random.Generator, loss: float = 0.0, queue_ns: float = 0.0) -> Fault:
    """One at random."""
    count = len(made.links)
    if kind == "nothing":
        return Fault("")
    if kind == "stall":
        host = int(rng.integers(0, made.hosts))
        return Fault(f"host:h{host + 1}", stalls=host)
    if kind == "card":
        host = int(rng.integers(0, made.hosts))
        return Fault(f"port:h{host + 1}/eth0", "", np.array([host, count + host]), loss, queue_ns)
    if kind == "switch":
        node = sorted(made.switches)[int(rng.integers(0, len(made.switches)))]
        mine = [n for n, link in enumerate(made.links) if any(
            end.partition("/")[0] == node for end in link.removeprefix("link:").split("~"))]  # fmt: skip
        # Each packet through a switch crosses two of its links: half of the loss on each.
        directions = np.array(mine + [count + each for each in mine])
        return Fault(f"switch:{node}", "", directions, loss / 2, queue_ns / 2)
    link = int(rng.integers(made.host_links if kind == "fabric link" else 0, count))
    if kind == "link both ways":
        return Fault(made.links[link], "", np.array([link, count + link]), loss, queue_ns)
    direction = link + count * int(rng.integers(0, 2))
    entity, way = made.name(direction)
    return Fault(entity, way, np.array([direction]), loss, queue_ns)


def named(told: Classes, saw: Measured, seconds: int) -> list[Found]:
    """What is named after so many seconds: loss and queueing; moments in which an end stood still tell no loss."""
    cut = slice(0, seconds)
    sent, lost = saw.sent_PT[:, cut], saw.lost_PT[:, cut]
    found = lossy(told, sent, lost)
    lost_by = {each for one in found for each in one.members}
    return found + [one for one in queueing(told, saw.queue_PT[:, cut]) if not lost_by & set(one.members)]


def awake(made: Mesh, saw: Measured) -> tuple[Measured, set[int]]:
    """The same without what stalled hosts hide, and hosts that stood still in several moments."""
    still_HT = stalled(saw.wait_HT, saw.arrival_HT)
    out_PT = still_HT[made.src_P] | still_HT[made.dst_P]
    sent, lost = np.where(out_PT, 0.0, saw.sent_PT), np.where(out_PT, 0.0, saw.lost_PT)
    hosts = set(np.flatnonzero(still_HT.sum(axis=1) >= 2).tolist())
    return Measured(sent, lost, saw.queue_PT, saw.wait_HT, saw.arrival_HT), hosts


def is_exact(found: Sequence[Found], truth: Component) -> bool:
    """One class, with the truth in it and nothing beside it."""
    return len(found) == 1 and truth in found[0].members and not found[0].others


def judged(told: Classes, saw: Measured, fault: Fault, until: int) -> Judged:
    """Look again and again."""
    truth = Component(fault.entity, fault.way)
    same = {one.entity for members in told.members_C if truth in members for one in members}
    since: int | None = None
    exact = false = False
    for seconds in (look for look in LOOKS if look <= until):
        found = named(told, saw, seconds)
        exact = is_exact(found, truth)
        since = (since or seconds) if exact else None
        false |= any(not same & {each.entity for each in (*one.members, *one.others)} for one in found)
    return Judged(since, exact, false)


CASES: tuple[tuple[str, str, dict[str, float], int, Noise], ...] = (
    ("1 % loss, link one way", "link", {"loss": 0.01}, 10, Noise()),
    ("1 % loss, link both ways", "link both ways", {"loss": 0.01}, 10, Noise()),
    ("1 % loss, card", "card", {"loss": 0.01}, 10, Noise()),
    ("0.1 % loss, link one way", "link", {"loss": 0.001}, 60, Noise()),
    ("0.1 % loss, link both ways", "link both ways", {"loss": 0.001}, 60, Noise()),
    ("0.1 % loss, card", "card", {"loss": 0.001}, 60, Noise()),
    ("20 us queue, link one way", "link", {"queue_ns": 20_000.0}, 10, Noise()),
    ("1 % loss, switch", "switch", {"loss": 0.01}, 10, Noise()),
    ("1 % loss, link, 2 % of paths wrong", "fabric link", {"loss": 0.01}, 10, Noise(wrong_paths=0.02)),
    ("1 % loss, link, 10 % of paths wrong", "fabric link", {"loss": 0.01}, 10, Noise(wrong_paths=0.1)),
    ("nothing", "nothing", {}, 60, Noise()),
    ("nothing, ten times the loss and bursts", "nothing", {}, 60, Noise(loss=1e-4, bursts_per_s=0.5)),
    ("host stalls", "stall", {}, 60, Noise()),
)


def death_ms(made: Mesh, rng: np.random.Generator) -> tuple[float | None, bool]:
    """Milliseconds until a link that dies is named and stays so, looking each 10 ms at the last 80; and whether it is.

    Each port sends a pair each 80 ms, at its own moment; a probe that does not come in 2 ms counts as silent.
    """
    count = len(made.links)
    link = int(rng.integers(0, count))
    hit_P = ((made.path_PX % count == link) & (made.path_PX >= 0)).any(axis=1)
    every = 1000.0 * PORTS / 50.0
    phase_P = rng.uniform(0, every, len(hit_P))
    truth = Component(made.links[link])
    since: float | None = None
    exact = False
    for now in range(10, 200, 10):
        last_P = np.floor((now - 2 - phase_P) / every) * every + phase_P  # the last that should have come
        heard_P = np.where(hit_P & (last_P >= 0), 0.0, 2.0 * (rng.random(len(hit_P)) > 1e-5))
        found = dead(made.told, np.full(len(hit_P), 2.0), heard_P)
        exact = len(found) == 1 and truth in found[0].members and not found[0].others
        since = (since or float(now)) if exact else None
    return since, exact


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each case, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="201-205", help="of meshes")
    parser.add_argument("--runs", type=int, default=40, help="of each case and mesh")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true", help="one mesh, five runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    first, _, last = options.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))[: 1 if options.quick else None]
    runs = 5 if options.quick else options.runs
    meshes = {seed: mesh(seed, ports=PORTS) for seed in seeds}
    every: dict[str, list[Judged]] = {}
    for number, (name, kind, amount, until, noise) in enumerate(CASES):
        if options.only not in name:
            continue
        start, stalls_right = time.process_time(), 0
        for seed, made in meshes.items():
            for run in range(runs):
                rng = np.random.default_rng([seed, number, run])
                fault = fault_of(made, kind, rng, **amount)
                saw, hosts = awake(made, measured(made, fault, noise, until, PORTS, rng))
                stalls_right += hosts == ({fault.stalls} if fault.stalls >= 0 else set())
                every.setdefault(name, []).append(judged(misled(made, noise.wrong_paths, rng), saw, fault, until))
        told = every[name]
        times = sorted(each.found_s for each in told if each.found_s is not None)
        looks = sum(look <= until for look in LOOKS)
        print(
            f"{name:40} runs {len(told):4} exact {sum(each.exact for each in told) / len(told):.3f}"
            f"  seconds p50 {_at(times, 0.5, len(told))} p98 {_at(times, 0.98, len(told))} in {until}"
            f"  runs with a false name {sum(each.false for each in told)}  stalls right {stalls_right}"
            f"  CPU {1000 * (time.process_time() - start) / len(told) / looks:.0f} ms a look",
            flush=True,
        )
    deaths = [
        death_ms(made, np.random.default_rng([seed, 99, run])) for seed, made in meshes.items() for run in range(runs)
    ]
    taken = sorted(ms for ms, _ in deaths if ms is not None)
    print(f"{'dead link':40} runs {len(deaths):4} exact {sum(right for _, right in deaths) / len(deaths):.3f}"
          f"  ms p50 {_at(taken, 0.5, len(deaths))} most {taken[-1] if taken else None}")  # fmt: skip
    tell("mesh.localise", conditions(seeds[0], seeds=options.seeds, runs=runs), _figures(every), options.json)


def _figures(every: dict[str, list[Judged]]) -> list[Figure]:
    def rate(names: Sequence[str], what: str) -> float | None:
        told = [getattr(each, what) for name in names for each in every.get(name, [])]
        return float(np.mean(told)) if told else None

    faults = [
        name
        for name, kind, _, _, noise in CASES
        if kind in ("link", "link both ways", "card") and not noise.wrong_paths
    ]
    out = [
        Figure("localise_exact", rate(faults, "exact"), "ratio", 0.98),
        Figure("localise_false_positive", rate(["nothing"], "false"), "ratio", 0.005, better="lower"),
    ]
    for loss, seconds in (("1 %", 10), ("0.1 %", 60)):
        told = [each for name in faults if name.startswith(f"{loss} loss") for each in every.get(name, [])]
        times = sorted(each.found_s for each in told if each.found_s is not None)
        value = _at(times, 0.98, len(told)) if told else None
        out.append(Figure(f"seconds to find {loss} loss, p98", value, "s", seconds, better="lower"))
    return out


def _at(times: Sequence[float], share: float, whole: int) -> float | None:
    """A quantile of times of which some are missing."""
    place = int(np.ceil(share * whole)) - 1
    return float(times[place]) if 0 <= place < len(times) else None


if __name__ == "__main__":
    main()
