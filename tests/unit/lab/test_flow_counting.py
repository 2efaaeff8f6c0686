"""Counting flows in a switch's kernel: the rules, the answers, and what grew between two readings."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.flow_truth.counting import (
    Count,
    Counted,
    counted_by,
    counts,
    grown,
    missed,
    request,
    rules,
    sets_of,
)
from leadline.model.errors import DataError
from leadline.wire.netlink import framing as netlink
from leadline.wire.netlink.framing import attribute

TCP = Counted("10.1.3.1", "10.2.4.1", 6, 40000, 5001, None, "Ethernet3", 9)


def key(source: str, target: str, source_port: int, last: bytes, out_port: int) -> bytes:
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    return ends + struct.pack(">Hxx", source_port) + last + struct.pack("<I", out_port)


TCP_KEY = key("10.1.3.1", "10.2.4.1", 40000, struct.pack(">Hxx", 5001), 9)


def element(raw: bytes, packets: int, size: int) -> bytes:
    counter = attribute(1, struct.pack(">Q", size)) + attribute(2, struct.pack(">Q", packets))
    expression = attribute(1, b"counter\0") + attribute(2, counter)
    return attribute(1, attribute(1, attribute(1, raw)) + attribute(7, expression))


def answer(*elements: bytes) -> Iterable[netlink.Message]:
    body = b"\1\0\0\0" + attribute(1, b"leadline_flows\0") + attribute(3, b"".join(elements))
    return netlink.messages(netlink.message(10 << 8 | 12, 0, body) + netlink.message(netlink.DONE, 0, b"\0\0\0\0"))


def test_a_counter_has_frames_with_their_ethernet_header() -> None:
    assert counts(answer(element(TCP_KEY, 3, 4500)), "tcp_0", "Ethernet3") == {TCP: Count(3, 4500 + 3 * 14)}


def test_a_queue_pair_is_the_key_of_rocev2_and_its_flags_are_not() -> None:
    first, second = (key("10.1.3.1", "10.2.4.1", 52000, bytes([flags, 0, 1, 44]), 9) for flags in (0, 0x40))
    found = counts(answer(element(first, 1, 1000), element(second, 2, 2000)), "roce_0", "Ethernet3")
    assert found == {Counted("10.1.3.1", "10.2.4.1", 17, 52000, 4791, 300, "Ethernet3", 9): Count(3, 3000 + 3 * 14)}


def test_a_counter_that_is_told_twice_counts_once() -> None:
    found = counts(answer(element(TCP_KEY, 3, 300), element(TCP_KEY, 5, 500)), "tcp_0", "Ethernet3")
    assert found == {TCP: Count(5, 500 + 5 * 14)}


def test_udp_has_both_ports() -> None:
    raw = key("10.1.3.1", "10.2.4.1", 53, struct.pack(">Hxx", 4000), 9)
    assert counted_by(raw, "udp_2", "Ethernet1") == Counted("10.1.3.1", "10.2.4.1", 17, 53, 4000, None, "Ethernet1", 9)


def test_what_is_no_key_of_ours_is_refused() -> None:
    with pytest.raises(DataError, match="keys of 20 bytes"):
        counts(answer(element(TCP_KEY + b"\0\0\0\0", 1, 1)), "tcp_0", "Ethernet3")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = counts(netlink.messages(netlink.message(10 << 8 | 12, 0, data)), "tcp_0", "Ethernet3")
    except DataError:
        return
    assert isinstance(found, dict)


def test_what_grew_is_told_and_what_stood_still_is_not() -> None:
    other = TCP._replace(src_port=40001)
    before = {TCP: Count(3, 300), other: Count(7, 700)}
    assert grown(before, {TCP: Count(5, 550), other: Count(7, 700)}) == {TCP: Count(2, 250)}


def test_a_counter_that_began_anew_counts_from_nothing() -> None:
    assert grown({TCP: Count(30, 3000)}, {TCP: Count(2, 200)}) == {TCP: Count(2, 200)}
    assert grown({}, {TCP: Count(2, 200)}) == {TCP: Count(2, 200)}


def test_the_rules_have_three_sets_for_each_port_and_come_last() -> None:
    text = rules(["Ethernet1", "Ethernet2"])
    assert text.count("flags dynamic,timeout") == 6
    assert "hook postrouting priority 300" in text
    assert '"Ethernet1" : jump in_0, "Ethernet2" : jump in_1' in text
    assert sets_of(["Ethernet1", "Ethernet2"]) == {
        "tcp_0": "Ethernet1", "udp_0": "Ethernet1", "roce_0": "Ethernet1",
        "tcp_1": "Ethernet2", "udp_1": "Ethernet2", "roce_1": "Ethernet2",
    }  # fmt: skip
    assert all(f"set {name} " in text for name in sets_of(["Ethernet1", "Ethernet2"]))


def test_a_set_is_asked_for_by_its_name() -> None:
    [asked] = netlink.messages(request("tcp_0"))
    assert bytes(asked.body).count(b"leadline_flows\0") == 1
    assert b"tcp_0\0" in bytes(asked.body)


def test_packets_without_a_counter_are_known() -> None:
    listing = {"nftables": [{"metainfo": {}}, {"counter": {"name": "missed", "packets": 4, "bytes": 80}}]}
    assert missed(json.dumps(listing)) == 4
    for text in ("", "{}", '{"nftables": []}', "[]"):
        with pytest.raises(DataError, match="missed"):
            missed(text)
