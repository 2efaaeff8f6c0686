"""What probers say: packets to each other, lines to the agent, files of raw stamps."""

from __future__ import annotations

import contextlib

from leadline.host.mesh.lines import parse_line
from leadline.host.mesh.packet import PACKET_BYTES, Packet, Refusal, decode, encode, siphash24
from leadline.host.mesh.recorded import RECORD, parse_recorded
from leadline.model.errors import DataError

KEY, OWN, BOOT = bytes(range(16)), 1, 7
WORDS = {
    "probe_packet": ["LP\x01S"],
    "prober_line": ['"kind":"edge"', '"kind":"silent"', '"kind":"counters"', '"there":{', '"valid":true',
                    '"state":"torn"',
                    '"hops":[null', '"refused":{', "NaN", "-Infinity", "1e308", "9" * 30, "true"],
    "probe_record": ["LLPR\x00\x01\x004"],
}  # fmt: skip


def probe_packet(data: bytes) -> None:
    """A packet, as it comes and with a tag that holds: then it is read as what it was written from."""
    assert isinstance(decode(data, KEY, OWN, BOOT), Packet | Refusal)
    if len(data) != PACKET_BYTES:
        return
    key = data[-16:]  # a key by which any bytes are tagged, as a peer that lies could tag them
    found = decode(data[:-8] + _tag(data[:-8], key), key, OWN, BOOT)
    if isinstance(found, Packet):
        assert decode(encode(found, key, OWN, BOOT), key, OWN, BOOT) == found


def _tag(covered: bytes, key: bytes) -> bytes:
    return siphash24(key, covered + OWN.to_bytes(8) + BOOT.to_bytes(4)).to_bytes(8)


def prober_line(data: bytes) -> None:
    """A line of a prober."""
    with contextlib.suppress(DataError):
        parse_line(data)


def probe_record(data: bytes) -> None:
    """A file of raw stamps."""
    with contextlib.suppress(DataError):
        found = list(parse_recorded(data))
        assert len(found) == (len(data) - 8) // RECORD.size
