"""What `/api/v1/fleet` says of a small fleet: places, states, measures in both directions, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.fleet.fleet_rows import BEGIN, rows
from tests.unit.views.incidents.incident_rows import NOW, S
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.fleet.hosts import group_name
from leadline.views.fleet.view import EMPTY, FleetAnswer, fleet_answer

ASKED = Asked(Principal(), "default", NOW)
ACME = replace(ASKED, principal=Principal("acme", "default", Role.TENANT_READ))
H1, H2, H3, H10 = range(4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("fleet"), rows()) as store:
        yield store


@pytest.fixture(scope="module")
def fleet(store: Store) -> dict[str, Any]:
    return fleet_answer(store, ASKED, BEGIN)


def test_the_answer_is_as_its_model_says_and_is_json(fleet: dict[str, Any]) -> None:
    read = FleetAnswer.model_validate(json.loads(json.dumps(fleet, allow_nan=False)))
    lists = (
        read.gpus,
        read.state,
        read.jobs_of,
        read.nics_total,
        read.nics_healthy,
        read.loss.inbound,
        read.load.outbound,
    )
    assert {len(each) for each in lists} == {len(read.hosts)}


def test_hosts_stand_in_the_order_that_people_count_in(fleet: dict[str, Any]) -> None:
    assert fleet["hosts"] == ["h1", "h2", "h3", "h10"]
    assert fleet["gpus"] == [1, 1, 1, 1]


def test_tags_are_what_agents_say_and_the_switches_above(fleet: dict[str, Any]) -> None:
    tags = {tag["name"]: [tag["values"][at] if at >= 0 else None for at in tag["of"]] for tag in fleet["tags"]}
    assert tags == {"rack": ["r1", "r2", None, "r10"], "ecmp": ["leaf1", "leaf1", "leaf2", "leaf2"]}


@pytest.mark.parametrize(
    ("switches", "name"), [([], ""), (["leaf2", "leaf1"], "leaf1 leaf2"), (["l10", "l9", "l2"], "l2 … l10")]
)
def test_many_switches_are_named_in_short(switches: list[str], name: str) -> None:
    assert group_name(switches) == name


def test_jobs_run_on_hosts_and_those_that_ended_before_the_span_are_gone(fleet: dict[str, Any]) -> None:
    jobs = [(job["job"], job["hosts"], job["ranks"], job["running"]) for job in fleet["jobs"]]
    assert jobs == [("bert-1", 2, 2, True), ("moe", 1, 1, False)]
    assert fleet["jobs_of"] == [[0], [0], [1], []]


def test_a_host_is_bad_by_a_named_cause_watched_by_an_anomaly_and_unknown_in_silence(fleet: dict[str, Any]) -> None:
    states = [fleet["states"][code] for code in fleet["state"]]
    assert states == ["suppressed", "bad", "unknown", "watch"]
    told = {(one["host"], one["state"]): one for one in fleet["reasons"]}
    assert set(told) == {(H1, "suppressed"), (H2, "bad"), (H10, "watch")}
    bad = told[H2, "bad"]
    assert (bad["port"], bad["incident"], bad["since_ns"]) == ("h2/eth1", "bert-1-slow-1", NOW - 48 * S)
    assert "link-down" in bad["text"]
    assert "SM clock" in told[H10, "watch"]["text"]


def test_what_is_over_was_bad_at_its_time(store: Store) -> None:
    then = fleet_answer(store, replace(ASKED, at_ns=NOW - 150 * S), NOW - 210 * S)
    assert {(one["host"], one["incident"]) for one in then["reasons"]} == {(H1, "bert-1-slow-0")}


def test_nic_ports_are_those_with_a_link_and_one_has_no_carrier(fleet: dict[str, Any]) -> None:
    assert fleet["nics_total"] == [2, 2, 2, 2]  # without docker0
    assert fleet["nics_healthy"] == [2, 1, 0, 2]
    assert fleet["nics"] == {"total": 8, "healthy": 5, "unknown": 2}
    assert [(port["host"], port["name"], port["place"], port["state"]) for port in fleet["ports"]] == [
        (H2, "eth1", 1, "bad")
    ]


def test_load_is_that_of_the_busiest_port_and_throughput_the_sum(fleet: dict[str, Any]) -> None:
    assert fleet["load"]["inbound"] == [0.5, 0.5, None, 0.5]
    assert fleet["load"]["outbound"] == [None] * 4
    assert fleet["bytes_per_s"]["inbound"] == [3e9, 3e9, None, 3e9]  # nobody's on top: bridge, RDMA, switch
    assert fleet["bytes_per_s"]["outbound"] == [None, None, 2e6, None]


def test_loss_is_inbound_where_the_switch_discards_and_outbound_where_tcp_sends_again(fleet: dict[str, Any]) -> None:
    assert fleet["loss"]["inbound"][H2] == 0.01
    assert fleet["loss"]["outbound"] == [None, None, None, 0.1]  # of h1 too few packets


def test_errors_are_rates_and_a_counter_may_begin_anew(fleet: dict[str, Any]) -> None:
    assert fleet["errors"]["inbound"] == [0.5, 2.0, None, None]


def test_delay_is_the_median_over_the_peers(fleet: dict[str, Any]) -> None:
    assert fleet["delay_ns"]["inbound"] == [9000.0, 30_000.0, None, None]
    assert fleet["delay_ns"]["outbound"] == [10_000.0, 9000.0, 40_000.0, 30_000.0]


def test_a_long_span_is_measured_from_its_two_ends(store: Store) -> None:
    whole = fleet_answer(store, ASKED, NOW - 905 * S)
    assert whole["bytes_per_s"]["inbound"][H1] == pytest.approx((5e9 * 2 + 3e9 * 58) / 899, rel=1e-3)


def test_a_tenant_sees_its_own_hosts_and_jobs_and_no_others(store: Store) -> None:
    mine = fleet_answer(store, ACME, BEGIN)
    assert mine["hosts"] == ["h1", "h2"]
    assert "moe" not in json.dumps(mine)
    assert mine["loss"]["inbound"] == [None, None]  # what the switches discard is told to who runs them


def test_hosts_are_found_by_part_of_an_address(store: Store) -> None:
    assert fleet_answer(store, ASKED, BEGIN, "10.0.3.")["at_address"] == [H3]
    assert fleet_answer(store, ASKED, BEGIN, "10.9.")["at_address"] == []
    assert fleet_answer(store, ACME, BEGIN, "10.0.3.")["at_address"] == []
    assert fleet_answer(store, ASKED, BEGIN)["at_address"] is None


def test_a_cluster_that_nobody_tells_of_says_why(store: Store) -> None:
    found = fleet_answer(store, replace(ASKED, cluster="elsewhere"), BEGIN)
    assert (found["hosts"], found["why"]) == ([], EMPTY)
    FleetAnswer.model_validate(found)
