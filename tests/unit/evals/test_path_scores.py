"""Scores of paths and volumes, on verdicts and truths written by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from evals.path import report as path_report
from evals.path.scores import FlowScore, Scores, reliability, scored
from evals.path.truth import truth_of
from evals.statistics import Share, quantile

from leadline.lab.flow_truth import SCHEMA

S = 10**9
WINDOW = 10 * S
END = 1_000 * S
UP, DOWN = "link:h1/eth0~leaf1/Ethernet1", "link:h2/eth0~leaf2/Ethernet1"
VIA = {n: (f"link:leaf1/Ethernet{n}~spine{n}/Ethernet1", f"link:leaf2/Ethernet{n}~spine{n}/Ethernet2") for n in (1, 2)}
ONE, TWO = (UP, *VIA[1], DOWN), (UP, *VIA[2], DOWN)
FLOW = bytes(range(16))


def truth_rows(*spans: tuple[int, tuple[str, ...], float], flow: bytes = FLOW, sprayed: bool = False) -> pa.Table:
    """Rows of a flow that took a path for a second from each of these moments on."""
    rows: list[dict[str, Any]] = []
    for from_ns, path, size in spans:
        passed = ("leaf1", path[1].split("~")[1].split("/")[0], "leaf2")
        for switch, ins, outs in zip(passed, path[:-1], path[1:], strict=True):
            row: dict[str, Any] = {"flow": flow, "switch": switch, "in_link": ins, "out_link": outs, "bytes": size}
            row |= {"from_ns": from_ns, "to_ns": from_ns + S, "packets": size / 1000, "sprayed": sprayed}
            row |= {"src_ip": "10.0.0.1", "dst_ip": "10.0.0.2", "protocol": 6, "src_port": 1, "dst_port": 2}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def verdicts(
    state: str, path: tuple[str, ...], probability: float = 0.99, volumes: tuple[tuple[Any, ...], ...] = ()
) -> dict[str, pa.Table]:
    """Verdict tables on the one flow in the one window; volumes: link, low, high, job."""
    key = {"flow": FLOW, "end_ns": END}
    hops = [{**key, "hop": hop, "link": link, "alternative": 0} for hop, link in enumerate(path)]
    told = [
        {**key, "link": link, "bytes": (low + high) / 2, "low": low, "high": high, "job": job}
        for link, low, high, job in volumes
    ]
    return {
        "flow_path": pa.Table.from_pylist([{**key, "state": state, "probability": probability, "job": "bert-1"}]),
        "path_hop": pa.Table.from_pylist(hops, schema=HOPS),
        "flow_volume": pa.Table.from_pylist(told, schema=VOLUMES),
    }


HOPS = pa.schema(
    {"flow": pa.binary(16), "end_ns": pa.int64(), "hop": pa.int64(), "link": pa.string(), "alternative": pa.int64()}
)
VOLUMES = pa.schema(
    {
        "flow": pa.binary(16), "end_ns": pa.int64(), "link": pa.string(), "bytes": pa.float64(), "low": pa.float64(),
        "high": pa.float64(), "job": pa.string(),
    }
)  # fmt: skip


def samples(count: int, flow: bytes = FLOW) -> pa.Table:
    at_ns = [END - WINDOW + place for place in range(count)]
    return pa.table({"flow": pa.array([flow] * count, pa.binary(16)), "time_ns": at_ns})


def score(told: dict[str, pa.Table], truth: pa.Table, count: int = 300) -> Scores:
    return scored(told, samples(count), truth_of(truth, [END], WINDOW), WINDOW)


STEADY = ((END - 5 * S, ONE, 1e6), (END - 4 * S, ONE, 1e6))
MOVED = ((END - 5 * S, ONE, 9e6), (END - 2 * S, TWO, 1e6))


def test_the_path_that_was_taken_is_right_and_another_is_wrong() -> None:
    assert score(verdicts("known", ONE), truth_rows(*STEADY)).right == Share(1, 1)
    other = score(verdicts("known", TWO), truth_rows(*STEADY))
    assert other.right == Share(0, 1)
    assert other.wrong == Share(1, 1)


def test_a_path_in_the_other_order_is_wrong() -> None:
    assert score(verdicts("known", ONE[::-1]), truth_rows(*STEADY)).wrong == Share(1, 1)


@pytest.mark.parametrize("state", ["ambiguous", "unknown", "contradicted", "loop", "sprayed"])
def test_other_states_are_unknown_even_if_the_path_is_right(state: str) -> None:
    found = score(verdicts(state, ONE), truth_rows(*STEADY))
    assert (found.right, found.wrong, found.unknown) == (Share(0, 1), Share(0, 1), Share(1, 1))


def test_known_without_hops_is_unknown() -> None:
    assert score(verdicts("known", ()), truth_rows(*STEADY)).unknown == Share(1, 1)


def test_a_flow_without_a_verdict_is_unknown() -> None:
    empty = {name: table.slice(0, 0) for name, table in verdicts("known", ONE).items()}
    assert score(empty, truth_rows(*STEADY)).unknown == Share(1, 1)


def test_of_a_flow_that_moved_the_last_path_counts_though_it_carried_less() -> None:
    truth = truth_rows(*MOVED)
    assert score(verdicts("moved", TWO), truth).right == Share(1, 1)
    assert score(verdicts("moved", TWO), truth).moved_told == Share(1, 1)
    assert score(verdicts("known", ONE), truth).wrong == Share(1, 1)


def test_one_path_for_certain_of_a_sprayed_flow_is_wrong_and_sprayed_is_told() -> None:
    truth = truth_rows((END - 5 * S, ONE, 1e6), (END - 5 * S, TWO, 1e6), sprayed=True)
    sure = score(verdicts("known", ONE), truth)
    assert (sure.wrong, sure.right.count) == (Share(1, 1), 0)
    assert score(verdicts("sprayed", ONE, 0.5), truth).sprayed_told == Share(1, 1)


def test_few_samples_do_not_count_for_the_right_share() -> None:
    assert score(verdicts("known", ONE), truth_rows(*STEADY), count=199).right == Share(0, 0)


def test_a_flow_whose_truth_is_no_whole_path_is_counted_apart() -> None:
    cut = truth_rows(*STEADY).filter(pa.array([True, True, False] * 2))
    other = truth_rows(*STEADY, flow=bytes(16))  # so that the last switch is known to be one
    found = score(verdicts("known", ONE), pa.concat_tables([cut, other]))
    assert (found.without_truth, len(found.flows)) == (1, 0)


def test_volumes_cover_what_was_carried_over_the_link_and_zero_elsewhere() -> None:
    told = (
        (UP, 1.5e6, 2.5e6, "j"), (VIA[1][0], 2.5e6, 3e6, "j"), (VIA[2][0], 0.0, 1e6, "j"), (VIA[2][1], 1e3, 1e6, "j"),
        (DOWN, 9e9, 9e9, None),
    )  # fmt: skip
    found = score(verdicts("known", ONE, volumes=told), truth_rows(*STEADY))
    assert [each.covered for each in found.volumes] == [True, False, True, False]
    assert found.covered == Share(2, 4)
    assert found.width_ratios == pytest.approx([0.5, 0.25])


def flow(probability: float, right: bool, state: str = "known", sprayed: bool = False) -> FlowScore:
    return FlowScore(300, state, probability, True, right, sprayed, False, None, None)


def test_overconfident_is_what_chance_does_not_explain() -> None:
    honest = [flow(0.97, place % 40 != 0) for place in range(400)]
    assert [each.overconfident for each in reliability(honest)] == [False]
    boasting = [flow(0.97, place % 10 != 0) for place in range(400)]
    assert [each.overconfident for each in reliability(boasting)] == [True]
    assert path_report.figures(Scores(boasting, []))[3].value == 1.0


def test_bins_hold_their_lower_edge_and_sprayed_shares_are_no_probabilities() -> None:
    found = reliability([flow(0.95, True), flow(1.0, True), flow(0.2, False, "sprayed", True), flow(0.5, True)])
    assert [(each.low, each.right.count) for each in found] == [(0.5, 1), (0.95, 1), (0.999, 1)]


def test_brier_is_the_mean_squared_distance() -> None:
    assert Scores([flow(0.9, True), flow(0.8, False)], []).brier == pytest.approx((0.01 + 0.64) / 2)
    assert Scores([], []).brier is None


def test_the_wilson_interval_is_as_published() -> None:
    low, high = Share(81, 263).interval  # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert Share(0, 0).interval == (0.0, 1.0)
    assert Share(10, 10).interval[1] == pytest.approx(1.0)


def test_quantiles_are_values_that_occur() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([], 0.5) is None


def test_figures_without_cases_say_why() -> None:
    for figure in path_report.figures(Scores([], [])):
        assert figure.value is not None or figure.reason


def test_the_table_names_every_condition_and_its_figures() -> None:
    text = path_report.table([("lab two jobs", score(verdicts("known", ONE), truth_rows(*STEADY)))])
    assert "100.00%" in text.splitlines()[1]
    assert text.splitlines()[1].startswith("lab two jobs")
