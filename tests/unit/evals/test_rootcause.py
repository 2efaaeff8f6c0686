"""The eval of root causes: what is read, what the figures count, and the kept cases."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evals import baselines_rootcause as baselines
from evals import rootcause_nezha as nezha
from evals import rootcause_petshop as petshop
from evals.rootcause import (
    GOLDEN,
    Judged,
    Suite,
    above_baselines,
    figures,
    main,
    nezha_suite,
    petshop_suite,
    specificity,
    top,
    with_baselines,
)

NOTHING = baselines.Readings(np.zeros((2, 1)), np.zeros((1, 1)), ("x",))


def case(kind: str, named: list[str], part: str = "s", baro: tuple[str, ...] = (), truth: str = "x") -> Judged:
    ranked = {"": named, "_baro": list(baro), "_nsigma": []}
    return Judged(f"{part}/{kind}/{named}", part, kind, truth, ranked, NOTHING)


@pytest.fixture(scope="module")
def shop() -> Suite:
    return petshop_suite(GOLDEN / "petshop")


@pytest.fixture(scope="module")
def scenario() -> petshop.Scenario:
    return petshop.scenarios(GOLDEN / "petshop")[0]


@pytest.fixture(scope="module")
def day() -> nezha.Day:
    return nezha.days(GOLDEN / "nezha")[0]


def test_top_counts_places_and_unknown_is_a_miss() -> None:
    cases = [case("latency", ["x", "y"]), case("latency", ["y", "z", "x"]), case("latency", []), case("other", [])]
    assert top(cases, "latency", "", 1) == pytest.approx(1 / 3)
    assert top(cases, "latency", "", 3) == pytest.approx(2 / 3)
    assert top(cases, "nowhere", "", 1) is None


def test_figures_are_told_over_all_and_of_each_part_if_there_are_several() -> None:
    suite = Suite([case("latency", ["x"], "a", ("x",)), case("latency", ["y"], "b", ("x",))])
    told = {each.figure: each for each in figures(suite, ("latency", "availability"), {"latency_top1": 0.6})}
    assert told["latency_top1"].value == 0.5
    assert told["latency_top1"].met is False
    assert told["latency_top1_a"].value == 1.0
    assert told["latency_top1_a"].target is None
    assert told["latency_top1_baro"].value == 1.0
    assert told["availability_top3"].value is None
    one = {each.figure for each in figures(Suite(suite.cases[:1]), ("latency",), {})}
    assert one == {f"latency_top{k}{method}" for k in (1, 3) for method in ("", "_baro", "_nsigma")}


def test_the_better_baseline_is_the_target() -> None:
    suite = Suite([case("cpu", ["y"], "a", ("x",)), case("cpu", ["x"], "b")])
    told = {each.figure: each for each in above_baselines(figures(suite, ("cpu", "delay"), {}))}
    assert told["cpu_top1"].target == 0.5
    assert (told["cpu_top1_a"].target, told["cpu_top1_a"].met) == (1.0, False)
    assert told["cpu_top1_b"].met is True
    assert told["delay_top1"].target is None


def test_specificity_counts_windows_in_which_nothing_is_named() -> None:
    quiet = {("s", "latency", ""): [True, False], ("s", "latency", "_baro"): [False]}
    suite = Suite([case("latency", [])], quiet, {("s", "latency", ""): [True]})
    told = {each.figure: each.value for each in specificity(suite, {})}
    assert told == {
        "specificity_latency": 0.5, "specificity_latency_baro": 0.0, "specificity_latency_nsigma": None,
        "specificity_latency_as_published": 1.0,
    }  # fmt: skip


def test_a_scenario_is_read_as_it_is_written(scenario: petshop.Scenario) -> None:
    assert (scenario.name, len(scenario.issues), len(scenario.symptoms)) == ("low_traffic", 6, 2)
    assert scenario.normal.values_TF.shape == (200, 123)
    assert ("PetSite", "PetSearch_AWS::ECS::Fargate") in scenario.calls  # the row calls the column
    assert ("PetSearch_AWS::ECS::Fargate", "PetSite") not in scenario.calls
    assert {len(issue.window.values_TF) for issue in scenario.issues} == {5}


def test_the_published_layout_reads_the_same(scenario: petshop.Scenario, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "petshop" / "low_traffic", tmp_path / "low_traffic"))
    (folder / "labels.csv").unlink()
    for issue in scenario.issues:
        target = {"node": issue.symptom.node, "metric": issue.symptom.metric, "agg": issue.symptom.statistic}
        told = {"target": target, "root_cause": {"node": issue.truth, "metric": None}}
        (folder / issue.name / "target.json").write_text(json.dumps(told))
    again = petshop.read_scenario(folder)
    assert {(each.name, each.truth) for each in again.issues} == {(each.name, each.truth) for each in scenario.issues}


def test_the_kept_cases_are_named_and_normal_operation_is_not(shop: Suite) -> None:
    assert top(shop.cases, "availability", "", 1) == 1.0
    ranks = [each.rank("") for each in shop.cases]
    assert set(ranks) <= {1, None}, "with a third of the normal data a case may stay unknown, but none is told wrong"
    assert ranks.count(None) <= 1
    assert all(all(found) for (_, _, method), found in shop.quiet.items() if not method)
    assert not any(found for (_, _, method), all_of in shop.quiet.items() if method == "_baro" for found in all_of)


def test_a_symptom_that_is_as_usual_has_no_cause(scenario: petshop.Scenario) -> None:
    issue = scenario.issues[0]
    assert petshop.named(scenario, issue.symptom, scenario.normal, issue.window)[0] == issue.truth
    column = issue.window.columns.index((issue.symptom.node, issue.symptom.metric, issue.symptom.statistic))
    calm_TF = issue.window.values_TF.copy()
    calm_TF[:, column] = calm_TF[0, column]
    calm = replace(issue.window, values_TF=calm_TF)
    assert petshop.named(scenario, issue.symptom, scenario.normal, calm) == []


def test_a_component_without_readings_is_inferred_from_its_caller(scenario: petshop.Scenario) -> None:
    (issue,) = (each for each in scenario.issues if each.truth.startswith("petInfo"))
    dark_TF = issue.window.values_TF.copy()
    dark_TF[:, [column[0] == issue.truth and column[1] != "requests" for column in issue.window.columns]] = np.nan
    window = replace(issue.window, values_TF=dark_TF)
    found = petshop.ranking(scenario, issue.symptom, scenario.normal, window)
    assert found.causes[0].entity == "PetSearch_AWS::ECS::Fargate"  # its caller, which cannot hand it on
    assert [cause.inferred for cause in found.causes if cause.entity == issue.truth] == [True]
    assert issue.truth in found.missing


def test_a_day_is_read_as_it_is_written(day: nezha.Day) -> None:
    assert (day.system, len(day.services), len(day.faults)) == ("online_boutique", 10, 16)
    assert set(np.diff(day.time_T)) == {60}
    assert ("frontend", "cartservice") in day.pairs
    assert not any("33." in name for pair in day.pairs for name in pair)  # hosts are no services
    assert day.faults[0].service == "frontend"
    assert np.isfinite(day.by_caller_TE).mean() > 0.9
    for fault in day.faults:
        assert not (day.window_T(fault) & day.quiet_T).any()


def test_slow_networks_show_on_the_way_and_busy_processors_in_use(day: nezha.Day) -> None:
    suite = nezha_suite(GOLDEN / "nezha")
    assert top(suite.cases, "cpu", "", 1) == 1.0
    assert top(suite.cases, "delay", "", 1) >= 0.8  # type: ignore[operator]
    asked = nezha.Asked.of(day)
    (fault,) = (each for each in day.faults if (each.service, each.kind) == ("cartservice", "network_delay"))
    first = asked.ranking(fault).causes[0]
    share = {each.what: each.share for each in first.evidence}
    assert first.entity == "cartservice"
    assert share["the way to it"] > 0.5 > share.get("its own time", 0.0)


def test_a_day_without_calls_is_told_by_pods_alone(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "nezha" / "2022-08-22", tmp_path / "2022-08-22"))
    for name in ("dependency.csv", "source_50.csv.gz", "destination_50.csv.gz"):
        (folder / name).unlink()
    assert top(nezha_suite(folder).cases, "cpu", "", 3) == 1.0


def test_a_clock_that_is_years_off_is_set_right(day: nezha.Day) -> None:
    """As published, all times of adservice have a wrong digit."""
    text = gzip.decompress((GOLDEN / "nezha" / "2022-08-22" / "pod_metrics.csv.gz").read_bytes()).decode()
    assert "1861140279,adservice" in text
    seen_T = np.isfinite(day.metric("PodWorkload(Ops)")[:, day.services.index("adservice")])
    assert seen_T.mean() > 0.9  # of some minutes there are two readings, of others none


def test_a_time_that_is_a_slip_of_the_pen_is_left_out(tmp_path: Path, day: nezha.Day) -> None:
    folder = Path(shutil.copytree(GOLDEN / "nezha" / "2022-08-22", tmp_path / "2022-08-22"))
    path = folder / "pod_metrics.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    (slip, *_) = (line for line in lines if "cartservice" in line)
    path.write_bytes(gzip.compress("\n".join([*lines, "9" + slip[1:]]).encode()))
    assert nezha.read_day(folder).time_T.tolist() == day.time_T.tolist()


def test_robust_scores_and_z_scores_rank_what_moved_first() -> None:
    chance = np.random.default_rng(3)
    normal_TF = chance.normal(size=(200, 4))
    normal_TF[:, 2] = 5.0  # constant: left out, as in the package
    odd_WF = chance.normal(size=(5, 4))
    odd_WF[:, 1] += 30.0
    odd_WF[0, 3] = np.nan
    readings = baselines.Readings(normal_TF, odd_WF, ("a", "b", "c", "a"))
    for ranked in (baselines.baro(readings), baselines.nsigma(readings)):
        assert ranked[0] == 1
        assert 2 not in ranked
        assert baselines.components(ranked, readings) == ["b", "a"]


def test_a_gap_is_the_reading_before_it() -> None:
    nan = float("nan")
    found, _ = baselines.Readings(np.array([[nan, 1.0], [2.0, nan], [nan, nan]]), np.zeros((1, 2)), ("a", "b")).filled
    assert found.tolist() == [[0.0, 1.0], [2.0, 1.0], [2.0, 1.0]]


def test_an_interpreter_without_the_package_is_told(shop: Suite, tmp_path: Path) -> None:
    false = tmp_path / "python"
    false.write_text("#!/bin/sh\necho no module named baro >&2\nexit 1\n")
    false.chmod(0o755)
    with pytest.raises(RuntimeError, match="no module named baro"):
        with_baselines(shop.cases, false)


def test_the_command_tells_both_suites(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["conditions"]["suite"] for each in told] == ["nezha", "petshop"]
    names = {figure["figure"] for figure in told[1]["figures"]}
    assert {"latency_top1", "availability_top3_baro", "latency_top1_nsigma", "specificity_latency"} <= names


def test_what_is_no_suite_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no cases of petshop.*petshop-root-cause-analysis"):
        main(["--suite", "petshop", "--data", str(tmp_path)])
    (tmp_path / "noissue").mkdir()
    with pytest.raises(SystemExit, match="FileNotFoundError"):
        main(["--suite", "petshop", "--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)])
