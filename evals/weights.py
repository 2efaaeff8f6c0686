"""What each sign of a rule tells, counted over recorded faults: how often it is there with its cause, and without.

    python -m evals.weights --incidents DIR [--cache DIR]

    sign of a rule      on what was broken so      3 of 4 ─┐
                        on what was not           2 of 90 ─┴─> ln(4/6) - ln(3/92) = 3.0 nats, beside the weight in use

A count is one component of one rule in one recording, at the last window of its trouble; only components that the blame
reaches count, because others are no candidates. One is added to each count and two to each whole (Laplace), so that a
sign that was seen once is not taken for certain. Few recordings have each fault, so single signs say little: weights
are argued by `all signs of a weight`, and a single sign only where it is far off. What came of it:
docs/analyses/cause.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from evals.learned.candidates import Keeping, calls_of, tables_of
from evals.runs.judged import Run, runs_in, source_hash
from evals.runs.scores import is_component
from evals.runs.truth import Trouble, read_truth, truth_of, works_of
from leadline.analysis import ANALYSES
from leadline.analysis.cause.cause import OVER_NS
from leadline.analysis.cause.context import Context
from leadline.analysis.cause.explain import explained, parts_of
from leadline.analysis.cause.gather import Beside, context_of
from leadline.analysis.cause.known import known_of
from leadline.analysis.cause.rules import RULES, Rule, Sign
from leadline.analysis.cause.score import BREADTH, blame_nats
from leadline.analysis.cause.signs import signs_of
from leadline.analysis.cause.symptoms import SymptomRow, symptoms_of
from leadline.lab.incidents import HERE
from leadline.model.errors import LeadlineError
from leadline.model.ids import kind_of
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.execute import Task
from leadline.runner.judging import Judging, rows_that_count
from leadline.runner.plan import concluded
from leadline.store.bundle import read_bundle

# Which rules are right for a fault of the lab; a fault that is not here has none.
RULES_OF: Mapping[str, tuple[str, ...]] = {
    "slow-worker": ("cpu-throttled",), "slow-loader": ("slow-input",), "imbalanced-sequences": ("imbalanced-work",),
    "memory-pressure": ("memory-pressure",), "colocated-neighbour": ("neighbour", "congesting-job"),
    "slow-operator": ("new-software",), "slow-storage": ("slow-storage",),
    "checkpoint-storm": ("checkpoint-storm", "slow-storage"), "gpu-throttle": ("slow-gpu",), "xid": ("gpu-memory",),
    "row-remaps": ("gpu-memory",), "nvlink-errors": ("nvlink-errors",), "pcie-width": ("pcie-width",),
    "pfc-storm": ("pfc-storm",), "wrong-gid": ("wrong-gid",), "wrong-dscp": ("wrong-dscp",),
    "wrong-mtu": ("wrong-mtu",), "slow-link": ("slow-link",), "lossy-link": ("link-errors",),
    "marginal-optic": ("marginal-optic",), "flapping-link": ("link-down",), "dead-nic": ("link-down",),
    "dead-spine": ("switch-down",), "blackhole": ("switch-loss",), "ecmp-collision": ("congestion", "congesting-job"),
    "neighbour-congestion": ("congestion", "congesting-job"), "incast": ("congestion", "congesting-job"),
}  # fmt: skip


LEVELS = ("0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0")
NEARNESS = (0.0, 0.1, 0.2, 0.5, 1.0)  # what `explain.explained` can say of one blame


@dataclass(slots=True)
class Count:
    """With the cause and without: how often a sign was there, of how many."""

    with_there: float = 0.0
    with_of: float = 0.0
    without_there: float = 0.0
    without_of: float = 0.0

    def add(self, broken: bool, there: float) -> None:
        """One component of one recording."""
        if broken:
            self.with_there += there
            self.with_of += 1
        else:
            self.without_there += there
            self.without_of += 1

    def joined(self, other: Count) -> Count:
        """The counts of both."""
        return Count(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def nats(self) -> float:
        """Log of the likelihood ratio, with one added to each count and two to each whole."""
        with_share = (self.with_there + 1) / (self.with_of + 2)
        return math.log(with_share) - math.log((self.without_there + 1) / (self.without_of + 2))


Counts = dict[str, Count]  # by "sign RULE NUMBER" or "blame LEVEL"


def counted(run: Run) -> Counts:
    """The counts of one recording. Errors: LeadlineError for files that cannot be read."""
    entries = read_truth(run.truth)
    with read_bundle(run.bundle) as bundle:
        from_ns, to_ns = bundle.manifest.from_ns, bundle.manifest.to_ns
        truth = truth_of(entries, works_of(bundle), from_ns, to_ns)
        again = concluded(ANALYSES) | {ANALYSIS_RUN.name}
        tables = {each.name: pa.concat_tables(bundle.groups(each)) for each in bundle.tables if each.name not in again}
    keeping = Keeping()
    judging = Judging(ANALYSES, from_ns, keeping)
    judging.add(rows_that_count(tables))
    judging.until(to_ns, ended=True)
    return of_troubles(truth.troubles, keeping.kept)


def of_troubles(troubles: Iterable[Trouble], kept: Mapping[int, Task]) -> Counts:
    """The counts of some troubles, each at the last call of `cause` until its evidence is complete."""
    found: Counts = defaultdict(Count)
    for trouble in troubles:
        for task in calls_of(trouble, kept):
            _count(trouble, task, found)
            break
    return found


def _count(trouble: Trouble, task: Task, found: Counts) -> None:
    given = tables_of(task)
    symptoms = symptoms_of(given["symptom"].to_pylist(), task.window.to_ns, OVER_NS)
    symptoms = [each for each in symptoms if each.until_ns(task.window.to_ns) > trouble.onset_ns]
    if not symptoms:
        return
    known = known_of(given["incident"].to_pylist(), given["cause"].to_pylist())
    context = context_of(symptoms, known, Beside(*(given[name] for name in Beside._fields)), task.window)
    for rule in RULES:
        if any(symptom.kind in rule.symptoms for symptom in symptoms):
            _count_rule(rule, trouble, symptoms, context, found)


def _count_rule(rule: Rule, trouble: Trouble, symptoms: Sequence[SymptomRow], context: Context, found: Counts) -> None:
    parts = parts_of(symptoms)
    for entity in components(rule, context):
        near = [explained(part.blame, part.symptom, entity, rule, context.ground) for part in parts]
        broken = _is_broken(entity, rule, trouble)
        if not any(near) or (not broken and _is_broken(entity, None, trouble)):
            continue  # no candidate; or broken in another way, whose signs these may be
        share = sum(part.weight * each for part, each in zip(parts, near, strict=True))
        for level in LEVELS:
            found[f"blame {level}"].add(broken, float(level == _level(share)))
        for so_well in NEARNESS:
            here = sum(part.weight for part, each in zip(parts, near, strict=True) if round(each, 3) == so_well)
            found[f"near {so_well}"].add(broken, here)
        onset = min(
            (part.symptom for part, each in zip(parts, near, strict=True) if each > 0), key=lambda one: one.start_ns
        )
        told, _ = signs_of(entity, rule, onset, context)
        there = {id(context.book.signs(each.piece.face)[rule.name]) for each in told}
        for number, sign in enumerate(rule.signs):
            found[f"sign {rule.name} {number}"].add(broken, float(id(sign) in there))


def _level(share: float) -> str:
    low = min(4, int(share * 5)) / 5
    return f"{low:.1f}-{low + 0.2:.1f}"


def components(rule: Rule, context: Context) -> list[str]:
    """Whatever is of a kind that the rule is about."""
    topology = context.ground.topology
    names = [*topology.names, *(topology.link(each) for each in topology.names if kind_of(each) == "swport")]
    return sorted({each for each in names if each and kind_of(each) in rule.kinds})


def _is_broken(entity: str, rule: Rule | None, trouble: Trouble) -> bool:
    """Whether the truth lists it, of a fault of the rule; of any fault, without a rule."""
    return any(
        is_component(entity, fault.components) and (rule is None or rule.name in RULES_OF.get(fault.name, ()))
        for fault in trouble.faults
    )


def joined(several: Iterable[Counts]) -> Counts:
    """The counts of all of them."""
    found: Counts = defaultdict(Count)
    for each in several:
        for name, count in each.items():
            found[name] = found[name].joined(count)
    return found


# --- told ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    rule: str
    sign: str
    count: Count
    weight: float  # in use


def lines_of(counts: Counts) -> Iterator[Line]:
    """Signs that were seen at least once, by rule."""
    for rule in RULES:
        for number, sign in enumerate(rule.signs):
            count = counts.get(f"sign {rule.name} {number}", Count())
            if count.with_there + count.without_there > 0:
                yield Line(rule.name, _spelled(sign), count, sign.weight)


def pooled(counts: Counts) -> Iterator[Line]:
    """All signs of a weight together, of rules of which a fault was recorded; and shares of the lost time explained."""
    by_weight: dict[float, Count] = defaultdict(Count)
    for rule in RULES:
        for number, sign in enumerate(rule.signs):
            count = counts.get(f"sign {rule.name} {number}", Count())
            if count.with_there:
                by_weight[sign.weight] = by_weight[sign.weight].joined(count)
    for weight in sorted(by_weight, reverse=True):
        yield Line("all", f"signs of weight {weight:g}, seen with their cause", by_weight[weight], weight)
    for level in LEVELS:
        middle = float(level.partition("-")[0]) + 0.1
        count = counts.get(f"blame {level}", Count())
        yield Line("all", f"explains {level} of the lost time", count, BREADTH * (2 * middle - 1))
    for near in NEARNESS:
        count = counts.get(f"near {near}", Count())
        yield Line("all", f"explains {near:.0%} of a lost second", count, blame_nats(near))


def _spelled(sign: Sign) -> str:
    return f"{sign.table} {sign.what} {sign.direction}".strip()[:76]


def told(lines: Iterable[Line]) -> str:
    """The table as text."""
    head = f"{'rule':<17} {'sign':<76} {'with':>9} {'without':>11} {'nats':>6} {'weight':>6}"
    rows = [
        f"{each.rule:<17} {each.sign:<76} {_of(each.count.with_there, each.count.with_of):>9} "
        f"{_of(each.count.without_there, each.count.without_of):>11} {each.count.nats:>6.1f} {each.weight:>6.1f}"
        for each in lines
    ]
    return "\n".join([head, *rows])


def _of(there: float, whole: float) -> str:
    return f"{there:.0f}/{whole:.0f}"


def _kept(run: Run, cache: Path | None) -> Counts:
    if cache is None:
        return counted(run)
    own = sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    path = cache / f"{sha256(run.bundle.read_bytes()).hexdigest()[:24]}-{source_hash()}-{own}.weights.json"
    try:
        return {name: Count(*row) for name, row in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError):
        found = counted(run)
    cache.mkdir(parents=True, exist_ok=True)
    rows = {name: [getattr(count, each) for each in Count.__slots__] for name, count in found.items()}
    path.with_suffix(".part").write_text(json.dumps(rows))
    path.with_suffix(".part").replace(path)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Count over all recordings and tell. Exit code 2 for data that cannot be read."""
    parser = argparse.ArgumentParser(prog="evals.weights", description="What signs of causes tell, by counts.")
    parser.add_argument("--incidents", type=Path, nargs="*", help="bundles with NAME.truth.json beside them")
    parser.add_argument("--only", default="", help="runs with this in their name")
    parser.add_argument("--cache", type=Path, help="keep counts here, by bundle and source")
    given = parser.parse_args(arguments)
    try:
        runs = [run for each in given.incidents or [HERE] for run in runs_in(each, given.only)]
        counts = joined(_kept(run, given.cache) for run in runs)
    except LeadlineError as error:
        print(f"evals.weights: {error}", file=sys.stderr)
        return 2
    print(told(lines_of(counts)))
    print(told(pooled(counts)))
    print(f"{len(runs)} recordings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
