"""The analysis of paths, whole, on a tiny Clos: every state, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.fabrics import (
    PROVIDER,
    T0,
    TCP,
    TINY,
    Claim,
    Clos,
    Flow,
    S,
    Sample,
    relation_table,
    sample_table,
    samples,
    tiny,
)

from leadline.analysis.path.paths import paths
from leadline.analysis.spec import Window
from leadline.model.ids import flow_id

WINDOW = Window(T0, T0 + 10 * S, tenant=PROVIDER)
LARGE = Clos(leaves=4, spines=4, hosts_per_leaf=4)
CROSS = Flow(1, 4, 40000, 443, TCP, spines=(1,))  # from leaf1 to leaf2


class Verdict:
    """Verdicts on samples of one window, by flow."""

    def __init__(self, rows: Iterable[Sample], claims: Iterable[Claim], window: Window = WINDOW) -> None:
        found = paths(sample_table(rows), relation_table(claims), window=window)
        self.tables = {name: _rows(columns) for name, columns in found.items()}

    def of(self, flow: Flow, clos: Clos = TINY) -> dict[str, Any]:
        """The row of a flow."""
        [row] = [each for each in self.tables["flow_path"] if each["flow"] == flow.id(clos)]
        return row

    def links(self, flow: Flow, clos: Clos = TINY, alternative: int = 0) -> tuple[str, ...]:
        """Links of one of its paths, in order."""
        hops = [
            each
            for each in self.tables["path_hop"]
            if each["flow"] == flow.id(clos) and each["alternative"] == alternative
        ]
        return tuple(each["link"] for each in sorted(hops, key=lambda each: each["hop"]))

    def conflicts(self, kind: str) -> list[dict[str, Any]]:
        """Rows of `conflict` of one kind."""
        return [each for each in self.tables["conflict"] if each["kind"] == kind]


def _rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {name: _list(column) for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _list(column: Any) -> list[Any]:
    if isinstance(column, pa.Array):
        return list(column.to_pylist())
    if isinstance(column, list):
        return column
    if column.ndim == 2:
        return [high << 64 | low for low, high in column.tolist()]
    return list(column.tolist())


def claims(clos: Clos = TINY, addresses: bool = True) -> list[Claim]:
    return [*clos.inventory(), *clos.agents(addresses)]


def both(clos: Clos, flows: Iterable[Flow], count: int = 20) -> Iterator[Sample]:
    for flow in flows:
        yield from samples(clos, flow, count)


def test_one_sampled_spine_makes_the_path_known() -> None:
    found = Verdict(samples(TINY, CROSS, 3), claims())
    row = found.of(CROSS)
    assert (row["state"], row["alternatives"], row["contradicting"], row["why"]) == ("known", 1, 0, "")
    assert 0.95 <= row["probability"] < 1
    assert found.links(CROSS) == TINY.links(1, 4, 1)
    assert (row["src"], row["dst"]) == (TINY.nic(1), TINY.nic(4))


def test_a_path_below_one_leaf_needs_one_sample() -> None:
    flow = replace(CROSS, dst=2)
    found = Verdict(samples(TINY, flow, 1), claims())
    assert found.of(flow)["state"] == "known"
    assert found.links(flow) == TINY.links(1, 2, 1)


def test_without_a_port_above_the_leaves_all_spines_are_as_likely_and_the_silent_ones_are_named() -> None:
    rows = [replace(each, out_port=None) for each in samples(TINY, CROSS, 20, only=("leaf1",))]
    found = Verdict(rows, claims())
    row = found.of(CROSS)
    assert (row["state"], row["alternatives"], row["probability"]) == ("ambiguous", 2, pytest.approx(0.5))
    assert "spine1, spine2 tell nothing" in row["why"]
    assert {found.links(CROSS, alternative=each) for each in range(2)} == {TINY.links(1, 4, each) for each in (1, 2)}
    hops = [each["probability"] for each in found.tables["path_hop"] if each["alternative"] == 0]
    assert hops == pytest.approx([1, 0.5, 0.5, 1], abs=0.01)


def test_a_spine_that_tells_of_others_but_not_of_a_flow_is_unlikely_but_not_ruled_out() -> None:
    rows = [replace(each, out_port=None) for each in samples(TINY, CROSS, 20, only=("leaf1",))]
    other = Flow(2, 3, 41000, 443, TCP, spines=(2,))
    found = Verdict([*rows, *samples(TINY, other, 20)], claims())
    row = found.of(CROSS)
    assert found.links(CROSS) == TINY.links(1, 4, 1), "spine2 samples, and has nothing of this flow"
    assert 0.9 < row["probability"] < 0.99, "it may have been silent for a while"


def test_packets_over_all_spines_at_one_time_are_sprayed() -> None:
    flow = replace(CROSS, spines=(1, 2))
    row = Verdict(samples(TINY, flow, 40), claims()).of(flow)
    assert (row["state"], row["alternatives"]) == ("sprayed", 2)
    assert row["probability"] == pytest.approx(0.5, abs=0.1)


def test_where_all_are_sprayed_a_flow_with_few_samples_is_not_said_to_have_a_path() -> None:
    flows = [Flow(src, 4 + src, 42000 + src, spines=(1, 2, 3, 4)) for src in range(1, 13)]
    few = Flow(4, 13, 43000, spines=(3,))
    found = Verdict([*both(LARGE, flows, 60), *samples(LARGE, few, 1)], claims(LARGE))
    assert {found.of(flow, LARGE)["state"] for flow in flows} == {"sprayed"}
    assert found.of(few, LARGE)["state"] in ("sprayed", "ambiguous")
    assert found.of(few, LARGE)["probability"] < 0.9


def test_a_flow_that_is_seen_on_two_ways_in_turns_is_not_on_one_of_them() -> None:
    """Adaptive routing over two of four spines, mostly over one of them, among flows that do the same."""
    flows = [Flow(src, 4 + src, 42000 + src, spines=(1 + src % 3, 2 + src % 3)) for src in range(1, 9)]
    mostly = Flow(4, 13, 43000, spines=(1, 1, 2, 1, 1))
    found = Verdict([*both(LARGE, flows, 30), *samples(LARGE, mostly, 5)], claims(LARGE))
    assert {found.of(flow, LARGE)["state"] for flow in flows} == {"sprayed"}
    assert found.of(mostly, LARGE)["state"] in ("sprayed", "ambiguous")


def test_where_flows_are_sprayed_samples_of_two_ways_in_order_are_no_move() -> None:
    flows = [Flow(src, 4 + src, 42000 + src, spines=(1 + src % 3, 2 + src % 3)) for src in range(1, 9)]
    few = Flow(4, 13, 43000, spines=(1,))
    later = replace(few, spines=(2,))
    rows = [*samples(LARGE, few, 2, T0, 5 * S), *samples(LARGE, later, 2, T0 + 5 * S, 5 * S)]
    found = Verdict([*both(LARGE, flows, 30), *rows], claims(LARGE))
    assert found.of(few, LARGE)["state"] in ("sprayed", "ambiguous")


def test_a_flow_seen_since_only_where_its_old_and_new_path_meet_may_have_left_a_link_that_others_left() -> None:
    """All others leave leaf1's link to spine1 at 5 s; this one is seen afterwards by its sender's leaf port only."""
    flows = [Flow(src, 12 + src, 42000 + src, spines=(1,)) for src in (1, 2, 3)]
    rows = [
        row
        for flow in flows
        for way, begin in ((flow, T0), (replace(flow, spines=(2,)), T0 + 5 * S))
        for row in samples(LARGE, way, 20, begin, 5 * S)
    ]
    quiet = Flow(4, 16, 43000, spines=(1,))
    seen = [*samples(LARGE, quiet, 2, T0, 2 * S), *samples(LARGE, quiet, 1, T0 + 8 * S, S, only=("leaf1",))]
    where = [replace(row, out_port=None) if row.time_ns > T0 + 5 * S else row for row in seen]
    found = Verdict([*rows, *where], claims(LARGE))
    assert {found.of(flow, LARGE)["state"] for flow in flows} == {"moved"}
    row = found.of(quiet, LARGE)
    assert row["state"] == "ambiguous"
    assert "others" in row["why"] or "other flows" in row["why"]


def test_a_flow_that_changes_its_spine_has_moved_and_its_latest_path_comes_first() -> None:
    later = replace(CROSS, spines=(2,))
    rows = [*samples(TINY, CROSS, 10, T0, 5 * S), *samples(TINY, later, 10, T0 + 5 * S, 5 * S)]
    found = Verdict(rows, claims())
    row = found.of(CROSS)
    assert (row["state"], row["contradicting"]) == ("moved", 0)
    assert found.links(CROSS) == TINY.links(1, 4, 2)
    assert found.links(CROSS, alternative=1) == TINY.links(1, 4, 1)
    assert "since" in row["why"]


def test_a_flow_that_moved_before_the_window_is_known_where_it_is_now() -> None:
    later = replace(CROSS, spines=(2,))
    rows = [*samples(TINY, CROSS, 10, T0 - 20 * S, 5 * S), *samples(TINY, later, 30, T0 - 15 * S, 25 * S)]
    found = Verdict(rows, claims())
    assert found.of(CROSS)["state"] == "known"
    assert found.links(CROSS) == TINY.links(1, 4, 2)


def test_samples_before_the_window_help_a_flow_that_did_not_move() -> None:
    now = [replace(each, out_port=None) for each in samples(TINY, CROSS, 2, only=("leaf1",))]
    assert Verdict(now, claims()).of(CROSS)["state"] == "ambiguous"
    before = samples(TINY, CROSS, 5, T0 - 10 * S)
    row = Verdict([*before, *now], claims()).of(CROSS)
    assert (row["state"], row["samples"]) == ("known", 2)


def test_a_flow_seen_only_before_the_window_has_no_row() -> None:
    found = Verdict(samples(TINY, CROSS, 5, T0 - 10 * S), claims())
    assert not found.tables.get("flow_path")


def test_addresses_are_learnt_where_hosts_hang_on() -> None:
    found = Verdict(samples(TINY, CROSS, 3), claims(addresses=False))
    assert found.of(CROSS)["state"] == "known"
    assert found.links(CROSS) == TINY.links(1, 4, 1)


def test_an_address_of_no_port_is_named() -> None:
    rows = [replace(each, in_port=None) for each in samples(TINY, replace(CROSS, src_ip="10.9.9.9"), 3)]
    row = Verdict(rows, claims()).of(replace(CROSS, src_ip="10.9.9.9"))
    assert (row["state"], row["alternatives"], row["probability"]) == ("unknown", 0, 0)
    assert row["why"] == "address 10.9.9.9 belongs to no known port"
    assert row["bytes"] > 0, "what it carried is known all the same"


def test_a_fabric_in_two_parts_leads_nowhere() -> None:
    cut = [each for each in claims() if "spine" not in each.child + each.parent]
    row = Verdict(samples(TINY, CROSS, 3), cut).of(CROSS)
    assert row["state"] == "unknown"
    assert "no path between" in row["why"]


def test_flows_to_many_receivers_have_no_path() -> None:
    rows = [replace(each, dst_ip="239.1.1.1") for each in samples(TINY, CROSS, 3)]
    [row] = Verdict(rows, claims()).tables["flow_path"]
    assert row["state"] == "unknown"
    assert "many receivers" in row["why"]


def test_without_any_relation_flows_are_unknown_and_their_bytes_are_told() -> None:
    row = Verdict(samples(TINY, CROSS, 3), []).of(CROSS)
    assert row["state"] == "unknown"
    assert row["bytes"] > 0


def test_a_switch_that_names_its_ports_wrongly_is_told_and_its_samples_are_put_right() -> None:
    flows = [Flow(src, 16 - src % 4, 44000 + src, 443, TCP, spines=(1 + src % 4,)) for src in range(1, 13)]
    rows = [_shifted(each, "spine2", 4) for each in both(LARGE, flows)]
    found = Verdict(rows, claims(LARGE))
    for flow in flows:
        if LARGE.leaf_of(flow.src) != LARGE.leaf_of(flow.dst):
            assert found.of(flow, LARGE)["state"] == "known"
            assert found.links(flow, LARGE) == LARGE.links(flow.src, flow.dst, flow.spines[0])
    [mark] = found.conflicts("wrong-port")
    assert mark["entity"] == "switch:spine2"
    assert "look at the port numbers" in mark["text"]


def _shifted(sample: Sample, switch: str, ports: int) -> Sample:
    """The same sample with all port numbers of a switch one too high."""
    if sample.switch != switch:
        return sample
    names = [
        name and f"Ethernet{int(name.removeprefix('Ethernet')) % ports + 1}"
        for name in (sample.in_port, sample.out_port)
    ]
    return replace(sample, in_port=names[0], out_port=names[1])


def test_a_cable_that_runs_elsewhere_than_the_inventory_says_is_found() -> None:
    flows = [Flow(src, 13 + src % 4, 45000 + src, 443, TCP, spines=(1 + src % 2,)) for src in range(1, 9)]
    crossed = {LARGE.down(1, 1): LARGE.up(2, 2), LARGE.down(2, 2): LARGE.up(1, 1)}
    told = [
        replace(each, parent=crossed[each.child]) if each.kind == "linked" and each.child in crossed else each
        for each in claims(LARGE)
    ]
    found = Verdict(both(LARGE, flows), told)
    for flow in flows:
        assert found.links(flow, LARGE) == LARGE.links(flow.src, flow.dst, flow.spines[0])
    assert {each["used"] for each in found.conflicts("two-links")} >= {LARGE.links(1, 16, 1)[1]}


def test_samples_decide_between_two_claims_of_one_port() -> None:
    wrong = Claim(TINY.up(1, 1), "linked", TINY.down(2, 1), "agent/lldp")
    found = Verdict(samples(TINY, CROSS, 5), [*claims(), wrong])
    assert found.links(CROSS) == TINY.links(1, 4, 1)
    marks = {each["entity"]: each["used"] for each in found.conflicts("two-links")}
    assert marks[TINY.up(1, 1)] == TINY.links(1, 4, 1)[1]


def test_a_detour_is_put_together_from_what_switches_saw() -> None:
    # leaf1 -> spine1 -> leaf3 -> spine2 -> leaf2: the cable from spine1 to leaf2 is down, and told to be there.
    flow = Flow(1, 5, 46000, 443, TCP)
    plain = flow.sample(LARGE)
    hops = [
        ("leaf1", "Ethernet1", "Ethernet5"), ("spine1", "Ethernet1", "Ethernet3"), ("leaf3", "Ethernet5", "Ethernet6"),
        ("spine2", "Ethernet3", "Ethernet2"), ("leaf2", "Ethernet6", "Ethernet1"),
    ]  # fmt: skip
    found = Verdict(_along(plain, hops), claims(LARGE))
    row = found.of(flow, LARGE)
    assert (row["state"], row["contradicting"]) == ("known", 0)
    assert len(found.links(flow, LARGE)) == 6
    assert "longer than the shortest" in row["why"]


def test_a_loop_is_told() -> None:
    flow = Flow(1, 5, 46000, 443, TCP)
    hops = [
        ("leaf1", "Ethernet1", "Ethernet5"), ("spine1", "Ethernet1", "Ethernet3"), ("leaf3", "Ethernet5", "Ethernet6"),
        ("spine2", "Ethernet3", "Ethernet1"), ("leaf1", "Ethernet6", "Ethernet5"),
    ]  # fmt: skip
    found = Verdict(_along(flow.sample(LARGE), hops), claims(LARGE))
    assert found.of(flow, LARGE)["state"] == "loop"
    [mark] = found.conflicts("loop")
    assert "twice" in mark["text"]


def _along(plain: Sample, hops: Sequence[tuple[str, str, str]]) -> list[Sample]:
    return [
        replace(plain, switch=switch, in_port=enters, out_port=leaves, time_ns=T0 + number * S // 10 + place)
        for number in range(10)
        for place, (switch, enters, leaves) in enumerate(hops)
    ]


def test_switches_and_ports_that_nobody_told_of_are_told() -> None:
    rows = [*samples(TINY, CROSS, 3)]
    rows += [replace(rows[0], switch="spine9"), replace(rows[0], in_port="Ethernet99")]
    found = Verdict(rows, claims())
    assert {each["entity"] for each in found.conflicts("off-path")} == {"switch:spine9", "swport:leaf1/Ethernet99"}


def test_a_nic_on_two_leaves_is_reached_by_either() -> None:
    nic = "port:h4/eth0"
    second = [Claim("swport:leaf1/Ethernet9", "linked", "port:h4/eth1", "agent/lldp")]
    second += [Claim(f"address:{TINY.address(4)}", "in", "port:h4/eth1", "agent/graph")]
    found = Verdict(samples(TINY, CROSS, 5), [*claims(), *second])
    row = found.of(CROSS)
    assert (row["state"], row["dst"]) == ("contradicted", nic) or row["dst"] == nic


def test_the_tiny_site_gives_rows_in_all_tables() -> None:
    relation, rows = tiny()
    found = paths(rows, relation, window=WINDOW)
    assert all(len(next(iter(found[name].values()))) for name in found)
    assert set(found) == {"flow_path", "path_hop", "flow_volume", "ecmp_group", "conflict"}


def test_rows_are_their_owners() -> None:
    relation, rows = tiny()
    found = _rows(paths(rows, relation, window=WINDOW)["flow_path"])
    by_id = {row["flow"]: row for row in found}
    socket = by_id[flow_id(TCP, TINY.address(2), TINY.address(4), 40100, 5001)]
    assert (socket["job"], socket["tenant"], socket["src_rank"], socket["dst_rank"]) == (
        "moe-2", "bo", "rank:moe-2/0", "rank:moe-2/1",
    )  # fmt: skip


def test_a_flow_last_seen_on_a_link_that_others_left_may_be_elsewhere() -> None:
    early = Flow(1, 4, 47000, 443, TCP, spines=(1,))
    movers = [Flow(src, dst, 47100 + src, 443, TCP, spines=(1,)) for src, dst in ((1, 3), (2, 4))]
    rows = [*samples(TINY, early, 2, T0, S)]
    for flow in movers:
        rows += [*samples(TINY, flow, 20, T0, 5 * S), *samples(TINY, replace(flow, spines=(2,)), 20, T0 + 5 * S, 5 * S)]
    found = Verdict(rows, claims())
    assert {found.of(flow)["state"] for flow in movers} == {"moved"}
    row = found.of(early)
    assert row["state"] == "ambiguous"
    assert "other flows left since" in row["why"]


def test_equal_cost_links_are_told_by_the_switch_that_chooses_among_them() -> None:
    flows = [Flow(1, 4, 48000 + each, 443, TCP, spines=(1 + each % 2,)) for each in range(4)]
    groups = Verdict(both(TINY, flows), claims()).tables["ecmp_group"]
    [leaf] = [each for each in groups if each["switch"] == "leaf1"]
    assert leaf["group"] == "Ethernet3,Ethernet4"
    assert leaf["links"] == [TINY.links(1, 4, spine)[1] for spine in (1, 2)]
    assert leaf["efficiency"] == pytest.approx(1, abs=0.1)
