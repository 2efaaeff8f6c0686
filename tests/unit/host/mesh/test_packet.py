"""The probe packet: the same bytes in C and in Python, and a reason for each that is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.host.mesh.native import Native

from leadline.host.mesh.packet import (
    PACKET_BYTES,
    Packet,
    Refusal,
    Stamp,
    Told,
    decode,
    encode,
    siphash24,
)

KEY = bytes(range(16))
OWN, PEER, OWN_BOOT, PEER_BOOT = 0x1111, 0x2222222222222222, 7, 8
BASE_NS = 1_795_869_243_327_682_352
GOLDEN = Packet(
    PEER, PEER_BOOT, 1000, 1, 46, 3, Stamp.KERNEL, Stamp.USER, BASE_NS, 1999, 2000,
    (Told(1, BASE_NS - 20_000_000), Told(2, BASE_NS - 20_003_000)), (Told(1, BASE_NS - 5), Told(4, BASE_NS + 6)),
)  # fmt: skip
GOLDEN_BYTES = bytes.fromhex(
    "4c50015322222222222222220000000800000000000003e8032e0318ec358fd79897301200feced300fecec748000000"
    "000000000007cf07d01400fffffffb000000060000000000000000047473d69f90b268"
)


def told() -> st.SearchStrategy[tuple[Told, ...]]:
    return st.lists(
        st.builds(Told, st.integers(1, 15), st.integers(-(1 << 31), (1 << 31) - 1).map(lambda ns: BASE_NS + ns)),
        max_size=4,
    ).map(tuple)


PACKETS = st.builds(
    Packet,
    sender=st.integers(1, (1 << 64) - 1).filter(lambda id: id != OWN),
    boot=st.integers(1, (1 << 32) - 1),
    seq=st.integers(0, (1 << 62) - 1),
    position=st.integers(0, 1),
    traffic_class=st.integers(0, 63),
    label=st.integers(0, 15),
    tx_kind=st.sampled_from(Stamp),
    rx_kind=st.sampled_from(Stamp),
    base_ns=st.just(BASE_NS),
    newest=st.integers(0, 65535),
    arrived=st.integers(0, 65535),
    sent=told(),
    received=told(),
)


def test_siphash_is_the_published_one() -> None:
    """The vector of the paper's appendix A: key 00..0f, message 00..0e."""
    assert siphash24(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


def test_golden_bytes(native: Native) -> None:
    assert encode(GOLDEN, KEY, OWN, OWN_BOOT) == GOLDEN_BYTES
    assert native.encode(GOLDEN, KEY, OWN, OWN_BOOT) == GOLDEN_BYTES
    assert decode(GOLDEN_BYTES, KEY, OWN, OWN_BOOT) == native.decode(GOLDEN_BYTES, KEY, OWN, OWN_BOOT) == GOLDEN


@given(packet=PACKETS, boot=st.sampled_from([0, OWN_BOOT]))
@settings(deadline=None)
def test_both_write_and_read_alike(native: Native, packet: Packet, boot: int) -> None:
    data = encode(packet, KEY, OWN, boot)
    assert native.encode(packet, KEY, OWN, boot) == data
    expected = packet._replace(is_hello=not boot)
    assert decode(data, KEY, OWN, OWN_BOOT) == native.decode(data, KEY, OWN, OWN_BOOT) == expected


@given(data=st.one_of(st.binary(max_size=100), st.binary(min_size=80, max_size=80).map(lambda rest: b"LP\x01" + rest)))
@settings(deadline=None)
def test_any_bytes_are_a_packet_or_refused_alike(native: Native, data: bytes) -> None:
    assert decode(data, KEY, OWN, OWN_BOOT) == native.decode(data, KEY, OWN, OWN_BOOT)


@given(bit=st.integers(0, PACKET_BYTES * 8 - 1))
@settings(deadline=None)
def test_no_bit_can_be_changed(native: Native, bit: int) -> None:
    data = bytearray(GOLDEN_BYTES)
    data[bit // 8] ^= 1 << bit % 8
    for read in (decode, native.decode):
        assert isinstance(read(bytes(data), KEY, OWN, OWN_BOOT), Refusal)


@pytest.mark.parametrize(
    ("data", "own", "boot", "refusal"),
    [
        (b"", OWN, OWN_BOOT, Refusal.TRUNCATED),
        (GOLDEN_BYTES[:-1], OWN, OWN_BOOT, Refusal.TRUNCATED),
        (GOLDEN_BYTES + b"\0", OWN, OWN_BOOT, Refusal.LENGTH),
        (b"LQ" + GOLDEN_BYTES[2:], OWN, OWN_BOOT, Refusal.MAGIC),
        (b"LP\x02" + GOLDEN_BYTES[3:], OWN, OWN_BOOT, Refusal.VERSION),
        (GOLDEN_BYTES, PEER, OWN_BOOT, Refusal.REFLECTED),
        (GOLDEN_BYTES, OWN + 1, OWN_BOOT, Refusal.TAG),
        (GOLDEN_BYTES, OWN, OWN_BOOT + 1, Refusal.TAG),
        (encode(GOLDEN._replace(traffic_class=64), KEY, OWN, OWN_BOOT), OWN, OWN_BOOT, Refusal.FIELD),
        (encode(GOLDEN._replace(boot=0), KEY, OWN, OWN_BOOT), OWN, OWN_BOOT, Refusal.FIELD),
        (encode(GOLDEN._replace(base_ns=-1), KEY, OWN, OWN_BOOT), OWN, OWN_BOOT, Refusal.FIELD),
        (encode(GOLDEN._replace(label=16), KEY, OWN, OWN_BOOT), OWN, OWN_BOOT, Refusal.FIELD),
    ],
    ids=["empty", "truncated", "longer", "magic", "version", "reflected", "other-host", "earlier-life", "class", "boot",
         "base", "label"],
)  # fmt: skip
def test_each_refusal_has_its_reason(native: Native, data: bytes, own: int, boot: int, refusal: Refusal) -> None:
    assert decode(data, KEY, own, boot) is refusal
    assert native.decode(data, KEY, own, boot) is refusal


def test_another_key_is_refused(native: Native) -> None:
    for read in (decode, native.decode):
        assert read(GOLDEN_BYTES, b"x" * 16, OWN, OWN_BOOT) is Refusal.TAG


def test_times_out_of_reach_are_left_out(native: Native) -> None:
    far = (Told(1, BASE_NS + (1 << 31)), Told(16, BASE_NS), Told(2, BASE_NS))
    data = encode(GOLDEN._replace(sent=far), KEY, OWN, OWN_BOOT)
    assert native.encode(GOLDEN._replace(sent=far), KEY, OWN, OWN_BOOT) == data
    found = decode(data, KEY, OWN, OWN_BOOT)
    assert isinstance(found, Packet)
    assert found.sent == (Told(2, BASE_NS),)
