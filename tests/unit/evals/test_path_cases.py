"""Simulated fabrics for scoring: what is told agrees with the truth, except where the condition says otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from evals.path.cases import Case, case
from evals.path.conditions import WINDOW_NS, Condition, conditions
from evals.path.truth import TruePath, truth_of

SMALL = Condition("small", "small", flows=80, windows=2, samples_max=200.0)
THREE = replace(SMALL, tiers=3)


def places(rows: pa.Table) -> set[tuple[bytes, str, str | None, str | None]]:
    """Flow, switch and ports that are told."""
    columns = (rows.column(name).to_pylist() for name in ("flow", "switch", "in_port", "out_port"))
    return set(zip(*columns, strict=True))


def true_places(truth: pa.Table) -> set[tuple[bytes, str, str, str]]:
    """The same from the truth."""
    names = ("flow", "switch", "in_link", "out_link")
    return {
        (flow, switch, port(ins, switch), port(outs, switch))
        for flow, switch, ins, outs in zip(*(truth.column(name).to_pylist() for name in names), strict=True)
    }


def port(link: str, switch: str) -> str:
    ends = link.removeprefix("link:").split("~")
    return next(end.partition("/")[2] for end in ends if end.startswith(f"{switch}/"))


@pytest.mark.parametrize("condition", [SMALL, THREE, replace(SMALL, spray=True), replace(THREE, failing=8, windows=3)])
def test_every_sample_was_taken_where_the_flow_passed(condition: Condition) -> None:
    made = case(condition, 3)
    assert places(made.flow_sample) <= true_places(made.truth)
    assert made.flow_sample.num_rows > 1000


def test_the_same_seed_gives_the_same_rows_and_another_does_not() -> None:
    one, same, other = case(THREE, 1), case(THREE, 1), case(THREE, 2)
    assert one.flow_sample.equals(same.flow_sample)
    assert one.relation.equals(same.relation)
    assert not one.flow_sample.equals(other.flow_sample)


@pytest.mark.parametrize("rate", [100, 10_000, 200_000])
def test_samples_times_their_rate_are_the_packets_that_passed(rate: int) -> None:
    made = case(replace(SMALL, rate=rate, flows=400), 1)
    estimate = pc.sum(pc.multiply(made.flow_sample.column("rate"), made.flow_sample.column("frame_bytes"))).as_py()
    true = pc.sum(made.truth.column("bytes")).as_py()
    few = 1 / np.sqrt(made.flow_sample.num_rows)
    assert abs(estimate / true - 1) < 4 * few + 0.01


def test_mixed_rates_estimate_the_same_volume() -> None:
    plain, mixed = case(SMALL, 1), case(replace(SMALL, mixed_rates=True), 1)
    assert len(mixed.flow_sample.column("rate").unique()) == 2
    sizes = [pc.sum(pc.multiply(each.flow_sample.column("rate"), each.flow_sample.column("frame_bytes"))).as_py()
             for each in (plain, mixed)]  # fmt: skip
    assert sizes[1] == pytest.approx(sizes[0], rel=0.15)


def test_silent_switches_tell_nothing() -> None:
    told = len(case(replace(THREE, silent=0.5), 1).flow_sample.column("switch").unique())
    everybody = len(case(THREE, 1).flow_sample.column("switch").unique())
    assert 0.2 * everybody < told < 0.8 * everybody


def test_lying_switches_tell_ports_that_the_flows_did_not_use() -> None:
    made = case(replace(THREE, lying=0.3), 1)
    wrong = {switch for _, switch, *_ in places(made.flow_sample) - true_places(made.truth)}
    assert wrong


def test_the_inventory_of_crossed_cables_differs_and_the_truth_does_not() -> None:
    plain, crossed = case(THREE, 1), case(replace(THREE, miscabled=0.1), 1)
    assert plain.truth.equals(crossed.truth)
    assert not plain.relation.equals(crossed.relation)


def test_what_is_not_told_is_not_in_the_relations() -> None:
    nameless = case(replace(SMALL, addresses=False, owners=False), 1).relation
    assert not children(nameless) & {"address", "flow", "qp"}
    assert {"address", "flow", "qp", "rank"} <= children(case(SMALL, 1).relation)


def children(relation: pa.Table) -> set[str]:
    return {child.partition(":")[0] for child in relation.column("child").to_pylist()}


def test_ports_are_missing_from_about_as_many_samples_as_said() -> None:
    rows = case(replace(SMALL, portless=0.3), 1).flow_sample
    for name in ("in_port", "out_port"):
        assert rows.column(name).null_count / rows.num_rows == pytest.approx(0.3, abs=0.05)


def test_flows_move_when_links_fail_and_only_then() -> None:
    assert not any(path.moved for path in truths(case(THREE, 1)))
    made = case(replace(THREE, failing=8, windows=3), 1)
    moved = {end_ns for (_, end_ns), path in truths_by_key(made).items() if path.moved}
    assert moved == {made.from_ns + 2 * WINDOW_NS}


def test_packets_sprayed_over_two_ways_take_no_third() -> None:
    made = case(replace(THREE, spray=True, spray_ways=2), 1)
    into: dict[tuple[bytes, str], set[str]] = {}
    for row in made.flow_sample.select(["flow", "switch", "out_port"]).to_pylist():
        into.setdefault((row["flow"], row["switch"]), set()).add(row["out_port"])
    assert max(len(ports) for ports in into.values()) == 2


def test_a_switch_that_pauses_tells_nothing_in_the_first_half_of_windows() -> None:
    made = case(replace(SMALL, pausing=1.0), 1)
    assert made.flow_sample.num_rows
    assert (made.flow_sample["time_ns"].to_numpy() % WINDOW_NS >= WINDOW_NS // 2).all()


def test_under_spraying_only_flows_below_one_leaf_keep_a_path() -> None:
    for path in truths(case(replace(SMALL, spray=True), 1)):
        assert path.sprayed or len(path.last) == 2


def test_jobs_own_every_flow_and_two_tenants_share_the_fabric() -> None:
    made = case(SMALL, 1)
    assert set(made.flow_sample.column("flow").to_pylist()) <= set(made.job_of)
    assert {"blue", "red", "provider"} == set(made.relation.column("tenant").to_pylist())


@pytest.mark.parametrize("quick", [True, False])
def test_conditions_have_names_of_their_own_and_cover_all_rates(quick: bool) -> None:
    found = conditions(quick)
    assert len({each.name for each in found}) == len(found)
    assert {each.rate for each in found} >= {100, 1_000, 10_000, 50_000, 200_000}


def truths_by_key(made: Case) -> dict[tuple[bytes, int], TruePath]:
    ends = range(made.from_ns + WINDOW_NS, made.to_ns + WINDOW_NS, WINDOW_NS)
    return dict(truth_of(made.truth, ends, WINDOW_NS).paths)


def truths(made: Case) -> list[TruePath]:
    return list(truths_by_key(made).values())
