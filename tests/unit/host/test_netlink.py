"""rtnetlink messages, as a kernel sent them."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest

from leadline.host.found import Event
from leadline.host.sources.link import Seen, link_changes
from leadline.host.sources.links import all_addresses, all_links
from leadline.host.sources.nic import parse_counters
from leadline.model.errors import DataError
from leadline.model.names import entity_of
from leadline.wire.netlink.framing import is_last
from leadline.wire.netlink.links import (
    Address,
    Link,
    addresses_request,
    links_request,
    parse_addresses,
    parse_links,
)

from .conftest import recorded, site_with

T = 1_750_000_000 * 10**9


def test_all_links_of_a_namespace() -> None:
    data = recorded("netlink_links.bin")
    assert is_last(data)
    lo, far0, eth0 = parse_links(data)
    assert (lo.name, lo.running, lo.operstate) == ("lo", False, "down")
    assert (eth0.name, eth0.running, eth0.operstate, eth0.carrier_changes) == ("eth0", True, "up", 2)
    assert eth0.stats[:4] == (2, 3, 180, 266)  # packets and bytes received and sent
    assert far0.stats[:4] == (3, 2, 266, 180)
    assert eth0.number != far0.number


def test_this_machine_answers() -> None:
    assert "lo" in [link.name for link in all_links()]
    assert len(links_request(1)) == 32


def test_what_the_kernel_tells_when_the_far_end_goes_and_comes() -> None:
    site = site_with()
    events: list[Event] = []
    seen = {
        link.name: Seen(link.running, link.carrier_changes or 0) for link in parse_links(recorded("netlink_links.bin"))
    }
    seen = link_changes(seen, parse_links(recorded("netlink_down.bin")), site, T, events)
    seen = link_changes(seen, parse_links(recorded("netlink_up.bin")), site, T + 1, events)
    assert [(event.kind, event.entity, event.severity, event.time_ns) for event in events] == [
        ("link-down", "port:h3/eth0", "error", T),
        ("link-up", "port:h3/eth0", "info", T + 1),
    ]
    assert events[0].attributes == {
        "interface": "eth0", "carrier_changes": "3", "operstate": "lowerlayerdown", "admin": "up",
    }  # fmt: skip
    assert seen["eth0"][:2] == (True, 4)


def link(name: str = "eth0", flags: int = 0x10001, changes: int | None = 2, removed: bool = False) -> Link:
    return Link(removed, 7, name, flags, "up", changes, ())


def told(before: dict[str, Seen], *links: Link) -> tuple[dict[str, Seen], list[str]]:
    events: list[Event] = []
    after = link_changes(before, links, site_with(), T, events)
    return after, [f"{e.kind} {e.attributes['carrier_changes']} {e.attributes.get('missed', '')}" for e in events]


def test_a_flap_between_two_messages_is_still_a_flap() -> None:
    assert told({"eth0": Seen(True, 2)}, link(changes=4))[1] == ["link-down 3 ", "link-up 4 "]
    assert told({"eth0": Seen(True, 2)}, link(changes=8))[1] == ["link-down 7 4", "link-up 8 "]
    assert told({"eth0": Seen(True, 2)}, link(changes=5, flags=1))[1] == ["link-down 5 2"]


def test_messages_about_other_things_tell_nothing() -> None:
    after, kinds = told({"eth0": Seen(True, 2)}, link(), link(changes=None), link(changes=3))
    assert kinds == []
    assert after["eth0"] == Seen(True, 3, 7)


def test_a_message_that_waited_while_all_links_were_read_is_old_news() -> None:
    after, kinds = told(
        {"eth0": Seen(True, 6, 7)}, link(changes=5, flags=1), link(changes=6), link(changes=5, removed=True)
    )
    assert (after, kinds) == ({"eth0": Seen(True, 6, 7)}, [])
    assert told({"eth0": Seen(True, 6, 3)}, link(changes=1, flags=1))[1] == ["link-down 1 "]  # another one of that name


def test_a_port_that_leaves_its_bridge_is_still_there() -> None:
    """The kernel tells it by RTM_DELLINK, too, of the family AF_BRIDGE (seen with `ip link set eth7 nomaster`)."""
    body = struct.pack("=BxHiII", 7, 1, 7, 0x10001, 0) + struct.pack("=HH", 9, 3) + b"eth0\0\0\0\0"
    assert parse_links(struct.pack("=IHHII", 16 + len(body), 17, 0, 0, 0) + body) == []


def test_an_interface_that_appears_has_no_past_and_one_that_goes_is_down() -> None:
    after, kinds = told({}, link(), link(removed=True), link(flags=0), link(removed=True))
    assert (after, kinds) == ({}, ["link-down 2 "])


def test_counters_have_names_that_lead_to_the_port() -> None:
    samples = parse_counters(parse_links(recorded("netlink_links.bin")), {"eth0": 10_000}.get, T)  # type: ignore[arg-type]
    of_eth0 = {s.stream.name: s for s in samples if dict(s.stream.labels) == {"device": "eth0"}}
    for name, sample in of_eth0.items():
        mapped = entity_of({"__name__": name, "host.name": "h3", **dict(sample.stream.labels)})
        assert (mapped.entity, mapped.host) == ("port:h3/eth0", "h3")
    assert of_eth0["node_network_receive_bytes_total"].value == 180
    assert of_eth0["node_network_transmit_bytes_total"].value == 266
    assert of_eth0["node_network_carrier_changes_total"].value == 2
    assert of_eth0["node_network_speed_bytes"].value == 1.25e9
    assert of_eth0["node_network_receive_bytes_total"].stream.counter
    assert not of_eth0["node_network_carrier"].stream.counter
    assert "node_network_carrier" not in {s.stream.name for s in samples if dict(s.stream.labels) == {"device": "lo"}}


@pytest.mark.parametrize("cut", range(1, 200))
def test_bytes_cut_short_are_refused_or_end_before(cut: int) -> None:
    data = recorded("netlink_down.bin")[:-cut]
    with contextlib.suppress(DataError):
        assert parse_links(data) == []


def test_an_attribute_longer_than_its_message_is_refused() -> None:
    body = bytes(16) + struct.pack("=HH", 100, 3) + b"eth0"
    with pytest.raises(DataError, match="netlink attribute at byte 0"):
        parse_links(struct.pack("=IHHII", 16 + len(body), 16, 0, 0, 0) + body)


def test_addresses_that_others_can_send_to() -> None:
    """Not those of a link or of the host only; of a point-to-point link our own, not the other end's."""
    data = recorded("netlink_addresses.bin")
    assert is_last(data)
    assert parse_addresses(data) == [
        Address(1, "10.9.9.9"),
        Address(2, "10.7.0.1"),
        Address(3, "10.1.3.1"),
        Address(3, "2001:db8::5"),
    ]
    assert parse_addresses(recorded("netlink_links.bin")) == []


