"""From rows of the mesh to suspects: which link or host, told once, with what all others show beside it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.lossy_links import SPINE1_LEAF2, WINDOW, edge, lossy_link
from tests.builders.probed_links import Probed, Route, links_of, relations, up
from tests.common.analysis_laws import judged

from leadline.analysis import ANALYSES
from leadline.analysis.localise.mesh_routes import routes_of, traces_of, wiring_of
from leadline.model.ids import EntityId
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_schema

(LOCALISE,) = (item for item in ANALYSES if item.name == "localise")
EDGE3 = edge(3)


def suspects(tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    told = judged(LOCALISE, tables, WINDOW)["suspect"]
    return [dict(zip(told, row, strict=True)) for row in zip(*told.values(), strict=True)]


def text(row: dict[str, Any]) -> str:
    return str(json.loads(row["evidence"])[0]["text"])


@pytest.mark.parametrize("towards", ["spine1", "leaf1"])
def test_a_link_that_loses_is_named_with_what_others_lose(towards: str) -> None:
    link = up(1, 1)
    (row,) = suspects(Probed(loses={(link, towards): 0.03}, since_s=-5).tables())
    assert (row["kind"], row["end_ns"]) == ("loss", None)
    assert {row["entity"], *row["others"]} == {up(1, 1), up(2, 1)}  # whatever crosses one, crosses the other
    assert row["probability"] > 0.9
    assert abs(row["start_ns"] - (T0 - 5 * S)) <= 2 * S
    assert "across all others 0.000%" in text(row)
    share = float(text(row).split(" lose ")[1].partition("%")[0])
    assert share == pytest.approx(3.0, abs=0.7)


def test_a_bad_cable_of_a_host_is_told_with_what_it_cannot_be_told_from() -> None:
    (row,) = suspects(Probed(loses={(EDGE3, "h3"): 0.05, (EDGE3, "leaf1"): 0.05}).tables())
    assert row["entity"] == EDGE3
    assert set(row["others"]) == {"host:h3", "port:h3/eth0"}


def test_without_traces_the_ends_are_known_and_the_middle_is_not_guessed() -> None:
    (row,) = suspects(Probed(loses={(EDGE3, "h3"): 0.05, (EDGE3, "leaf1"): 0.05}, traced=False).tables())
    assert row["entity"] == EDGE3
    for row in suspects(Probed(loses={(up(1, 1), "spine1"): 0.03}, traced=False).tables()):
        assert not row["entity"].startswith("switch:")


def test_without_any_wiring_the_host_is_named() -> None:
    tables = Probed(loses={(EDGE3, "h3"): 0.05, (EDGE3, "leaf1"): 0.05}).tables()
    tables["relation"] = arrow_schema(BY_NAME["relation"]).empty_table()
    (row,) = suspects(tables)
    assert row["entity"] == "host:h3"


def test_a_link_that_is_slow_is_named_by_its_queue() -> None:
    (row,) = suspects(Probed(waits_ns={(up(2, 1), "leaf2"): 40_000}).tables())
    assert row["kind"] == "queue"
    assert {row["entity"], *row["others"]} == {up(1, 1), up(2, 1)}
    assert "wait 40.0 us longer than others" in text(row)


def test_a_link_that_is_full_for_a_part_of_the_time_is_named_by_the_probes_that_met_it() -> None:
    (row,) = suspects(Probed(tails_ns={(up(2, 1), "leaf2"): 90_000}, noise_ns=10_000).tables())
    assert row["kind"] == "queue"
    assert {row["entity"], *row["others"]} == {up(1, 1), up(2, 1)}
    assert "have a slowest hundredth that waits" in text(row)


@pytest.mark.parametrize("dead", [up(1, 2), EDGE3])
def test_what_lets_nothing_through_is_dead_since_then(dead: str) -> None:
    (row,) = suspects(Probed(dead=(dead,), since_s=2).tables())
    assert row["kind"] == "dead"
    assert dead in (row["entity"], *row["others"])
    assert abs(row["start_ns"] - (T0 + 2 * S)) <= S


def test_a_host_whose_prober_has_not_begun_is_neither_dead_nor_lossy() -> None:
    assert suspects(Probed(unheard="h3").tables()) == []


def test_a_whole_spine_is_told_from_its_links() -> None:
    (row,) = suspects(Probed(dead=(up(1, 1), up(2, 1)), since_s=2).tables())
    assert row["kind"] == "dead"
    assert "switch:spine1" in (row["entity"], *row["others"])


def test_a_host_that_stands_still_is_told_from_a_slow_network() -> None:
    (row,) = suspects(Probed(stalls={"h5": 40_000_000}).tables())
    assert (row["entity"], row["kind"]) == ("host:h5", "host-stall")
    assert "40.0 ms after the kernel" in text(row)


def test_of_a_host_that_heard_nothing_in_time_no_waiting_in_the_network_is_told() -> None:
    tables = Probed(stalls={"h5": 40_000_000}).tables()
    fits = tables["edge_fit"]
    place = fits.schema.get_field_index("back_queue_ns")
    tables["edge_fit"] = fits.set_column(place, fits.schema.field(place), pa.nulls(fits.num_rows, pa.int64()))
    (row,) = suspects(tables)
    assert (row["entity"], row["kind"]) == ("host:h5", "host-stall")
    assert "they are not known to have waited in the network" in text(row)


@pytest.mark.parametrize("site", [
    Probed(), Probed(loss=0.002), Probed(loss=0.01, traced=False), Probed(noise_ns=300_000),
    Probed(tails_ns={(up(2, 1), "leaf2"): 15_000}),
])  # fmt: skip
def test_where_nothing_stands_out_nobody_is_named(site: Probed) -> None:
    assert suspects(site.tables()) == []


def test_what_lost_long_ago_is_over() -> None:
    assert suspects(Probed(loses={(up(1, 1), "spine1"): 0.05}, since_s=-35, until_s=-15, seconds=55).tables()) == []


def test_what_flows_and_probes_say_is_one_row() -> None:
    flows = lossy_link(vanishes={"leaf2": 400.0}).tables()
    alone = [row for row in suspects(flows) if row["entity"] == SPINE1_LEAF2]
    both = suspects({**flows, **Probed(loses={(SPINE1_LEAF2, "spine1"): 0.05, (SPINE1_LEAF2, "leaf2"): 0.05}).tables()})
    (row,) = (row for row in both if row["entity"] == SPINE1_LEAF2)
    assert row["probability"] >= alone[0]["probability"]
    assert len(json.loads(row["evidence"])) > len(json.loads(alone[0]["evidence"]))


WAY = ("h1", "h6", 8447, 0)


def route_of(answers: tuple[str, ...] | None) -> set[tuple[str, bool]]:
    """Links of `WAY` when so many answered, each with whether it was crossed to its second end."""
    hops = [("h1", "h6", 8447, 0, T0, hop, address or None) for hop, address in enumerate(answers or ())]
    columns = ("src", "dst", "src_port", "class", "time_ns", "hop", "address")
    rows = pa.table(
        [pa.array([row[at] for row in hops], pa.int64() if 2 <= at <= 5 else pa.string()) for at in range(7)], columns
    )
    found = routes_of([WAY], traces_of(rows, {WAY: 0}), wiring_of(arrow_table_of(relations())))
    count = len(found.links)
    return {(found.links[each % count], each < count) for each in found.link_PX[0].tolist() if each >= 0}


def crossed(links: Route) -> set[tuple[str, bool]]:
    return {(link, EntityId.of(link).ends[1].partition("/")[0] == node) for link, node in links}


def test_a_trace_names_the_links_of_a_way() -> None:
    tables = Probed().tables()
    hops = sorted(
        (row["hop"], row["address"])
        for row in tables["probe_hop"].to_pylist()
        if (row["src"], row["dst"], row["src_port"]) == WAY[:3]
    )
    answers = tuple(address for _, address in hops)
    links = links_of(*WAY[:3])
    assert route_of(answers) == crossed(links)
    assert route_of(("", answers[1], "10.0.0.99")) == crossed(links[1:2])
    assert route_of(None) == crossed((links[0], links[-1]))


def hops_of(*traces: tuple[int, str]) -> pa.Table:
    """Traces of `WAY`, each at a second; a letter for each hop, `-` where nobody answers."""
    rows = [
        (*WAY, at * S, hop, None if name == "-" else name) for at, names in traces for hop, name in enumerate(names)
    ]
    types = [pa.string()] * 2 + [pa.int64()] * 4 + [pa.string()]
    columns = ("src", "dst", "src_port", "class", "time_ns", "hop", "address")
    return pa.table([pa.array([row[at] for row in rows], each) for at, each in enumerate(types)], columns)


@pytest.mark.parametrize(
    ("traces", "versions"),
    [
        ([], []),
        ([(1, "abc"), (9, "abc")], [(1, 9, "abc")]),
        ([(1, "a-c"), (9, "abc"), (12, "--c")], [(1, 12, "abc")]),
        ([(1, "abc"), (5, "---"), (9, "abc")], [(1, 9, "abc")]),
        ([(1, "abc"), (9, "adc"), (12, "abc")], [(1, 1, "abc"), (9, 9, "adc"), (12, 12, "abc")]),
        ([(1, "abc"), (9, "abcd")], [(1, 1, "abc"), (9, 9, "abcd")]),
        ([(1, "abc"), (5, "a-c"), (9, "adc")], [(1, 5, "abc"), (9, 9, "adc")]),
    ],
)
def test_traces_that_agree_are_one_version_of_a_way(
    traces: list[tuple[int, str]], versions: list[tuple[int, int, str]]
) -> None:
    found = traces_of(hops_of(*traces), {WAY: 0})
    names = [
        "".join(found.addresses[each] or "-" for each in row[:hops].tolist())
        for row, hops in zip(found.answer_VX, found.hops_V.tolist(), strict=True)
    ]
    assert list(zip((found.since_V // S).tolist(), (found.until_V // S).tolist(), names, strict=True)) == versions


def test_a_time_belongs_to_the_path_of_then_also_beside_ways_that_nobody_traced() -> None:
    second, other = T0 // S, ("h2", "h6", 8447, 0)
    traced = traces_of(hops_of((second + 1, "abc"), (second + 9, "adc")), {WAY: 0, other: 1})
    routes = routes_of([WAY, other], traced, wiring_of(arrow_table_of(relations())))
    ways, times = np.array([0, 0, 0, 0, 1]), (second + np.array([0, 1, 8, 9, 5])) * S
    assert routes.at(ways, times).tolist() == [0, 0, 0, 1, 2]


def test_what_is_lost_while_ways_change_is_laid_on_no_link() -> None:
    tables = Probed(loses={(up(1, 1), "spine1"): 0.05}, since_s=-5).tables()
    assert suspects(tables)
    hops = tables["probe_hop"].to_pylist()
    # Ways over spine 1 are seen over spine 2 at the moment of the loss, as when a link flaps.
    others = {(row["src"], row["dst"], row["hop"]): row["address"] for row in hops if row["src_port"] == 8447}
    again = [
        row | {"time_ns": T0 - 4 * S, "address": others[row["src"], row["dst"], row["hop"]]}
        for row in hops
        if row["src_port"] == 8446
    ]
    tables["probe_hop"] = pa.Table.from_pylist(hops + again, tables["probe_hop"].schema)
    assert suspects(tables) == []


def arrow_table_of(rows: list[dict[str, object]]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in ("child", "parent", "kind")}
    return pa.table(columns)
