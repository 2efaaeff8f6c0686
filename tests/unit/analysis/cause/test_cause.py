"""From what hurts to the component: one story each, on the site of `tests.builders.causes`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from tests.builders.causes import (
    RING,
    UPLINK_1,
    Row,
    anomaly,
    at,
    blame,
    case,
    event,
    flows,
    host_link,
    named,
    symptom,
    throttled_host,
    told,
    volume,
)
from tests.common.analysis_laws import Case

from leadline.model.units import S

LATE = blame("rank:bert-1/2", "straggler")
THROTTLED = "container_cpu_cfs_throttled_seconds_total"


def test_a_throttled_host_of_the_late_rank_is_named_and_one_elsewhere_is_not() -> None:
    assert named(throttled_host()) == [("host:h3", "cpu-throttled")]


def test_what_a_gpu_says_of_itself_goes_before_what_comes_with_it() -> None:
    odd = [anomaly("host:h3", THROTTLED), anomaly("gpu:GPU-2", "DCGM_FI_DEV_THERMAL_VIOLATION"),
           anomaly("gpu:GPU-2", "DCGM_FI_DEV_SM_CLOCK", "low")]  # fmt: skip
    assert named(case(symptom=[symptom(LATE)], anomaly=odd)) == [("gpu:GPU-2", "slow-gpu")]


def test_blame_without_evidence_names_nobody_for_certain() -> None:
    incidents, causes = told(case(symptom=[symptom(blame("comm:bert-1/0x9c", "communication"))]))
    assert [row["verdict"] for row in incidents] == ["unknown"]
    assert not any(row["chosen"] for row in causes)


def test_nobody_blamed_is_told_as_missing() -> None:
    incidents, _ = told(case(symptom=[symptom()]))
    assert incidents[0]["verdict"] == "unknown"
    assert incidents[0]["missing"] == "blame: the lost time is not blamed on anything"


def test_the_input_that_the_symptom_lacked_is_named() -> None:
    incidents, _ = told(case(symptom=[symptom(missing="collectives of 2 of 4 ranks")]))
    assert incidents[0]["missing"] == "collectives of 2 of 4 ranks"


def test_an_edge_without_a_way_says_that_the_way_is_missing() -> None:
    edge = blame("rank:bert-1/0>rank:bert-1/1", "communication")
    incidents, _ = told(case(symptom=[symptom(edge)]))
    assert incidents[0]["missing"] == "path of rank:bert-1/0>rank:bert-1/1"


def test_evidence_that_began_later_than_both_bounds_does_not_count() -> None:
    late = anomaly("host:h3", THROTTLED, start_s=-5)
    assert named(case(symptom=[symptom(LATE)], anomaly=[late])) != [("host:h3", "cpu-throttled")]
    unknown = {
        **late,
        "bound_ns": None,
        "start_ns": late["start_ns"] - 10**10,
        "earliest_ns": late["earliest_ns"] - 10**10,
    }
    assert named(case(symptom=[symptom(LATE, bound_ns=None)], anomaly=[unknown])) == [("host:h3", "cpu-throttled")]


def test_a_link_of_the_blamed_edge_that_lost_its_carrier() -> None:
    paths, volumes = flows(RING)
    edge = blame("rank:bert-1/1>rank:bert-1/2", "communication")
    down = [event("swport:leaf1/U1", "link-down"), event("port:h5/eth0", "link-down")]
    found = named(case(symptom=[symptom(edge)], event=down, flow_path=paths, flow_volume=volumes))
    assert found == [(UPLINK_1, "link-down")]


def test_a_port_that_no_flow_of_the_job_uses_is_no_candidate() -> None:
    """The harmless anomaly beside the cause: eth1 of the very host flaps, and nothing goes over it."""
    paths, volumes = flows(RING)
    odd = [anomaly("host:h3", THROTTLED)]
    item = case(
        symptom=[symptom(LATE)],
        event=[event("port:h3/eth1", "link-down")],
        anomaly=odd,
        flow_path=paths,
        flow_volume=volumes,
    )
    _, causes = told(item)
    assert [(row["entity"], row["rule"]) for row in causes if row["chosen"]] == [("host:h3", "cpu-throttled")]
    assert not any("eth1" in row["entity"] for row in causes)


def test_traffic_of_others_that_came_with_it_is_congestion() -> None:
    paths, volumes = flows(RING)
    before = [volume(host_link(3), 1e6, -30.0)]
    others = [volume(host_link(3), 5e9, -10.0), volume(host_link(3), 5e9, 0.0)]
    edge = blame("rank:bert-1/1>rank:bert-1/2", "communication")
    item = case(symptom=[symptom(edge)], flow_path=paths, flow_volume=[*volumes, *before, *others],
                anomaly=[anomaly("swport:leaf2/E3", "node_qdisc_drops_total")])  # fmt: skip
    assert named(item) == [(host_link(3), "congestion")]


def test_traffic_of_others_that_was_always_there_is_none() -> None:
    paths, volumes = flows(RING)
    always = [volume(host_link(3), 5e9, float(end)) for end in (-40, -30, -10, 0)]
    edge = blame("rank:bert-1/1>rank:bert-1/2", "communication")
    item = case(symptom=[symptom(edge)], flow_path=paths, flow_volume=[*volumes, *always])
    assert not any(rule == "congestion" for _, rule in named(item))


def test_two_faults_at_once_are_both_named() -> None:
    paths, volumes = flows(RING)
    edge = blame("rank:bert-1/3>rank:bert-1/0", "communication", 12.0)
    odd = [anomaly("gpu:GPU-1", "DCGM_FI_DEV_THERMAL_VIOLATION"), anomaly("gpu:GPU-1", "DCGM_FI_DEV_SM_CLOCK", "low"),
           anomaly("swport:leaf1/E1", "ifInErrors")]  # fmt: skip
    item = case(
        symptom=[symptom(blame("rank:bert-1/1", "straggler", 14.0), edge)],
        anomaly=odd,
        flow_path=paths,
        flow_volume=volumes,
    )
    assert sorted(named(item)) == [("gpu:GPU-1", "slow-gpu"), (host_link(1), "link-errors")]


def test_ranks_that_died_each_of_its_own_are_all_named() -> None:
    """Partners, not rivals: three GPUs fell off the bus, and each took a third of the job with it."""
    died = [blame(f"rank:bert-1/{rank}", "died", 10.0, "decision:1") for rank in (0, 1, 2)]
    lost = [event(f"gpu:GPU-{rank}", "xid", code="79", severity="error") for rank in (0, 1, 2)]
    found = named(case(symptom=[symptom(*died, kind="crash")], event=lost))
    assert sorted(found) == [(f"gpu:GPU-{rank}", "gpu-lost") for rank in (0, 1, 2)]


def test_what_all_peers_show_tells_little() -> None:
    odd = [anomaly(f"host:h{host}", THROTTLED) for host in (1, 2, 3, 4, 5)]
    _, causes = told(case(symptom=[symptom(blame("job:bert-1", "straggler"))], anomaly=odd))
    assert not any(row["chosen"] for row in causes)


def test_symptoms_of_two_tenants_with_one_cause_are_one_incident_with_a_row_for_each() -> None:
    rows = [
        symptom(blame("rank:bert-1/1", "straggler")),
        symptom(blame("rank:moe-2/0", "straggler"), job="moe-2", start_s=-15),
    ]
    incidents, causes = told(case(symptom=rows, anomaly=[anomaly("host:h2", THROTTLED)]))
    (name,) = {row["incident"] for row in incidents}
    assert re.fullmatch("job-[0-9a-f]{8}-slow-20250615T150620Z", name)
    assert {row["tenant"]: row["jobs"] for row in incidents} == {"ana": ["bert-1"], "bo": ["moe-2"]}
    for tenant, other in (("ana", "moe-2"), ("bo", "bert-1")):
        mine = [json.dumps(row) for row in (*incidents, *causes) if row["tenant"] == tenant]
        assert mine
        assert not any(other in row for row in mine), "also not in the incident's id"


def test_troubles_of_two_jobs_by_two_causes_are_two_incidents() -> None:
    rows = [symptom(LATE), symptom(blame("rank:moe-2/0", "straggler"), job="moe-2")]
    odd = [anomaly("host:h3", THROTTLED), anomaly("gpu:GPU-4", "DCGM_FI_DEV_THERMAL_VIOLATION")]
    incidents, _ = told(case(symptom=rows, anomaly=odd))
    assert len({row["incident"] for row in incidents}) == 2


def test_a_slowdown_that_begins_where_another_ends_is_another_incident() -> None:
    """A link that was up again long before explains the first only, though both blame what goes over it."""
    paths, volumes = flows(RING)
    edge = blame("rank:bert-1/1>rank:bert-1/2", "communication", since_s=-80)
    flap = [event("swport:leaf1/U1", "link-down", -80), event("swport:leaf1/U1", "link-up", -60)]
    item = case(
        symptom=[
            symptom(edge, start_s=-80, end_s=-20),
            symptom(LATE, {**edge, "lost_gpu_seconds": 5.0, "since_ns": at(-20)}),
        ],
        event=flap,
        anomaly=[anomaly("host:h3", THROTTLED)],
        flow_path=paths,
        flow_volume=volumes,
    )
    incidents, causes = told(item)
    assert [row["start_ns"] for row in incidents] == [at(-80), at(-20)]
    assert [(row["entity"], row["rule"]) for row in causes if row["chosen"]] == [
        (UPLINK_1, "link-down"), ("host:h3", "cpu-throttled")
    ]  # fmt: skip


def test_what_began_with_the_one_whom_it_explains_counts_though_others_were_late_before() -> None:
    """A job that a busy machine makes slow for a minute, and then a host that is throttled."""
    other, late = (
        blame("rank:bert-1/0", "straggler", 6.0, since_s=-80),
        blame("rank:bert-1/2", "straggler", since_s=-20),
    )
    item = case(symptom=[symptom(other, late, start_s=-80)], anomaly=[anomaly("host:h3", THROTTLED, start_s=-21)])
    _, (cause, *_) = told(item)
    assert (cause["entity"], cause["rule"], cause["chosen"]) == ("host:h3", "cpu-throttled", True)
    assert "59.0 s after the first lost second" in cause["text"]  # as the card says it
    assert "since 60 s after the first lost second" in cause["text"]
    whole = {**LATE, "since_ns": at(-80)}
    item = case(symptom=[symptom(other, whole, start_s=-80)], anomaly=[anomaly("host:h3", THROTTLED, start_s=-21)])
    assert named(item) == []


def test_an_incident_keeps_its_id_its_start_and_the_symptoms_that_are_over() -> None:
    first, causes = told(case(symptom=[symptom(LATE)], anomaly=[anomaly("host:h3", THROTTLED)]))
    over = {"entity": "job:bert-1", "symptom": "stall", "start_ns": first[0]["start_ns"] - 90 * 10**9,
            "end_ns": first[0]["start_ns"] - 80 * 10**9, "lost_gpu_seconds": 5.0}  # fmt: skip
    earlier = {**first[0], "symptoms": json.dumps([over, *json.loads(first[0]["symptoms"])])}
    item = case(symptom=[symptom(LATE)], incident=[earlier], cause=causes)
    again, now = told(item)
    assert [row["incident"] for row in again] == [first[0]["incident"]]
    assert again[0]["start_ns"] == over["start_ns"]
    assert again[0]["lost_gpu_seconds"] == first[0]["lost_gpu_seconds"] + 5.0
    assert [row["entity"] for row in now if row["chosen"]] == ["host:h3"], "its evidence is remembered"


def test_an_incident_of_a_job_in_maintenance_is_suppressed() -> None:
    item = case(symptom=[symptom(LATE)], event=[event("host:h3", "maintenance", -60)])
    assert [row["suppressed"] for row in told(item)[0]] == ["maintenance"]


def test_a_rule_that_people_found_wrong_too_often_names_nothing() -> None:
    said = {"entity": "host:h9", "rule": "cpu-throttled", "mark": "wrong", "actor": "operator:x/eve", "reason": ""}
    marks = [{**said, "incident": f"i{n}", "time_ns": at(n - 60)} for n in range(6)]
    item = case(symptom=[symptom(LATE)], anomaly=[anomaly("host:h3", THROTTLED)], mark=marks)
    _, causes = told(item)
    assert not any(row["chosen"] and row["rule"] == "cpu-throttled" for row in causes)
    assert any("wrong too often" in row["text"] for row in causes)


def two_tenants(**more: Any) -> Case:
    """bert-1 of ana and moe-2 of bo, both slowed by host:h2."""
    rows = [
        symptom(blame("rank:bert-1/1", "straggler")),
        symptom(blame("rank:moe-2/0", "straggler"), job="moe-2", start_s=-15),
    ]
    return case(**{"symptom": rows, "anomaly": [anomaly("host:h2", THROTTLED)], **more})


def by_tenant(rows: list[Row], name: str) -> dict[str, Any]:
    return {row["tenant"]: row[name] for row in rows}


def said_wrong(tenant: str, actor: str) -> list[Row]:
    one = {"entity": "host:h9", "rule": "cpu-throttled", "mark": "wrong", "reason": "", "tenant": tenant}
    return [{**one, "incident": f"i{n}", "time_ns": at(n - 60), "actor": actor} for n in range(6)]


def test_one_tenants_marks_silence_no_rule_for_another_and_an_operators_do() -> None:
    incidents, causes = told(two_tenants(mark=said_wrong("bo", "tenant-write:bo/eve")))
    assert by_tenant(incidents, "verdict") == {"ana": "known", "bo": "unknown"}
    assert {row["tenant"] for row in causes if row["chosen"]} == {"ana"}
    incidents, _ = told(two_tenants(mark=said_wrong("bo", "operator:default/pat")))
    assert set(by_tenant(incidents, "verdict").values()) == {"unknown"}


def test_one_tenants_dismissal_leaves_the_others_alert() -> None:
    (name,) = {row["incident"] for row in told(two_tenants())[0]}
    one = {"incident": name, "entity": "job:moe-2", "rule": "", "mark": "dismissed", "reason": "x", "time_ns": at(-1)}
    incidents, _ = told(two_tenants(mark=[{**one, "tenant": "bo", "actor": "tenant-write:bo"}]))
    assert by_tenant(incidents, "suppressed") == {"ana": None, "bo": "dismissed"}
    incidents, _ = told(two_tenants(mark=[{**one, "tenant": "bo", "actor": "operator:default"}]))
    assert by_tenant(incidents, "suppressed") == {"ana": "dismissed", "bo": "dismissed"}


def test_one_tenants_order_leaves_the_others_alert() -> None:
    incidents, _ = told(two_tenants(event=[event("host:h2", "maintenance", -60, tenant="bo")]))
    assert by_tenant(incidents, "suppressed") == {"ana": None, "bo": "maintenance"}
    incidents, _ = told(two_tenants(event=[event("host:h2", "maintenance", -60)]))  # of the provider
    assert by_tenant(incidents, "suppressed") == {"ana": "maintenance", "bo": "maintenance"}
    incidents, _ = told(two_tenants(event=[event("job:moe-2", "preemption", -60)]))
    assert by_tenant(incidents, "suppressed") == {"ana": None, "bo": "preemption"}


def test_incidents_of_several_jobs_whose_cause_is_no_longer_known_are_still_one() -> None:
    first, causes = told(two_tenants())
    for row in causes:
        row["evidence"] = "[]"  # it is remembered no more
    again, _ = told(two_tenants(anomaly=[], incident=first, cause=causes))
    assert sorted(row["tenant"] for row in again) == ["ana", "bo"]
    assert {row["incident"] for row in again} == {first[0]["incident"]}


def test_what_another_tenants_log_says_stays_with_it() -> None:
    oom = event("host:h2", "oom-kill", message="Killed secret-model of bo", tenant="bo")
    died = symptom(blame("rank:bert-1/1", "died", how="decision:1"), kind="crash")
    item = case(symptom=[died], event=[oom])
    assert ("host:h2", "oom-kill") in named(item), "it counts as evidence"
    assert "secret-model" not in json.dumps(told(item))
    for tenant in ("ana", "provider"):
        assert "secret-model" in json.dumps(told(case(symptom=[died], event=[{**oom, "tenant": tenant}])))


def test_an_oom_kill_of_minutes_ago_is_not_why_a_rank_died_now() -> None:
    """What the kernel logged before its agent started may be of any other program."""
    died = symptom(blame("rank:bert-1/1", "died", how="decision:1"), kind="crash")
    for before_s, is_named in ((5, True), (240, False)):
        first_ns = died["start_ns"] - before_s * S
        oom = {**event("host:h2", "oom-kill"), "time_ns": first_ns}
        assert (("host:h2", "oom-kill") in named(case(symptom=[died], event=[oom]))) == is_named, before_s


def test_of_other_tenants_not_even_the_names_of_jobs_are_told() -> None:
    """The sole tenant that suffers is the window's, and no provider for that."""
    paths, volumes = flows(RING)
    others = [
        volume(host_link(3), 5e9, -10.0, "moe-2", tenant="bo"),
        volume(host_link(3), 5e9, 0.0, "moe-2", tenant="bo"),
    ]
    edge = blame("rank:bert-1/1>rank:bert-1/2", "communication")
    item = case(symptom=[symptom(edge)], flow_path=paths, flow_volume=[*volumes, *others],
                anomaly=[anomaly("swport:leaf2/E3", "node_qdisc_drops_total")])  # fmt: skip
    item = replace(item, window=replace(item.window, tenant="ana"))
    incidents, causes = told(item)
    assert any(row["rule"] == "congestion" for row in causes)
    assert "moe-2" not in json.dumps([incidents, causes])
    for each in others:
        each["tenant"] = "ana"
    item = case(symptom=[symptom(edge)], flow_path=paths, flow_volume=[*volumes, *others])
    assert named(item) == [("job:moe-2", "congesting-job")]


