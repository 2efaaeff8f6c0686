"""Scenarios: what stands in YAML becomes a time line, and what is wrong in it is told with its place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.faults import BY_NAME, FAULTS
from leadline.lab.faults.base import Fault
from leadline.lab.running import link_named
from leadline.lab.scenarios.spec import parse, scenario_of, shipped, time_line
from leadline.lab.topology import load
from leadline.lab.workloads.bulk.job import Bulk
from leadline.model.errors import ConfigError, UsageError

PLAIN = """
name: plain
topology: tiny
duration_s: 60
workloads:
  - {workload: bert, name: b, steps: 5}
faults:
  - {fault: slow-link, at_s: 10, for_s: 20, link: h1~leaf1, rate_ratio: 0.5}
  - {fault: slow-link, at_s: 30, for_s: 10, link: h1~leaf1}
  - {fault: sigsegv, at_s: 40, for_s: 5, rank: 1}
"""


@pytest.mark.parametrize("name", [*shipped(), *BY_NAME])
def test_every_shipped_scenario_and_every_fault_can_be_run_by_its_name(name: str) -> None:
    scenario = scenario_of(name)
    assert scenario.doc
    assert scenario.workloads
    line = time_line(scenario)
    assert sum(due.deed == "start fault" for due in line) == len(scenario.faults)


def test_the_time_line_mends_before_it_breaks_and_forgets_no_end() -> None:
    line = [(due.at_s, due.deed, due.number) for due in time_line(parse(PLAIN, "plain.yaml"))]
    assert line == [
        (0.0, "start workload", 0),
        (10.0, "start fault", 0),
        (30.0, "stop fault", 0),
        (30.0, "start fault", 1),
        (40.0, "stop fault", 1),
        (40.0, "start fault", 2),  # a crash has no end
    ]


def test_a_job_that_comes_again_and_again_is_numbered_and_lasts_as_long_as_the_scenario() -> None:
    text = "duration_s: 100\nworkloads: [{workload: rings, name: r-3, at_s: 10, for_s: 5, every_s: 40}]"
    jobs = [(each.name, each.at_s) for each in parse(text, "x").workloads]
    assert jobs == [("r-3", 10.0), ("r-4", 50.0), ("r-5", 90.0)]
    assert len(parse(text, "x", duration_s=1000).workloads) == 25
    hours = scenario_of("healthy", 7200.0)
    assert hours.duration_s == 7200.0
    assert {each.kind for each in hours.workloads if each.at_s > 6000} == {"rings", "bulk", "finetune"}
    late = {each.fault.name for each in hours.faults if each.at_s > 6000}
    assert late == {each.fault.name for each in scenario_of("healthy").faults}, "all that is harmless comes again"
    with pytest.raises(ConfigError, match="line 2: every_s 20 needs a for_s that is shorter, got 30"):
        parse("duration_s: 100\nharmless: [{harmless: cron-job, at_s: 5, for_s: 30, every_s: 20}]", "x")
    with pytest.raises(ConfigError, match="needs a for_s that is shorter"):
        parse(text.replace("for_s: 5", "for_s: 50"), "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("slow-link", "slow-lnk"), "fault must be one of slow-worker"),
        (("rate_ratio: 0.5", "rate: 0.5"), "slow-link has no parameter 'rate'; it takes link, rate_ratio"),
        (("rate_ratio: 0.5", "rate_ratio: much"), "slow-link.rate_ratio expects float, got 'much'"),
        (("at_s: 10, ", ""), "plain.yaml, line 8: slow-link needs at_s"),
        (("at_s: 10", "at_s: 100"), "at_s 100.0 is after the end"),
        (("duration_s: 60", "duration_s: -1"), "duration_s must be seconds >= 0, got -1"),
        (("steps: 5", "stps: 5"), "bert has no parameter 'stps'"),
        (("name: plain", "nme: plain"), "unknown nme"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: tuple[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(PLAIN.replace(*change, 1), "plain.yaml")
    assert str(caught.value).startswith("plain.yaml")
    assert said in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean flapping-link"):
        scenario_of("flaping-link")


@given(st.text(max_size=200))
def test_any_text_is_a_scenario_or_told_why_not(text: str) -> None:
    try:
        parse(text, "random")
    except ConfigError as error:
        assert str(error).startswith("random")  # noqa: PT017 (any text may also be a scenario)


def test_faults_are_listed_once_and_say_what_they_are() -> None:
    assert len(BY_NAME) == len(FAULTS)
    for fault in FAULTS:
        assert fault.__doc__
        assert fault.layer in ("application", "host", "gpu", "network", "storage", "telemetry")
        assert fault.fault_class in ("persistent", "gray", "transient")
        assert fault()  # everything may be left to the seed


@pytest.mark.parametrize("name", shipped())
def test_what_shipped_scenarios_name_is_in_their_topology(name: str) -> None:
    scenario = scenario_of(name)
    for planned in scenario.faults:
        planned.fault.check(load(scenario.topology))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (BY_NAME["slow-link"](link="h1~leaf9"), "no link 'h1~leaf9' in tiny"),
        (BY_NAME["blackhole"](switch="h1"), "is a host, not a switch"),
        (BY_NAME["exporter-hangs"](host="h77"), "no node 'h77' in topology tiny"),
    ],
)
def test_a_fault_on_what_is_not_there_is_refused_before_anything_starts(fault: Fault, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fault.check(load("tiny"))


@pytest.mark.parametrize("name", ["h1~leaf1", "leaf1~h1", "h1/eth0~leaf1", "link:h1/eth0~leaf1/Ethernet1"])
def test_a_link_is_found_by_its_ends(name: str) -> None:
    link = link_named(load("clos8"), name)
    assert {end.node for end in link.ends} == {"h1", "leaf1"}


def test_the_seed_is_a_seed() -> None:
    draws = {random.Random("7/0").random() for _ in range(3)}
    assert len(draws) == 1
    assert random.Random("7/1").random() not in draws


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("for_s: 20", "for_s: 0"), "for_s must be seconds > 0, got 0; leave it out"),
        (("at_s: 10", "at_s: .nan"), "at_s must be seconds >= 0, got nan"),
        (("duration_s: 60", "duration_s: .inf"), "duration_s must be seconds >= 0, got inf"),
        (("name: b,", "name: ../b,"), "a name is letters and digits, then also '.', '_' and '-'; got '../b'"),
    ],
)
def test_what_would_fail_in_the_middle_of_a_run_is_told_before_it(change: tuple[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=r"^plain.yaml") as caught:
        parse(PLAIN.replace(*change, 1), "plain.yaml")
    assert said in str(caught.value)


def test_a_rank_beyond_the_hosts_is_told_before_anything_is_started() -> None:
    fault = parse(PLAIN.replace("rank: 1", "rank: 2"), "plain.yaml").faults[2].fault
    with pytest.raises(UsageError, match="a rank on tiny is 0 to 1, got 2"):
        fault.check(load("tiny"))


def test_a_scenario_without_a_name_is_called_as_its_file() -> None:
    assert parse("duration_s: 5", "some/where/quiet.yaml").name == "quiet"


def test_bulk_takes_transfers_as_they_stand_in_a_scenario() -> None:
    bulk = Bulk(transfers=[{"source": "h1", "target": "h2", "rate_bps": 1000}])
    assert bulk.hosts == ["h1", "h2"]
    assert bulk.transfers[0].rate_bps == 1000
    with pytest.raises(UsageError, match="a transfer has source and target"):
        Bulk(transfers=[{"from": "h1"}])


def test_flows_are_counted_where_the_scenario_says_so() -> None:
    assert not parse("duration_s: 10", "x").flow_truth
    assert parse("duration_s: 10\nflow_truth: true", "x").flow_truth
    with pytest.raises(ConfigError, match="x, line 2: flow_truth must be true or false, got 'often'"):
        parse("duration_s: 10\nflow_truth: often", "x")
