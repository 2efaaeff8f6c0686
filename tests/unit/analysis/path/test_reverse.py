"""Ids of reversed flows are those of `model.ids`, and addresses have one spelling."""

from __future__ import annotations

import numpy as np

from leadline.analysis.path.reverse import packed_addresses, reversed_ids, spelled
from leadline.model.ids import flow_id

ADDRESSES = ("10.1.1.1", "::ffff:10.2.3.4", "fe80::1", "255.255.255.255", "::")


def test_reversed_ids_are_those_of_the_flows_back() -> None:
    packed, known = packed_addresses(ADDRESSES)
    assert known.all()
    rows = [
        (protocol, src, dst, sport, dport)
        for protocol in (6, 17, 255)
        for src in range(5)
        for dst in range(5)
        for sport, dport in ((0, 65535), (40100, 5001))
    ]
    protocol, src, dst, sport, dport = np.array(rows, np.int64).T
    found = reversed_ids(packed[src], packed[dst], sport, dport, protocol)
    wanted = [flow_id(p, ADDRESSES[d], ADDRESSES[s], dp, sp) for p, s, d, sp, dp in rows]
    assert [int(high) << 64 | int(low) for low, high in found] == wanted


def test_no_flows_have_no_ids() -> None:
    packed, known = packed_addresses(())
    none = np.zeros(0, np.int64)
    assert reversed_ids(packed, packed, none, none, none).shape == (0, 2)
    assert len(known) == 0


def test_what_is_no_address_is_marked() -> None:
    assert packed_addresses(("", "10.1.1.1", "h3", "10.1.1.300"))[1].tolist() == [False, True, False, False]


def test_an_address_has_one_spelling() -> None:
    assert spelled("::FFFF:10.1.2.3") == spelled("10.1.2.3") == "10.1.2.3"
    assert spelled("FD00:0:0:0::7") == "fd00::7"
    assert spelled("no:address") == "no:address"
