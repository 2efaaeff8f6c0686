"""Laws of the agent's pure parts: bytes from outside are read or refused, and a spool file is read to its tear."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.host.edges import changed, from_mark, to_mark
from leadline.host.found import Edge
from leadline.host.frames import MAGIC, Item, frames, to_frame
from leadline.host.sources import cgroup, graph, inventory, lldp, proc, ranks, rdma
from leadline.model.errors import DataError
from leadline.wire.netlink.connections import parse_connections
from leadline.wire.netlink.framing import is_last
from leadline.wire.netlink.links import parse_links

TEXTS = st.text(max_size=40)
ITEMS = st.builds(
    Item,
    TEXTS,
    TEXTS,
    st.binary(max_size=200),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    st.integers(0, 2**63 - 1),
)
PARSERS: list[Callable[[bytes], object]] = [
    parse_links,
    parse_connections,
    is_last,
    lambda data: list(proc.parse_stat(data)),
    lambda data: list(proc.parse_meminfo(data)),
    lambda data: list(proc.parse_loadavg(data)),
    lambda data: list(proc.parse_pressure("cpu", data)),
    lambda data: list(proc.parse_netstat(data)),
    lambda data: list(proc.parse_diskstats(data)),
    ranks.parse_stat,
    ranks.parse_io,
    rdma.parse_counter,
    cgroup.parse_mounts,
    lambda data: cgroup.group_of(data, cgroup.Mounts("/u", "/m", "/c")),
    cgroup.parse_flat,
    graph.parse_gpu_information,
    lambda data: lldp.parse_neighbours(data, "h3"),
    inventory.parse_os_release,
    inventory.parse_processors,
    inventory.parse_memory,
    inventory.parse_gpu_driver,
    inventory.parse_command_line,
    inventory.parse_driver,
    inventory.parse_rings,
    inventory.parse_pause,
    lambda data: inventory.parse_numbers({"mtu": data}),
]


@pytest.mark.parametrize("parse", PARSERS, ids=range(len(PARSERS)))
@given(data=st.binary(max_size=300) | TEXTS.map(str.encode))
def test_any_bytes_are_read_or_refused(parse: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(DataError):
        parse(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["lldp", "interface", "name", "chassis", "port", "id", "value", "type"]), inner
        )
    ),
)


@given(JSON)
def test_any_json_of_lldpcli_is_read(whole: object) -> None:
    import json

    lldp.parse_neighbours(json.dumps(whole).encode(), "h3")


@given(st.lists(ITEMS, max_size=8), st.data())
def test_a_file_cut_anywhere_gives_what_was_whole(items: list[Item], data: st.DataObject) -> None:
    parts = [to_frame(item) for item in items]
    whole = MAGIC + b"".join(parts)
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    found = list(frames(whole[:cut]))
    complete = sum(1 for n in range(len(parts)) if len(MAGIC) + sum(map(len, parts[: n + 1])) <= cut)
    assert [each.item for each in found] == items[:complete]
    assert [each.item for each in frames(whole + data.draw(st.binary(max_size=30)))][: len(items)] == items


@given(st.binary(max_size=400))
def test_any_bytes_as_a_file(data: bytes) -> None:
    for found in frames(MAGIC + data):
        assert found.end <= len(MAGIC) + len(data)


NAMES = st.sampled_from(["port:h3/eth0", "port:h3/eth1", "swport:leaf1/E1", "host:h3"])
EDGES = st.lists(st.builds(Edge, NAMES, NAMES, st.sampled_from(["in", "linked"]), st.just(0)), max_size=6)


@given(st.lists(EDGES, max_size=8))
def test_rows_of_edges_tell_exactly_what_was_seen(looks: list[list[Edge]]) -> None:
    held: dict[tuple[str, str, str], int] = {}
    told: dict[tuple[str, str, str, int], int | None] = {}
    for now, seen in enumerate(looks, 1):
        held, rows = changed(from_mark(to_mark(held)), seen, now, "agent/test")
        for row in rows:
            key = (row.child, row.parent, row.kind, row.from_ns)
            assert (key in told) == (row.to_ns is not None)
            told[key] = row.to_ns
        assert {key[:3] for key, to_ns in told.items() if to_ns is None} == {tuple(edge[:3]) for edge in seen}
