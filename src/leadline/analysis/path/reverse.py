"""The flow that answers a flow: ids of the reversed five-tuples, a column at a time.

flow      10.1.1.1:40100 -> 10.1.2.1:5001      its id is a hash, so the answer's has to be hashed anew
answer    10.1.2.1:5001  -> 10.1.1.1:40100
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ids, Ints

Words = NDArray[np.uint64]

# What `model.ids.flow_id` hashes. Its queue pair is 0: that of an answer over RoCEv2 is the sender's, not told here.
_TUPLE = np.dtype(
    [("protocol", "u1"), ("src", "V16"), ("dst", "V16"), ("src_port", ">u2"), ("dst_port", ">u2"), ("dst_qp", ">u4")]
)
_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)


def packed_addresses(texts: Sequence[str]) -> tuple[NDArray[np.void], Bools]:
    """Addresses as 16 bytes each, IPv4 in its IPv6 form, and which of them are addresses at all (the rest are 0)."""
    packed = [_packed(text) for text in texts]
    known_A = np.array([each is not None for each in packed], bool)
    return np.frombuffer(b"".join(each or bytes(16) for each in packed), "V16"), known_A


def spelled(text: str) -> str:
    """The one spelling of an address that is used here: `10.1.1.1` also for `::ffff:10.1.1.1`; other text as it is."""
    if ":" not in text:
        return text
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    return str(address.ipv4_mapped or address)


def reversed_ids(
    src_N: NDArray[np.void], dst_N: NDArray[np.void], src_port_N: Ints, dst_port_N: Ints, protocol_N: Ints
) -> Ids:
    """Ids (N, 2) of the flows from `dst` to `src`, as `model.ids.flow_id` gives them without a queue pair.

    Inputs: packed addresses (`packed_addresses`), ports and protocol of the flows themselves.
    """
    tuples = np.zeros(len(src_N), _TUPLE)
    tuples["protocol"], tuples["src"], tuples["dst"] = protocol_N, dst_N, src_N
    tuples["src_port"], tuples["dst_port"] = dst_port_N, src_port_N
    return _murmur3_128(tuples.view(np.uint8).reshape(len(tuples), _TUPLE.itemsize))


def _packed(text: str) -> bytes | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed


def _murmur3_128(data_NB: NDArray[np.uint8]) -> Ids:
    """MurmurHash3 x64 128, seed 0, of rows of 41 bytes: two blocks of 16 and a tail of 9 (see `model.ids`)."""
    words_N4 = np.ascontiguousarray(data_NB[:, :32]).view("<u8")
    tail_N = np.ascontiguousarray(data_NB[:, 32:40]).view("<u8")[:, 0]
    h1 = np.zeros(len(data_NB), np.uint64)
    h2 = np.zeros(len(data_NB), np.uint64)
    for block in (0, 2):
        h1 = (_rotated(h1 ^ _mixed1(words_N4[:, block]), 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 = (_rotated(h2 ^ _mixed2(words_N4[:, block + 1]), 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    h2 ^= _mixed2(data_NB[:, 40].astype(np.uint64))
    h1 ^= _mixed1(tail_N)
    length = np.uint64(data_NB.shape[1])
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2
    h2 = h2 + h1
    h1, h2 = _final(h1), _final(h2)
    h1 = h1 + h2
    return np.column_stack((h1, h2 + h1))


def _rotated(value_N: Words, by: int) -> Words:
    return value_N << np.uint64(by) | value_N >> np.uint64(64 - by)


def _mixed1(word_N: Words) -> Words:
    return _rotated(word_N * _C1, 31) * _C2


def _mixed2(word_N: Words) -> Words:
    return _rotated(word_N * _C2, 33) * _C1


def _final(hash_N: Words) -> Words:
    hash_N = (hash_N ^ hash_N >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    hash_N = (hash_N ^ hash_N >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return hash_N ^ hash_N >> np.uint64(33)
