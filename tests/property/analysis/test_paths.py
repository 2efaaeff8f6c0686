"""Laws of the inference of paths, on fabrics and samples drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.fabrics import (
    PROVIDER,
    T0,
    TCP,
    Claim,
    Clos,
    Flow,
    S,
    Sample,
    relation_table,
    sample_table,
    samples,
)

from leadline.analysis.path.paths import paths
from leadline.analysis.spec import Window

WINDOW = Window(T0, T0 + 10 * S, tenant=PROVIDER)
PORTS = st.one_of(st.none(), st.sampled_from([f"Ethernet{each}" for each in range(1, 8)]))


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[Clos, list[Flow]]:
    """A fabric, and flows between its hosts, each on one path."""
    clos = Clos(draw(st.integers(2, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    hosts = st.integers(1, clos.hosts[-1])
    ends = draw(st.lists(st.tuples(hosts, hosts, st.integers(1, clos.spines)), min_size=1, max_size=8))
    flows = [
        Flow(src, dst, 40000 + number, 443, TCP, spines=(spine,))
        for number, (src, dst, spine) in enumerate(ends)
        if src != dst
    ]
    return clos, flows


def told(clos: Clos) -> list[Claim]:
    return [*clos.inventory(), *clos.agents()]


def plain(columns: Mapping[str, Any], name: str) -> list[Any]:
    column = columns[name]
    return list(column.to_pylist() if isinstance(column, pa.Array) else column.tolist())


@settings(max_examples=30, deadline=None)
@given(fabrics())
def test_with_samples_at_every_switch_every_path_is_the_true_one(drawn: tuple[Clos, list[Flow]]) -> None:
    clos, flows = drawn
    rows = [row for flow in flows for row in samples(clos, flow, 5)]
    found = paths(sample_table(rows), relation_table(told(clos)), window=WINDOW)
    if not flows:
        assert not found
        return
    assert set(plain(found["flow_path"], "state")) == {"known"}
    hops = found["path_hop"]
    links: dict[int, list[str]] = {}
    for (low, high), link in zip(hops["flow"].tolist(), plain(hops, "link"), strict=True):
        links.setdefault(high << 64 | low, []).append(link)
    for flow in flows:
        assert tuple(links[flow.id(clos)]) == clos.links(flow.src, flow.dst, flow.spines[0])


@settings(max_examples=30, deadline=None)
@given(fabrics(), st.data())
def test_with_any_part_of_the_samples_nothing_false_is_stated_as_known(
    drawn: tuple[Clos, list[Flow]], data: st.DataObject
) -> None:
    clos, flows = drawn
    whole = [row for flow in flows for row in samples(clos, flow, 5)]
    rows = [
        replace(row, in_port=row.in_port if data.draw(st.booleans()) else None)
        for row in whole
        if data.draw(st.integers(0, 3)) == 0
    ]
    found = paths(sample_table(rows), relation_table(told(clos)), window=WINDOW)
    if not rows:
        return
    by_id = {flow.id(clos): flow for flow in flows}
    state = dict(zip(_ids(found["flow_path"]), plain(found["flow_path"], "state"), strict=True))
    first = [each == 0 for each in plain(found["path_hop"], "alternative")]
    links: dict[int, list[str]] = {}
    for number, link, mine in zip(_ids(found["path_hop"]), plain(found["path_hop"], "link"), first, strict=True):
        if mine:
            links.setdefault(number, []).append(link)
    for number, word in state.items():
        flow = by_id[number]
        of_flow = [row for row in rows if row.flow == number]
        if word == "known" and _pinned(of_flow, clos, flow):
            assert tuple(links[number]) == clos.links(flow.src, flow.dst, flow.spines[0])
        if clos.leaf_of(flow.src) != clos.leaf_of(flow.dst) and clos.spines > 1 and not _pinned(of_flow, clos, flow):
            assert word != "moved", "nothing was seen to differ"


def _pinned(rows: list[Sample], clos: Clos, flow: Flow) -> bool:
    """Whether a sample names the spine, or a leaf's port towards it."""
    up = clos.up(clos.leaf_of(flow.src), flow.spines[0]).partition("/")[2]
    down = clos.up(clos.leaf_of(flow.dst), flow.spines[0]).partition("/")[2]
    first, last = f"leaf{clos.leaf_of(flow.src)}", f"leaf{clos.leaf_of(flow.dst)}"
    return any(
        row.switch.startswith("spine")
        or (row.switch == first and row.out_port == up)
        or (row.switch == last and row.in_port == down)
        for row in rows
    )


def _ids(columns: Mapping[str, Any]) -> list[int]:
    return [high << 64 | low for low, high in columns["flow"].tolist()]


@st.composite
def strange(draw: st.DrawFn) -> Sample:
    """A sample of anything, anywhere."""
    return Sample(
        draw(st.sampled_from(["leaf1", "leaf2", "spine1", "elsewhere", ""])),
        draw(PORTS),
        draw(PORTS),
        T0 + draw(st.integers(-20 * S, 10 * S - 1)),
        draw(st.sampled_from(["10.1.1.1", "10.2.1.1", "10.9.9.9", "::1", "224.0.0.1", ""])),
        draw(st.sampled_from(["10.1.1.1", "10.2.1.1", "10.9.9.9", "fe80::1", "255.255.255.255"])),
        draw(st.integers(0, 2)),
        draw(st.sampled_from([443, 4791])),
        draw(st.sampled_from([6, 17])),
        draw(st.one_of(st.none(), st.integers(0, 3))),
        draw(st.sampled_from([1, 100, 2**50])),
        draw(st.sampled_from([0, 64, 9000, 2**40])),
        dropped=draw(st.sampled_from([None, "no_buffer_space"])),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(strange(), max_size=40), st.integers(0, 2**32 - 1))
def test_anything_gives_honest_rows_in_any_order(rows: list[Sample], seed: int) -> None:
    clos = Clos()
    table, relation = sample_table(rows), relation_table(told(clos))
    found = paths(table, relation, window=WINDOW)
    order = np.random.default_rng(seed).permutation(len(rows))
    again = paths(table.take(pa.array(order, pa.int64())), relation, window=WINDOW)
    if not found:
        assert not again
        return
    for name in ("state", "probability", "alternatives", "samples", "bytes", "why"):
        assert list(found["flow_path"][name]) == list(again["flow_path"][name]), name
    for name, columns in found.items():
        assert len({len(column) for column in columns.values()}) == 1, name
    path = found["flow_path"]
    assert ((path["probability"] >= 0) & (path["probability"] <= 0.999)).all()
    assert ((path["low"] <= path["bytes"]) & (path["bytes"] <= path["high"])).all()
    assert ((path["contradicting"] >= 0) & (path["contradicting"] <= path["samples"])).all()
    unknown = np.array([word == "unknown" for word in plain(path, "state")])
    assert all(why for why, none in zip(path["why"], unknown.tolist(), strict=True) if none)
    assert (path["alternatives"][unknown] == 0).all()
