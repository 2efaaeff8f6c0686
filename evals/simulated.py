"""Whether incidents name what was broken in simulated fleets: single faults, drawn by seed, that nobody tuned to.

    python -m evals.simulated [--split test] [--count 123] [--first N] [--only TEXT] [--no-probes] [--cache DIR]
                              [--keep DIR] [--wrong] [--json]

    seed ── fault, magnitude, layout, placement ──> leadline lab simulate ──> bundle, truth ──> judged as in evals.lab

A case has one fault, from a quarter of its time on for a quarter, in a fleet of up to 64 GPUs at 1, 2 or 8 to a host,
with jobs of all archetypes. Each round of `CASES` holds each fault at each magnitude once, in an order of its own, so
that any count covers them evenly. Splits are ranges of seeds: what weights and constants were set by is `train`, how
sure a verdict may be `validation`; `test` is looked at once a release. Method: docs/analyses/simulated-evals.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np
from bench.figures import conditions, tell

from evals.lab import add_options, details, print_all, seconds_per_run
from evals.runs.judged import NOTHING_MISSING, Judged, Run, judged
from evals.runs.report import Scores, figures, part_figures
from leadline.analysis.cause.weights import WEIGHTS, Fitted
from leadline.lab.truth import MAGNITUDES, Magnitude
from leadline.model.errors import LeadlineError
from leadline.simulator.effects import EFFECTS
from leadline.simulator.run import Simulation
from leadline.simulator.spec import Placement, Planned, SimulationSpec
from leadline.simulator.write import bundle_sink
from leadline.store.bundle_redact import truth_path, write_truth

T = TypeVar("T")
FAULTS = tuple(name for name, effect in EFFECTS.items() if not effect.harmless)
CASES = len(FAULTS) * len(MAGNITUDES)  # of a round
LAYOUTS = ((64, 8), (32, 2), (16, 1), (64, 8))  # GPUs, of them on a host: half of the cases have eight, as most users
MINUTES = 4.0
AT_S, FOR_S = 0.25, 0.25  # begin and length of the fault, as shares of the time
METRICS_S = 10.0  # between two readings of exporters: the agent's own period
ROUNDS_MAX = 10_000  # of a split: rounds of three splits never share a seed
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Case:
    """One simulated fault."""

    split: str
    number: int  # within the split, from 0 on
    fault: str
    magnitude: Magnitude
    gpus: int
    gpus_per_host: int
    placement: Placement
    probes: bool = True

    @property
    def name(self) -> str:
        """As it is told: `test-0007-slow-link-medium-8x8`."""
        hosts = self.gpus // self.gpus_per_host
        return f"{self.split}-{self.number:04}-{self.fault}-{self.magnitude}-{hosts}x{self.gpus_per_host}"

    @property
    def spec(self) -> SimulationSpec:
        """What is simulated."""
        seconds = MINUTES * 60
        planned = Planned(self.fault, AT_S * seconds, FOR_S * seconds, self.magnitude)
        return SimulationSpec(
            gpus=self.gpus, minutes=MINUTES, seed=seed_of(self.split, self.number), planned=(planned,), hazards=False,
            metrics_s=METRICS_S, probes=self.probes, gpus_per_host=self.gpus_per_host, placement=self.placement,
        )  # fmt: skip


def seed_of(split: str, number: int) -> int:
    """The seed of a case: no two cases have the same. Errors: LeadlineError beyond the split's last."""
    if not 0 <= number < ROUNDS_MAX * CASES:
        raise LeadlineError(f"--first: a split has {ROUNDS_MAX * CASES:,} cases, got number {number:,}")
    return SPLITS.index(split) * ROUNDS_MAX * CASES + number


def cases(split: str, first: int = 0, probes: bool = True) -> Iterator[Case]:
    """The cases of a split, from one on, without end."""
    number = first
    while True:
        at, place = divmod(number, CASES)
        # Not of `seed_of`: the simulation draws from that.
        rng = np.random.default_rng([20261129, SPLITS.index(split), at])
        order = rng.permutation(CASES)
        drawn = rng.random((CASES, 2))
        for each in range(place, CASES):
            fault, magnitude = divmod(int(order[each]), len(MAGNITUDES))
            gpus, per_host = LAYOUTS[int(drawn[each, 0] * len(LAYOUTS))]
            placements = get_args(Placement)
            placement: Placement = placements[int(drawn[each, 1] * len(placements))]
            yield Case(split, number, FAULTS[fault], MAGNITUDES[magnitude], gpus, per_host, placement, probes)
            number += 1


