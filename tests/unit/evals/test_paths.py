"""The eval of paths from end to end: cases as bundles, recorded runs, figures, and that it is not deceived."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from evals import paths
from evals.path import report as path_report
from evals.path.cases import Case, case
from evals.path.conditions import WINDOW_NS, Condition
from evals.path.truth import truth_of

from leadline.lab.flow_truth import FlowTruthFile, beside
from leadline.model.tables import BY_NAME
from leadline.store.bundle import read_bundle
from leadline.store.schema import arrow_schema

SMALL = Condition("small", "small", flows=60, windows=2, samples_max=300.0)


def oracle(made: Case, shift: int = 0) -> paths.Judge:
    """A judge that knows the truth; `shift`: it tells each flow the path of another one, so far on."""
    ends = range(made.from_ns + WINDOW_NS, made.to_ns + WINDOW_NS, WINDOW_NS)
    known = truth_of(made.truth, ends, WINDOW_NS).paths
    keys = sorted(key for key, path in known.items() if path.last)

    def judge(bundle: Path) -> dict[str, pa.Table]:
        with read_bundle(bundle) as opened:
            assert sum(group.num_rows for group in opened.groups(BY_NAME["flow_sample"])) == made.flow_sample.num_rows
        flows, hops = [], []
        for place, (flow, end_ns) in enumerate(keys):
            key = {"flow": flow, "end_ns": end_ns}
            flows.append({**key, "state": "known", "probability": 0.999, "job": made.job_of[flow]})
            links = known[keys[(place + shift) % len(keys)]].last
            hops += [{**key, "hop": hop, "link": link, "alternative": 0} for hop, link in enumerate(links)]
        return {
            "flow_path": pa.Table.from_pylist(flows),
            "path_hop": pa.Table.from_pylist(hops),
            "flow_volume": arrow_schema(BY_NAME["flow_volume"]).empty_table(),
        }

    return judge


def test_an_oracle_scores_full_marks() -> None:
    made = case(SMALL, 1)
    scores = paths.of_case(made, oracle(made))
    assert scores.right.value == scores.owner_right.value == 1.0
    assert scores.wrong.value == scores.unknown.value == 0.0
    assert scores.without_truth == 0


def test_a_judge_that_mixes_flows_up_is_found_out() -> None:
    made = case(SMALL, 1)
    scores = paths.of_case(made, oracle(made, shift=7))
    assert scores.wrong.value is not None
    assert scores.wrong.value > 0.9
    assert path_report.figures(scores)[3].value == 1.0  # a bin that promised too much


def test_a_recorded_run_scores_as_the_case_that_it_was_made_from(tmp_path: Path) -> None:
    made = case(SMALL, 1)
    bundle = tmp_path / "run.leadline"
    paths.write_bundle(made, bundle)
    with FlowTruthFile(beside(bundle)) as file:
        file.add(made.truth)
        file.finish()
    assert paths.recorded(tmp_path) == [bundle]
    scores = paths.of_bundle(bundle, oracle(made))
    assert scores.right == paths.of_case(made, oracle(made)).right


def test_windows_that_the_truth_does_not_cover_are_left_out(tmp_path: Path) -> None:
    made = case(SMALL, 1)
    bundle = tmp_path / "run.leadline"
    paths.write_bundle(made, bundle)
    late = pa.array([begin >= made.from_ns + WINDOW_NS for begin in made.truth.column("from_ns").to_pylist()])
    with FlowTruthFile(beside(bundle)) as file:
        file.add(made.truth.filter(late))
        file.finish()
    scores = paths.of_bundle(bundle, oracle(made))
    whole = paths.of_case(made, oracle(made))
    assert 0 < len(scores.flows) < len(whole.flows)
    assert scores.unknown.value == 0.0


def test_without_recorded_runs_it_says_where_to_get_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paths.recorded(tmp_path) == []
    assert "leadline lab run" in capsys.readouterr().err


def test_a_bundle_without_its_truth_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "alone.leadline").write_bytes(b"")
    assert paths.recorded(tmp_path) == []


def test_a_broken_run_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bad.leadline", "bad.flows.parquet"):
        (tmp_path / name).write_bytes(b"no such file")
    assert list(paths.all_judged(True, 1, "bad", tmp_path)) == []
    assert "left out" in capsys.readouterr().err


def test_the_figures_come_as_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    paths.main(["--quick", "--json", "--only", "2-tier 1:100"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = {figure["figure"]: figure for figure in told["figures"]}
    assert {"path_right_share", "path_unknown_share", "volume_coverage", "path_overconfident"} <= set(found)
    assert found["path_right_share"]["met"] is True
    assert list(told["conditions"]["judged"]) == ["2-tier 1:100"]
