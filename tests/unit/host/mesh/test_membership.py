"""How a host takes part: where it can be probed, what the server says, and a server that says nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadline.host.mesh import membership
from leadline.host.mesh.commands import Peer
from leadline.host.mesh.lines import Edge, Ready, Silence, Trace, Truth, Way
from leadline.host.mesh.membership import Joined, own_address, parse_joined
from leadline.host.post import parse_server
from leadline.host.sources import mesh
from leadline.host.sources.mesh import Clocks
from leadline.host.sources.site import Site
from leadline.model.errors import DataError, WorldError

PEER = {"number": 7, "host": "h2", "clock": "h2/1", "address": "10.0.0.2", "port": 8446, "owned": True}
NO_WAY = Way(0, 0, 0, None, None, None, None)
EDGE = Edge(
    "h1", "h2", 0, 8446, 8446, 0, 10**18, 2 * 10**9, 10**9, 3, 0, "few-points", None, "kernel", NO_WAY, NO_WAY, None
)


def test_what_the_server_says_is_read_and_what_it_does_not_say_is_told() -> None:
    told = {"number": 3, "key": "00" * 16, "every_s": 10.0, "peers": [PEER]}
    found = parse_joined(json.dumps(told).encode())
    assert found == Joined(3, bytes(16), 10.0, (Peer(7, "h2", "10.0.0.2", 8446, True),), {"h2": "h2/1"})
    for wrong in (b"", b"[]", b'{"number": 3}', json.dumps({**told, "key": "no"}).encode()):
        with pytest.raises(DataError, match="number, key, every_s and peers"):
            parse_joined(wrong)


@pytest.mark.parametrize("server", ["http://127.0.0.1:8440", "unix:/run/leadline/socket"])
def test_an_address_that_no_other_host_reaches_is_none(server: str) -> None:
    with pytest.raises(WorldError, match=r"set agent\.mesh_address"):
        own_address(parse_server(server))


def test_a_path_that_dies_and_comes_back_becomes_events_and_one_never_heard_does_not() -> None:
    died = Silence(True, "h2", "h1", 0, 8446, 0, 5_000_000_000, 91_000_000, True)
    event = mesh.event_of(died, 7)
    assert (event.time_ns, event.entity, event.kind, event.severity) == (
        5_000_000_007,
        "host:h1",
        "mesh-silent",
        "warning",
    )
    assert event.message == "nothing came from h2 for 91 ms (source port 8446)"
    assert event.attributes == {"src": "h2", "dst": "h1", "src_port": "8446", "class": "0", "age_ns": "91000000"}
    back = mesh.event_of(died._replace(is_silent=False), 7)
    assert (back.kind, back.severity) == ("mesh-heard", "info")
    config = SimpleNamespace(
        server="http://192.0.2.1:8440", token_file="", ca_file="", tenant="", cluster="", mesh_address="10.0.0.1",
        mesh_port=8446, labels={}, spool=Path(),
    )  # fmt: skip
    site: Any = SimpleNamespace(config=config, host="h1", clock="h1/1", looks_only=False)
    source = mesh.Mesh(site)
    source._again = time.monotonic() + 60
    for line in (died, died._replace(src="h3", was_heard=False)):
        source._take(line)
    assert [each.attributes["src"] for each in source.poll(0).events] == ["h2"]
    assert source.poll(0).events == [], "each is told once"


def test_a_trace_becomes_a_row_for_each_router_up_to_the_last_that_answered() -> None:
    trace = Trace("h1", "h2", 8447, 0, 5_000, ("10.0.1.1", None, "10.0.2.1", None, None))
    rows = mesh.hops_of(trace, 7)
    assert [(each.hop, each.address) for each in rows] == [(0, "10.0.1.1"), (1, None), (2, "10.0.2.1")]
    assert {(each.src, each.dst, each.src_port, each.time_ns) for each in rows} == {("h1", "h2", 8447, 5_007)}
    assert mesh.hops_of(trace._replace(hops=(None, None)), 7) == []


def test_a_row_has_the_host_clock_of_its_own_end_and_not_of_when_it_was_asked_for() -> None:
    """Read a second later, a clock that drifts by 20 ppm was 20 us off, and with it all times of its host."""
    before, now = Clocks(5 * 10**9, 8 * 10**9), Clocks(6 * 10**9, 9 * 10**9 + 20_000)
    assert [mesh.ahead_ns(before, now, int(at * 1e9)) for at in (5, 5.25, 6)] == [3 * 10**9, 3 * 10**9 + 5_000,
                                                                                 3 * 10**9 + 20_000]  # fmt: skip
    stepped = Clocks(6 * 10**9, 10 * 10**9)
    assert mesh.ahead_ns(before, stepped, 5 * 10**9) == 4 * 10**9
    assert mesh.ahead_ns(now, now, 5 * 10**9) == 3 * 10**9 + 20_000


def test_of_an_injected_clock_nothing_is_told_before_it_is_known_what_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = SimpleNamespace(
        server="http://192.0.2.1:8440", token_file="", ca_file="", tenant="", cluster="", mesh_address="10.0.0.1",
        mesh_port=8446, labels={}, spool=Path(),
    )  # fmt: skip
    monkeypatch.setenv("LEADLINE_PROBER_CLOCK", "5 1000.0 0.0 0.0 0.0 7")
    raw_ns = 5 * 10**12
    monkeypatch.setattr(mesh, "_both", lambda: (raw_ns + 2 * 10**9, 2 * 10**18))
    source = mesh.Mesh(cast("Site", SimpleNamespace(config=config, host="h1", clock="h1/1", looks_only=False)))
    source._joined, source._again = Joined(3, bytes(16), 10.0, (), {"h2": "h2/1"}), time.monotonic() + 100
    source._take(Ready("h1", 1, 8446, 1, "kernel", 10**18))
    source._take(EDGE)
    source._take(Truth(raw_ns, raw_ns + 10**18 + 5))
    assert source.poll(0).fits == []
    source._take(Truth(raw_ns + 10**9, raw_ns + 10**9 + 10**18 + 1_005))
    edge, own = source.poll(0).fits
    assert (edge.state, own.state) == ("few-points", "self")
    assert (own.probe_ns, own.end_ns) == (raw_ns + 2 * 10**9 + 10**18 + 2_005, 2 * 10**18)


def test_a_server_that_is_away_ends_no_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What edges showed was kept from being told for as long as the server did not say whom to probe."""

    def away(*_: Any) -> Joined:
        raise WorldError("the server is away")

    monkeypatch.setattr(mesh, "join", away)
    config = SimpleNamespace(
        server="http://192.0.2.1:8440", token_file="", ca_file="", tenant="", cluster="", mesh_address="10.0.0.1",
        mesh_port=8446, mesh_paths=2, mesh_neighbours=10, mesh_nic="", labels={}, spool=Path(),
    )  # fmt: skip
    site: Any = SimpleNamespace(config=config, host="h1", clock="h1/1", looks_only=False)
    monkeypatch.setattr(mesh, "bind_address", lambda address, *_: address)
    source = mesh.Mesh(site)
    with pytest.raises(WorldError, match="is away"):
        source.poll(0)  # nobody is known yet
    source._joined, source._again = Joined(3, bytes(16), 10.0, (), {"h2": "h2/1"}), 0.0
    source._take(EDGE)
    (fit,) = source.poll(0).fits
    assert (fit.dst, fit.dst_clock, fit.state) == ("h2", "h2/1", "few-points")
    assert source._again > time.monotonic() + 5, "it is asked again, and not each second"
    assert membership.TIMEOUT_S < 2.0, "below what the agent waits for a source"