def test_parts_of_the_score_add_up_to_its_logit() -> None:
    _, causes = told(throttled_host())
    assert all(set(json.loads(row["score"])) >= {"prior", "blame"} for row in causes)


def test_an_incident_that_is_over_is_told_as_over() -> None:
    incidents, _ = told(case(symptom=[symptom(LATE, end_s=-5)]))
    assert [(row["state"], row["end_ns"] is not None) for row in incidents] == [("over", True)]


def test_an_open_symptom_that_nobody_tells_any_more_is_over() -> None:
    stale = symptom(LATE, start_s=-100)
    stale["seen_ns"] = stale["start_ns"] + 20 * 10**9
    assert told(case(symptom=[stale])) == ([], [])


def test_a_switch_whose_links_are_down_is_named_instead_of_them() -> None:
    """And a link of it that is down alone is named itself."""
    paths, volumes = flows(RING)
    edges = blame("rank:bert-1/1>rank:bert-1/2", "communication")
    ports = ["swport:spine1/E1", "swport:spine1/E2", "swport:leaf1/U1", "swport:leaf2/U1"]
    down = [anomaly(port, "node_network_up", direction="low") for port in ports]
    whole = case(symptom=[symptom(edges)], flow_path=paths, flow_volume=volumes, anomaly=down)
    assert named(whole) == [("switch:spine1", "switch-down")]
    one = case(symptom=[symptom(edges)], flow_path=paths, flow_volume=volumes, anomaly=[down[0], down[2]])
    assert named(one) == [(UPLINK_1, "link-down")]


def begun_again(versions: tuple[str, str]) -> Case:
    """All ranks compute longer since a job of an old name began again; each tells what it runs."""
    ranks = [f"rank:bert-1/{rank}" for rank in range(4)]
    blamed = [blame("job:bert-1", "compute")]
    events = [
        event(rank, kind, seconds, message=f"{kind} {versions[seconds > -100] if kind == 'software-version' else ''}")
        for seconds in (-300, -25)
        for rank in ranks
        for kind in ("run-info", "software-version")
    ]
    return case(symptom=[symptom(*blamed)], event=events)


def test_what_a_job_tells_when_it_begins_again_is_a_change_only_if_it_is_another() -> None:
    assert named(begun_again(("torch 2.13", "torch 2.13"))) == []
    assert named(begun_again(("torch 2.12", "torch 2.13"))) == [("job:bert-1", "new-software")]
