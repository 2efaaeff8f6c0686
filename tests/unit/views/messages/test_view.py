"""The messages of a job, from what the analysis says of hand-made transfers, in a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.fabrics import S
from tests.builders.incident import Names, rows_of
from tests.builders.messages import JOB, WINDOW, Transfer, collective_rows, ends_table, ring, ring_job, rows_table
from tests.builders.stores import opened_store
from tests.common.analysis_laws import judged

from leadline.analysis.messages.messages import messages
from leadline.analysis.spec import Window
from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.model.tables.paths import ECMP_GROUP
from leadline.runner.worker import finished
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.messages.collisions import collisions
from leadline.views.messages.types import MessagesAnswer
from leadline.views.messages.view import messages_answer, span_of

END = WINDOW.to_ns
ACME = Principal("acme", "default", Role.TENANT_READ)
LATER = Window(WINDOW.to_ns, WINDOW.to_ns + 10 * S, job=JOB)


def store_verdicts(store: Store, tables: dict[str, pa.Table], window: Window) -> None:
    """Judge a window and store what comes of it."""
    for name, rows in finished(messages, window, judged(messages, tables, window)).tables.items():
        store.append(BY_NAME[name], rows)


def group(flows: list[int], **more: Any) -> dict[str, Any]:
    """A row of `ecmp_group` whose busiest link these flows fill."""
    return {
        "tenant": "default", "cluster": "default", "analysis": "path", "version": 1, "revision": 0,
        "switch": "switch:leaf1", "group": "Ethernet1,Ethernet2", "end_ns": END, "window_ns": 10 * S,
        "busiest": "link:leaf1/Ethernet1~spine1/Ethernet1", "busiest_bytes": 9e9,
        "colliding": [f"flow:{flow:032x}" for flow in flows], "jobs": [JOB, "other-1"], **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened_store(tmp_path_factory.mktemp("messages")) as opened:
        tables = ring_job()
        store_verdicts(opened, tables, WINDOW)
        again = ring(4, 2, WINDOW.to_ns + S, 3, slow=(0,))
        more = {
            "message_end": ends_table([*again, Transfer(0, 2, END + S, END + S + 5, END + S, END + S + 9, seq=3)]),
            "collective": rows_table("collective", collective_rows(again, [WINDOW.to_ns + S] * 4)),
            "relation": tables["relation"],
        }
        store_verdicts(opened, more, LATER)
        store_verdicts(opened, tables, replace(WINDOW, tenant="beta", cluster="second"))
        store_verdicts(opened, tables, replace(WINDOW, tenant="acme", cluster="second"))
        groups = [
            group([0xB1, 0xC2, 0xC3]), group([0xC9, 0xB1], busiest_bytes=1e9, group="Ethernet3"),
            group([], switch="switch:leaf2"), group([0xD1, 0xC2], end_ns=END - 10 * S),
            group([0xD2, 0xC2], tenant="beta"),
        ]  # fmt: skip
        opened.append(ECMP_GROUP, rows_of(ECMP_GROUP, groups, Names()))
        yield opened


def asked(at_ns: int = END, cluster: str = "default", principal: Principal = Principal()) -> Asked:
    return Asked(principal, cluster, at_ns)


def test_edges_come_in_the_order_of_the_ring_with_their_share(store: Store) -> None:
    found = messages_answer(store, asked(), JOB)
    MessagesAnswer.model_validate(found)
    assert (found["end_ns"], found["window_ns"], found["communicators_total"], found["why"]) == (END, 10 * S, 1, "")
    comm = found["communicators"][0]
    assert comm["channels"] == [{"channel": 0, "shape": "ring", "order": [0, 1, 2, 3], "edges": 4, "around_ns": None}]
    assert [(edge["src_rank"], edge["dst_rank"]) for edge in comm["edges"]] == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert comm["collectives_s"] == pytest.approx(0.036)  # six steps of 5 ms, and six of 1 ms
    slow = comm["edges"][2]
    assert slow["share"] > 0.8
    assert slow["held_s"] <= comm["held_s"] <= comm["collectives_s"]
    assert (comm["messages"], comm["unpaired"], comm["conflicting"], comm["ranks"]) == (49, 1, 2, 4)


def test_flows_are_told_with_their_ambiguity_and_clocks_as_not_fitted(store: Store) -> None:
    edges = messages_answer(store, asked(), JOB)["communicators"][0]["edges"]
    assert [(edge["flow"], edge["flows"]) for edge in edges] == [(None, 2), (f"{0xB1:032x}", 1), (None, 0), (None, 0)]
    assert {edge["delay_p50_ns"] for edge in edges} == {edge["bound_ns"] for edge in edges} == {None}
    assert edges[2]["transfer_p99_ns"] == 5_000_000


def test_flows_that_collide_are_named_by_the_fullest_link(store: Store) -> None:
    edges = messages_answer(store, asked(), JOB)["communicators"][0]["edges"]
    told = {(edge["src_rank"], edge["dst_rank"]): edge["collision"] for edge in edges}
    assert told.pop((1, 2)) == {
        "flow": f"{0xB1:032x}", "link": "link:leaf1/Ethernet1~spine1/Ethernet1", "jobs": [JOB, "other-1"],
        "flows": [f"{0xC2:032x}", f"{0xC3:032x}"],
    }  # fmt: skip
    assert set(told.values()) == {None}


@pytest.mark.parametrize(("flow", "principal"), [
    (0xD0, Principal()),  # fills no link
    (0xD1, Principal()),  # did so in the window before
    (0xD2, ACME),  # of another tenant
])  # fmt: skip
def test_flows_that_collide_with_nobody(store: Store, flow: int, principal: Principal) -> None:
    assert collisions(store, asked(principal=principal), END - 10 * S, [f"{flow:032x}"]) == {}
    assert collisions(store, asked(), END - 10 * S, []) == {}


def test_a_longer_window_adds_up_those_that_end_in_it(store: Store) -> None:
    one, other = (messages_answer(store, asked(at), JOB)["communicators"] for at in (END, END + 10 * S))
    both = messages_answer(store, asked(END + 10 * S), JOB, "20s")
    assert (both["end_ns"], both["window_ns"]) == (END + 10 * S, 20 * S)
    comm = both["communicators"][0]
    assert comm["messages"] == one[0]["messages"] + other[0]["messages"]
    assert comm["collectives_s"] == pytest.approx(one[0]["collectives_s"] + other[0]["collectives_s"])
    slow = {(edge["src_rank"], edge["dst_rank"]): edge for edge in comm["edges"]}
    assert slow[2, 3]["transfer_p99_ns"] == 5_000_000
    assert slow[2, 3]["transfer_p50_ns"] == 1_000_000
    assert comm["channels"][0]["shape"] == "other"  # 0 sends to 1 and to 2


def test_the_newest_window_is_told_and_that_it_is_old(store: Store) -> None:
    found = messages_answer(store, asked(END + 600 * S), JOB)
    assert found["end_ns"] == END + 10 * S
    assert "no later messages" in found["note"]
    assert messages_answer(store, asked(END + 11 * S), JOB)["note"] == ""


def test_a_job_without_messages_is_told_why(store: Store) -> None:
    assert "no message of gone-9 was ever analysed" in messages_answer(store, asked(), "job:gone-9")["why"]
    assert messages_answer(store, asked(END - 1), JOB)["communicators"] == []


def test_another_tenants_job_of_the_same_name_is_not_added(store: Store) -> None:
    found = messages_answer(store, asked(cluster="second"), JOB)
    assert found["communicators"][0]["messages"] == 49
    assert "also run by beta" in found["note"]
    theirs = messages_answer(store, asked(cluster="second", principal=ACME), JOB)
    assert (theirs["communicators"][0]["messages"], theirs["note"]) == (49, "")
    assert messages_answer(store, asked(principal=ACME), JOB)["communicators"] == []


@pytest.mark.parametrize(("text", "span_ns"), [("", 0), ("60s", 60 * S), ("5m", 300 * S), ("1h", 3600 * S)])
def test_lengths_of_time(text: str, span_ns: int) -> None:
    assert span_of(text) == span_ns


@pytest.mark.parametrize("text", ["0s", "2h", "60", "-5m", "1.5s", "5 m", "s", "9" * 99 + "s"])
def test_a_length_that_is_none_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(UsageError, match="such as 60s or 5m"):
        span_of(text)
