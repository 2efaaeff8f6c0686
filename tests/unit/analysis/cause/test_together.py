"""What belongs together: deaths that came at once, places at the time of the blame, parts that broke alike, jobs that
began to suffer at one time."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from tests.builders.causes import (
    RING,
    Row,
    anomaly,
    at,
    blame,
    case,
    event,
    flows,
    host_link,
    named,
    relations,
    symptom,
    told,
)
from tests.builders.fabrics import STARTED
from tests.builders.failures import rows_of
from tests.common.analysis_laws import Case

from leadline.model.ids import link_id

CRASH_S = -20.0


def crash(*ranks: int, start_s: float = CRASH_S) -> Row:
    died = [blame(f"rank:bert-1/{rank}", "died", 10.0, "decision:1", start_s) for rank in ranks]
    return symptom(*died, kind="crash", start_s=start_s)


def exits(*ranks: int, seconds: float = CRASH_S) -> list[Row]:
    return [event(f"rank:bert-1/{rank}", "process-exit", seconds, code="exit/1") for rank in ranks]


def with_relations(item: Case, *more: dict[str, Any]) -> Case:
    rows = [{"tenant": "ana", "source": "test", "to_ns": None, **each} for each in more]
    relation = pa.concat_tables([relations(), rows_of("relation", rows)], promote_options="permissive")
    return Case({**item.tables, "relation": relation}, item.window)


def first(item: Case) -> tuple[str, str, bool]:
    _, causes = told(item)
    row = min(causes, key=lambda each: each["position"])
    return row["entity"], row["rule"], bool(row["chosen"])


# --- deaths at once -----------------------------------------------------------------------------------------------


def test_a_link_that_failed_explains_the_deaths_of_ranks_elsewhere_too() -> None:
    down = [event("port:h3/eth0", "link-down", CRASH_S), anomaly("swport:leaf2/E3", "node_network_up", "low")]
    item = case(symptom=[crash(0, 1, 2, 3)], event=[*exits(0, 1, 2, 3), down[0]], anomaly=down[1:])
    assert named(item) == [(host_link(3), "link-down")]


def test_ranks_that_ended_with_an_error_explain_no_death_but_their_own() -> None:
    item = case(symptom=[crash(0, 1)], event=exits(0, 1))
    assert named(item) == [("rank:bert-1/0", "program-failed"), ("rank:bert-1/1", "program-failed")]


def test_a_link_that_nobody_who_died_stands_on_explains_nothing() -> None:
    item = case(symptom=[crash(0, 1)], event=[*exits(0, 1), event("port:h5/eth0", "link-down", CRASH_S)])
    assert (host_link(5), "link-down") not in named(item)


# --- where a rank was ---------------------------------------------------------------------------------------------


def moved(at_s: float) -> dict[str, Any]:
    return {"child": "rank:bert-1/2", "parent": "host:h5", "kind": "runs-on", "from_ns": at(at_s)}


def test_a_rank_that_began_again_elsewhere_died_where_it_was() -> None:
    item = case(symptom=[crash(2)], event=[*exits(2), event("port:h3/eth0", "link-down", CRASH_S)],
                anomaly=[anomaly("swport:leaf2/E3", "node_network_up", "low")])  # fmt: skip
    assert named(with_relations(item, moved(-5))) == [(host_link(3), "link-down")]


def test_a_rank_that_moved_before_it_died_died_where_it_had_come() -> None:
    item = case(symptom=[crash(2)], event=[*exits(2), event("port:h3/eth0", "link-down", CRASH_S)],
                anomaly=[anomaly("swport:leaf2/E3", "node_network_up", "low")])  # fmt: skip
    assert (host_link(3), "link-down") not in named(with_relations(item, moved(-300)))


# --- broken alike -------------------------------------------------------------------------------------------------


def dead(switch: str) -> Row:
    piece = {
        "table": "edge_fit",
        "entity": switch,
        "what": "lost",
        "time_ns": at(-22),
        "bound_ns": None,
        "text": "dark",
    }
    return {"entity": switch, "kind": "dead", "probability": 1.0, "start_ns": at(-22), "end_ns": None, "others": [],
            "seen_ns": at(0), "evidence": json.dumps([piece]), "tenant": "provider"}  # fmt: skip


def spines() -> list[dict[str, Any]]:
    pairs = [(f"swport:{leaf}/U2", f"swport:spine2/E{n}", "linked") for n, leaf in ((1, "leaf1"), (2, "leaf2"))]
    pairs += [(f"swport:{leaf}/U2", f"switch:{leaf}", "in") for leaf in ("leaf1", "leaf2")]
    pairs += [(f"swport:spine2/E{n}", "switch:spine2", "in") for n in (1, 2)]
    return [{"child": child, "parent": parent, "kind": kind, "from_ns": STARTED} for child, parent, kind in pairs]


def test_two_switches_each_proven_dead_are_both_named() -> None:
    stalled = symptom(kind="stall", lost_gpu_seconds=80.0)
    second = " ".join(link_id(f"swport:{leaf}/U2", f"swport:spine2/E{n}") for n, leaf in ((1, "leaf1"), (2, "leaf2")))
    paths, volumes = flows([*RING, (0, 2, f"{host_link(1)} {second} {host_link(3)}")])
    item = case(symptom=[stalled], suspect=[dead("switch:spine1"), dead("switch:spine2")], flow_path=paths,
                flow_volume=volumes)  # fmt: skip
    assert {*named(with_relations(item, *spines()))} == {
        ("switch:spine1", "switch-down"), ("switch:spine2", "switch-down")}  # fmt: skip


# --- jobs at one time ---------------------------------------------------------------------------------------------


def waiting(job: str, start_s: float) -> Row:
    return symptom(blame(f"job:{job}", "input", 10.0, "steps", start_s), job=job, start_s=start_s)


def test_storage_is_named_where_two_jobs_begin_to_wait_for_data_at_one_time() -> None:
    alone = case(symptom=[waiting("bert-1", -20)])
    assert first(alone)[:2] == ("storage:nas1", "slow-storage")
    together = case(symptom=[waiting("bert-1", -20), waiting("moe-2", -17)])
    assert set(named(together)) == {("storage:nas1", "slow-storage")}
    incidents, causes = told(together)
    assert {row["incident"] for row in incidents} == {causes[0]["incident"]}, "one incident of both jobs"
    alone_p = told(alone)[1][0]["probability"]
    assert causes[0]["probability"] > alone_p + 0.05


def test_jobs_that_begin_to_wait_minutes_apart_say_no_more_than_each() -> None:
    _, causes = told(case(symptom=[waiting("bert-1", -20), waiting("moe-2", -90)]))
    assert {row["entity"] for row in causes if row["position"] == 1} == {"storage:nas1"}
    assert not any("jobs" in json.loads(row["score"]) for row in causes)