def test_this_machines_addresses() -> None:
    assert not [each for each in all_addresses() if each.address.startswith("127.")]
    assert len(addresses_request(1)) == 24


def address_message(family: int, flags: int, raw: bytes) -> bytes:
    body = struct.pack("=BBBBI", family, 24, flags, 0, 3) + struct.pack("=HH", 4 + len(raw), 1) + raw
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 0, 0) + body


def test_an_address_that_another_host_has_or_may_have_is_not_ours() -> None:
    raw = socket.inet_aton("10.1.3.1")
    assert parse_addresses(address_message(socket.AF_INET, 0x80, raw)) == [Address(3, "10.1.3.1")]
    for flags in (0x08, 0x40):
        assert parse_addresses(address_message(socket.AF_INET, flags, raw)) == []
    assert parse_addresses(address_message(28, 0, raw)) == []  # AF_MPLS


@pytest.mark.parametrize("raw", [b"", b"\x0a\x01", bytes(16)])
def test_an_address_of_another_length_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="netlink, address"):
        parse_addresses(address_message(socket.AF_INET, 0, raw))


@pytest.mark.parametrize("cut", [1, 2, 4, 12, 24, 60, 100, 300, 700])
def test_addresses_cut_short_are_refused_or_end_before(cut: int) -> None:
    whole = parse_addresses(recorded("netlink_addresses.bin"))
    with contextlib.suppress(DataError):
        found = parse_addresses(recorded("netlink_addresses.bin")[:-cut])
        assert found == whole[: len(found)]
