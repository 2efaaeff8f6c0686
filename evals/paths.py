"""How often the path of a flow is right, how honest its stated probability is, and whether volumes cover the truth.

    python -m evals.paths [--quick] [--data DIR] [--seed N] [--only TEXT] [--keep] [--json]

Judged is simulated fabrics, under every condition of `path_conditions`, and recorded lab runs in DIR: NAME.leadline
with NAME.flows.parquet beside it, from real kernels' routing. All go in as bundles, as in production: rows, windows,
`runner.offline.judge_bundle`, verdict tables. What is right, wrong and unknown stands in `path/scores.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench.figures import conditions, tell

from evals.path import report as path_report
from evals.path.cases import Case, case
from evals.path.conditions import WINDOW_NS
from evals.path.conditions import conditions as path_conditions
from evals.path.scores import Scores, scored
from evals.path.truth import truth_of
from leadline.analysis import BY_NAME as ANALYSES
from leadline.lab.flow_truth import beside, read_flow_truth
from leadline.model.errors import LeadlineError
from leadline.model.tables import BY_NAME as TABLES
from leadline.runner.offline import judge_bundle, without_failures
from leadline.simulator.write import bundle_sink
from leadline.store.bundle import read_bundle
from leadline.store.schema import arrow_schema

SMALL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "lab_two_jobs"
HOW_TO_GET = "record some with `leadline lab run SCENARIO --record NAME.leadline --flow-truth`"
Judge = Callable[[Path], dict[str, pa.Table]]


@dataclass(frozen=True, slots=True)
class Judged:
    """Scores of one condition or one recorded run."""

    name: str
    group: str
    scores: Scores
    seconds: float
    rate: int | None = None  # of sampling; None: as the run was recorded
    hostile: bool = False

    def as_json(self) -> dict[str, Any]:
        """What is kept of it."""
        return {"name": self.name, "group": self.group, "rate": self.rate, **path_report.as_json(self.scores)}


def judged(path: Path) -> dict[str, pa.Table]:
    """Verdict tables of the analysis of paths on a bundle; those without rows empty."""
    spec = ANALYSES["path"]
    return {table.name: arrow_schema(table).empty_table() for table in spec.writes} | without_failures(
        judge_bundle(path, [spec])
    )


def of_case(made: Case, judge: Judge = judged) -> Scores:
    """Scores of a simulated fabric, through a bundle as in production."""
    with tempfile.TemporaryDirectory(prefix="leadline-evals-") as directory:
        bundle = Path(directory) / "case.leadline"
        write_bundle(made, bundle)
        verdicts = judge(bundle)
    truth = truth_of(made.truth, _ends(made.from_ns, made.to_ns), WINDOW_NS)
    owned = made.condition.owners
    return scored(verdicts, made.flow_sample, truth, WINDOW_NS, made.job_of if owned else None, only_of_jobs=owned)


def of_bundle(bundle: Path, judge: Judge = judged) -> Scores:
    """Scores of a recorded run. Whole windows only: at both ends switches and the truth begin at different times.

    Errors: LeadlineError for files that cannot be read.
    """
    rows = read_flow_truth(beside(bundle))
    with read_bundle(bundle) as opened:
        samples = pa.concat_tables(opened.groups(TABLES["flow_sample"]))
    at_ns, first, last = (samples.column("time_ns"), *_span(rows))
    ends = _ends(-(-first // WINDOW_NS) * WINDOW_NS, last // WINDOW_NS * WINDOW_NS)
    at = at_ns.to_numpy()
    inside = (at >= ends.start - WINDOW_NS) & (at < ends.stop - WINDOW_NS) if len(ends) else at < 0
    verdicts = {name: _ending(table, ends) for name, table in judge(bundle).items()}
    return scored(verdicts, samples.filter(pa.array(inside)), truth_of(rows, ends, WINDOW_NS), WINDOW_NS)


def write_bundle(made: Case, path: Path) -> None:
    """A case as a bundle."""
    sink = bundle_sink(path, made.from_ns, made.to_ns, "")
    try:
        for name, rows in (("flow_sample", made.flow_sample), ("relation", made.relation)):
            sink.write(TABLES[name], rows)
        sink.finish()
    finally:
        sink.close()


def _ends(from_ns: int, to_ns: int) -> range:
    """Ends of the whole windows between two multiples of a window."""
    return range(from_ns + WINDOW_NS, to_ns + WINDOW_NS, WINDOW_NS)


def _span(truth: pa.Table) -> tuple[int, int]:
    if not truth.num_rows:
        return 0, 0
    return int(truth.column("from_ns").to_numpy().min()), int(truth.column("to_ns").to_numpy().max())


def _ending(table: pa.Table, ends: range) -> pa.Table:
    """Rows of the windows that are scored; tables without windows are given whole."""
    if "end_ns" not in table.column_names or "window_ns" not in table.column_names:
        return table
    return table.filter(pa.array([end_ns in ends for end_ns in table.column("end_ns").to_pylist()], pa.bool_()))


def all_judged(quick: bool, seed: int, only: str, data: Path | None) -> Iterator[Judged]:
    """One after the other, simulated first. What cannot be judged is said and left out."""
    for condition in path_conditions(quick):
        if only in condition.name:
            began = time.perf_counter()
            scores = of_case(case(condition, seed))
            seconds = time.perf_counter() - began
            yield Judged(condition.name, condition.group, scores, seconds, condition.rate, condition.hostile)
    for bundle in recorded(data):
        if only in bundle.stem:
            began = time.perf_counter()
            try:
                scores = of_bundle(bundle)
            except LeadlineError as error:
                print(f"{bundle}: left out: {error}", file=sys.stderr)
                continue
            yield Judged(f"lab {bundle.stem}", "lab", scores, time.perf_counter() - began)


def recorded(data: Path | None) -> list[Path]:
    """Bundles that have a truth of flows beside them; without `data` those that the tests keep."""
    directory = SMALL if data is None else data
    found = [each for each in sorted(directory.glob("*.leadline")) if beside(each).exists()]
    if not found:
        print(f"no recorded lab run in {directory}: {HOW_TO_GET}", file=sys.stderr)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help=f"directory of recorded lab runs; {HOW_TO_GET}")
    parser.add_argument("--quick", action="store_true", help="every condition, fewer flows: under a minute")
    parser.add_argument("--only", default="", help="conditions whose name has this in it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep what is judged for docs/path_calibration.py")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    under: dict[str, Any] = conditions(given.seed, quick=given.quick)
    found = []
    for each in all_judged(given.quick, given.seed, given.only, given.data):
        found.append(each)
        print(path_report.line(each.name, each.scores, each.seconds), file=sys.stderr, flush=True)
    whole = Scores.sum([each.scores for each in found])
    detail = {"judged": {each.name: each.as_json() for each in found}, "reliability": _reliability(found, whole)}
    if given.keep:
        path_report.RECORDED.write_text(json.dumps({"conditions": under, **detail}, indent=1) + "\n")
    if not given.json:
        print(path_report.table([(each.name, each.scores) for each in found]))
        print(path_report.reliability_table(whole))
    hostile = Scores.sum([each.scores for each in found if each.hostile])
    told = [*path_report.figures(whole), path_report.hostile_figure(hostile)]
    tell("paths", {**under, **detail} if given.json else under, told, given.json)


def _reliability(found: Sequence[Judged], whole: Scores) -> dict[str, Any]:
    """The reliability tables of everything and of each group of conditions."""
    groups = dict.fromkeys(each.group for each in found)
    of_group = {group: Scores.sum([each.scores for each in found if each.group == group]) for group in groups}
    return {name: path_report.bins_json(each) for name, each in {"all": whole, **of_group}.items()}


if __name__ == "__main__":
    main()