def require_unseen(split: str, numbers: range, fitted: Sequence[Fitted] = WEIGHTS.fitted) -> None:
    """Errors: LeadlineError for cases of validation and test that the weights were fitted on: they would score
    themselves. Train cases are told beside them."""
    if split != "train" and any(each.source == "simulated" and each.has(split, numbers) for each in fitted):
        raise LeadlineError(
            f"--split {split}: weights.csv was fitted on some of its cases {numbers.start} to {numbers.stop - 1}; "
            "choose others with --first, or fit it on train seeds (python -m evals.learned)"
        )


def judged_case(case: Case, keep: Path | None, cache: Path | None) -> Judged:
    """Simulate a case and judge it. Errors: LeadlineError."""
    with tempfile.TemporaryDirectory(prefix="leadline-simulated-") as folder:
        path = (keep or Path(folder)) / f"{case.name}.leadline"
        if not (keep and truth_path(path).exists()):
            simulated(case.spec, path)
        return judged(Run(case.name, path, truth_path(path)), cache, NOTHING_MISSING)


def simulated(spec: SimulationSpec, path: Path) -> None:
    """A bundle with its truth beside it, as `leadline lab simulate --to` writes them."""
    simulation = Simulation(spec)
    with closing(bundle_sink(path, spec.start_ns, spec.end_ns, f"seed: {spec.seed}\n")) as sink:
        for _ in simulation.write(sink):
            pass
    write_truth(truth_path(path), simulation.outcome.truth)


def all_judged(chosen: Sequence[Case], keep: Path | None, cache: Path | None, processes: int) -> Scores:
    """The scores of all cases. Errors: LeadlineError."""
    scores, work = Scores(), partial(judged_case, keep=keep, cache=cache)
    for each in in_pool(work, chosen, processes):
        scores.add(each)
    return scores


def in_pool(work: Callable[[Case], T], chosen: Sequence[Case], processes: int) -> Iterator[T]:
    """What work makes of each case, in their order, in processes of its own. Errors: what it raises."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for number, each in enumerate(pool.map(work, chosen), start=1):
            yield each
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)} judged", end="" if number < len(chosen) else "\n", file=sys.stderr)


def make_ready(count: int, folders: Iterable[Path | None]) -> None:
    """Check the number of cases, and make the folders. Errors: LeadlineError."""
    if count < 1:
        raise LeadlineError(f"--count: expected a number of cases, got {count}")
    for folder in filter(None, folders):
        folder.mkdir(parents=True, exist_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and tell. Exit code 2 for what cannot be judged, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        make_ready(given.count, (given.keep, given.cache))
        require_unseen(given.split, range(given.first, given.first + given.count))
        drawn = islice(cases(given.split, given.first, not given.no_probes), given.count)
        chosen = [each for each in drawn if any(word in each.name for word in given.only.split(","))]
        if not chosen:
            raise LeadlineError(f"--only: none of {given.count} cases has {given.only!r} in its name")
        scores = all_judged(chosen, given.keep, given.cache, given.processes)
    except LeadlineError as error:
        print(f"evals.simulated: {error}", file=sys.stderr)
        return 2
    told = [*figures(scores), *part_figures(scores), seconds_per_run(scores)]
    if not given.json:
        print_all(scores, {each.name: each.spec.start_ns for each in chosen}, given.wrong)
    about = conditions(
        seed_of(given.split, given.first), split=given.split, runs=len(chosen), probes=not given.no_probes,
        seen="simulated", **(details(scores) if given.json else {}),
    )  # fmt: skip
    tell("evals.simulated", about, told, given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.simulated", description="Single faults in simulated fleets.")
    parser.add_argument("--split", choices=SPLITS, default="train", help="which seeds; test: once a release")
    parser.add_argument("--count", type=int, default=CASES, help="so many cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first one within the split")
    parser.add_argument(
        "--only", default="", help="of these, those with one of these words in their name: slow-link,dead"
    )
    parser.add_argument("--no-probes", action="store_true", help="without what a mesh of probers sees")
    parser.add_argument("--keep", type=Path, help="keep the bundles here, and judge those that are there again")
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
