"""Which link or switch loses packets that nobody counts: on a small fabric, with noise, ties and counter-evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.builders.fabrics import T0, S
from tests.builders.lossy_links import (
    FLOWS,
    LEAF1_SPINE1,
    SPINE1_LEAF2,
    WINDOW,
    Site,
    blackhole,
    edge,
    lossy_link,
    rows_of,
)
from tests.common.analysis_laws import given

from leadline.analysis.cause.evidence import pieces_of
from leadline.analysis.localise.localise import localise
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table


def judged(site: Site, earlier: list[Mapping[str, object]] | None = None) -> list[dict[str, Any]]:
    tables = site.tables(earlier or ())
    told = localise(*(given(read, tables, WINDOW) for read in localise.reads), window=WINDOW)["suspect"]
    rows = [dict(zip(told, row, strict=True)) for row in zip(*told.values(), strict=True)]
    return sorted(rows, key=lambda row: -row["probability"])


@pytest.mark.parametrize("loss", [0.005, 0.03, 0.2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_link_that_loses_is_the_one_that_the_suffering_flows_share(loss: float, seed: int) -> None:
    first, *rest = judged(lossy_link(loss=loss, seed=seed))
    # Whatever crosses spine 1 between the leaves crosses both of its links: by flows alone they are alike.
    assert {first["entity"], *first["others"]} == {SPINE1_LEAF2, LEAF1_SPINE1}
    assert first["kind"] == "loss"
    assert first["probability"] == pytest.approx(0.5, abs=0.03)
    assert {row["entity"] for row in rest} <= {SPINE1_LEAF2, LEAF1_SPINE1}
    assert T0 - 6 * S <= first["start_ns"] <= T0 - 4 * S


def test_what_vanishes_in_a_switch_says_which_of_two_that_flows_cannot_tell_apart() -> None:
    first, *_ = judged(lossy_link(vanishes={"leaf2": 400.0}))
    assert (first["entity"], first["others"]) == (SPINE1_LEAF2, [])
    assert first["probability"] > 0.9
    texts = [each["text"] for each in json.loads(first["evidence"])]
    assert texts[0].endswith("packets)")
    assert "leaf2: 400 of 20000 packets that came in neither left nor were counted as dropped" in texts


def test_one_way_is_enough() -> None:
    hit = {flow: 0.05 for flow in FLOWS if flow.goes(edge(3), "h3")}
    first, *_ = judged(Site(loses=hit))
    assert first["entity"] == edge(3)
    assert first["probability"] > 0.9


@pytest.mark.parametrize("calm", [0.0, 0.02, 0.2, 0.8])
def test_flows_that_suffer_alike_name_nobody(calm: float) -> None:
    found = judged(Site(calm=calm, seed=7))
    assert [row for row in found if row["probability"] >= 0.6] == []


def test_a_blackhole_is_told_by_flows_that_get_nothing_through() -> None:
    first, *_ = judged(blackhole())
    assert (first["entity"], first["kind"]) == ("switch:spine1", "blackhole")
    assert first["probability"] > 0.6
    assert "got nothing through" in json.loads(first["evidence"])[0]["text"]


def test_flows_that_nobody_knows_the_path_of_are_neither_for_nor_against_anybody() -> None:
    tables = lossy_link().tables()
    tables["path_hop"] = tables["path_hop"].slice(0, 0)
    told = localise(*(given(read, tables, WINDOW) for read in localise.reads), window=WINDOW)["suspect"]
    assert len(told["entity"]) == 0


def test_what_ports_count_as_dropped_is_no_silent_loss() -> None:
    site = lossy_link(vanishes={"leaf2": 400.0}, drops={"swport:leaf2/Up1": 900.0})
    assert judged(site)[0]["kind"] == "queue"
    assert judged(lossy_link(vanishes={"leaf2": 400.0}))[0]["kind"] == "loss"


def test_what_one_port_counts_is_no_silent_loss_of_the_links_before_and_after_it() -> None:
    silent = {row["entity"] for row in judged(lossy_link())}
    counted = judged(lossy_link(drops={"swport:leaf2/Up1": 900.0}))
    assert SPINE1_LEAF2 in silent
    assert [row for row in counted if row["kind"] == "loss"] == []


def test_where_flows_wait_longer_it_is_a_queue_that_drops() -> None:
    waits = [flow for flow in FLOWS if SPINE1_LEAF2 in flow.links]
    assert {row["kind"] for row in judged(lossy_link(waits=waits))} == {"queue"}


def test_a_suspect_keeps_its_begin_and_ends_when_nobody_says_so_any_more() -> None:
    first = judged(lossy_link(vanishes={"leaf2": 400.0}))[0]
    before = {**first, "seen_ns": T0, "start_ns": T0 - 20 * S, "tenant": "provider", "cluster": "default"}
    again = judged(lossy_link(vanishes={"leaf2": 400.0}), [before])[0]
    assert (again["start_ns"], again["end_ns"], again["seen_ns"]) == (T0 - 20 * S, None, T0 + 5 * S)
    (over,) = judged(Site(calm=0.0), [before])
    assert (over["start_ns"], over["end_ns"]) == (T0 - 20 * S, T0)


def test_a_suspect_is_evidence_by_how_sure_it_is() -> None:
    rows = judged(lossy_link())[:1] + judged(lossy_link(vanishes={"leaf2": 400.0}))[:1]
    zero = {"tenant": "provider", "cluster": "default", "analysis": "localise", "version": 1, "revision": 0}
    table = BY_NAME["suspect"]
    suspects = arrow_table(
        table, {each.name: [row.get(each.name, zero.get(each.name)) for row in rows] for each in table.columns}
    )
    names = ("anomaly", "event", "failure", "conflict", "sle_loss")
    none = [arrow_table(BY_NAME[name], {each.name: [] for each in BY_NAME[name].columns}) for name in names]
    found = pieces_of(*none, suspects, WINDOW.to_ns, lambda table, what: True, frozenset())
    assert sorted(piece.face.what for piece in found) == ["loss", "loss-perhaps"]
    assert all("lost packets" in piece.text for piece in found)


def test_who_does_not_count_what_is_acknowledged_is_not_taken_to_wait() -> None:
    tables = blackhole().tables()
    rows = [{**row, "acked_bytes": None, "needless": None} for row in tables["flow_sent"].to_pylist()]
    tables["flow_sent"] = rows_of(BY_NAME["flow_sent"], rows)
    told = localise(*(given(read, tables, WINDOW) for read in localise.reads), window=WINDOW)["suspect"]
    assert "blackhole" not in told["kind"]
