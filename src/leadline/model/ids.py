"""Entity ids (`kind:name`), and the 128-bit ids of series and flows.

A series id is MurmurHash3 x64 128 (seed 0) over the canonical label bytes: labels sorted by name (byte order),
`__name__` included, each written as Prometheus' protobuf `Label` inside a `TimeSeries`:

    0a <len> 0a <len> <name utf-8> 12 <len> <value utf-8>        lengths are shortest-form varints

Its highest 32 bits are those of the metric's name instead, so that streams of one metric lie together where they are
sorted by id: who asks for one metric of 20,000 streams reads its own rows, not everybody's.

A sender that already writes this form (every Prometheus does) is hashed where its bytes lie, without decoding.
The hash is fast, not secret: ids are only compared within one tenant, so a tenant can at most confuse itself.
Source of the hash: Austin Appleby, MurmurHash3.cpp (public domain), MurmurHash3_x64_128.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from leadline.model.errors import UsageError

# The kinds of thing that Leadline knows, from the surface down.
ENTITY_KINDS = (
    "tenant", "cluster", "job", "rank", "comm", "gpu", "nvlink", "host", "port", "qp", "flow", "switch",
    "swport", "link", "xcvr", "storage", "service", "process", "pod", "address",
)  # fmt: skip

_IN_JOBS = ("rank", "comm")  # their names begin with that of their job

_MASK = (1 << 64) - 1
_LOW_32 = (1 << 32) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


class EntityId(NamedTuple):
    """An entity's kind and name; `str()` gives the stored form `kind:name`.

    A name may have two parts, with a slash between: `rank:JOB/3`, `port:HOST/eth0`, `swport:SWITCH/Ethernet1/1`. Names of
    jobs may have slashes themselves, so a rank's last part is its number, and all before it the job. Names of ports may
    have slashes too, those of hosts and switches do not, so of all others the first slash parts them.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def of(cls, text: str) -> EntityId:
        """The id in a text that was stored as one; of a text without a colon kind and name are empty. Never fails: what
        a sender or a person wrote is checked by `parse_entity_id`."""
        kind, colon, name = text.partition(":")
        return cls(kind if colon else "", name)

    @property
    def holder(self) -> str:
        """The name of what it belongs to: the job of a rank, the host of a port; empty if its name is one part."""
        if self.kind in _IN_JOBS:
            return self.name.rpartition("/")[0]
        return self.first if "/" in self.name else ""

    @property
    def first(self) -> str:
        """The first part of its name: the host of a process or port, whatever follows."""
        return self.name.partition("/")[0]

    @property
    def part(self) -> str:
        """Its own name within the holder: `3` of a rank, `eth0` of a port; all of a name that is one part."""
        return self.name[len(self.holder) + 1 :] if self.holder else self.name

    @property
    def job(self) -> str:
        """The job's name, of a job, rank or communicator; empty of others."""
        if self.kind in _IN_JOBS:
            return self.holder
        return self.name if self.kind == "job" else ""

    @property
    def host(self) -> str:
        """The host's name that its own name tells, of a host, port, process or transceiver; empty of others."""
        if self.kind in ("port", "process", "xcvr"):
            return self.first if "/" in self.name else ""
        return self.name if self.kind == "host" else ""

    @property
    def switch(self) -> str:
        """The switch's name, of a switch or one of its ports; empty of others."""
        if self.kind == "swport":
            return self.holder
        return self.name if self.kind == "switch" else ""

    @property
    def ends(self) -> tuple[str, str]:
        """Names of the two ports of a link, `h3/eth0` and `leaf1/Ethernet3`; empty texts of others."""
        first, _, second = self.name.partition("~")
        return (first, second) if self.kind == "link" else ("", "")


def kind_of(entity: str) -> str:
    """The kind of an entity id, empty of other texts: `EntityId.of(entity).kind`, without the rest."""
    return entity[: max(entity.find(":"), 0)]


def name_of(entity: str) -> str:
    """The name of an entity id: `EntityId.of(entity).name`, without the rest."""
    return entity.partition(":")[2]


def entity_id(kind: str, *parts: str) -> str:
    """The id of an entity: `entity_id("port", "n12", "mlx5_3")` is `port:n12/mlx5_3`.

    Errors: UsageError for a kind not in `ENTITY_KINDS` or an empty part.
    """
    if kind not in ENTITY_KINDS:
        raise UsageError(f"entity kind must be one of {', '.join(ENTITY_KINDS)}; got {kind!r}")
    if not parts or not all(parts):
        raise UsageError(f"a {kind} needs a name that is not empty; got {parts!r}")
    return f"{kind}:{'/'.join(parts)}"


def parse_entity_id(text: str) -> EntityId:
    """Split `kind:name`. Errors: UsageError if there is no known kind or no name."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in ENTITY_KINDS or not name:
        raise UsageError(f"an entity id is kind:name with a kind of {', '.join(ENTITY_KINDS)}; got {text!r}")
    return EntityId(kind, name)


def link_id(end_a: str, end_b: str) -> str:
    """The id of the link between two switch or NIC ports, the same whichever end is named first."""
    first, second = sorted((end_a.partition(":")[2] or end_a, end_b.partition(":")[2] or end_b))
    return entity_id("link", f"{first}~{second}")


def canonical_labels(labels: Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """The bytes that a series id is the hash of. Labels with an empty value are left out, as Prometheus does."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    encoded = sorted((name.encode(), value.encode()) for name, value in pairs if value)
    out = bytearray()
    for name, value in encoded:
        label = b"\x0a" + _varint(len(name)) + name + b"\x12" + _varint(len(value)) + value
        out += b"\x0a" + _varint(len(label)) + label
    return bytes(out)


def series_id(labels: Mapping[str, str] | Iterable[tuple[str, str]]) -> int:
    """The 128-bit id of the series with these labels (`__name__` among them)."""
    return series_id_of(canonical_labels(labels))


def series_id_of(encoded: bytes) -> int:
    """The same of canonical label bytes: the hash of all, its highest 32 bits replaced by the lowest of the name's."""
    of_name = murmur3_128(_name_in(encoded)) & _LOW_32
    return of_name << 96 | murmur3_128(encoded) & ((1 << 96) - 1)


def flow_id(protocol: int, src_ip: str, dst_ip: str, src_port: int, dst_port: int, dst_qp: int | None = None) -> int:
    """The 128-bit id of a directional flow: protocol, addresses, ports, destination queue pair or 0.

    IPv4 addresses are hashed in their IPv4-mapped IPv6 form, so both spellings of one address agree.
    Errors: ValueError for an address or number out of range.
    """
    packed = struct.pack(">B16s16sHHI", protocol, _mapped(src_ip), _mapped(dst_ip), src_port, dst_port, dst_qp or 0)
    return murmur3_128(packed)


def _mapped(address: str) -> bytes:
    parsed = ipaddress.ip_address(address)
    return b"\0" * 10 + b"\xff\xff" + parsed.packed if parsed.version == 4 else parsed.packed


def _name_in(encoded: bytes) -> bytes:
    """The value of `__name__` in canonical label bytes; empty if there is none."""
    at = 0
    while at < len(encoded):
        size, at = read_varint(encoded, at + 1)
        stop = at + size
        name_size, at = read_varint(encoded, at + 1)
        name, after = encoded[at : at + name_size], at + name_size
        if name == b"__name__":
            value_size, at = read_varint(encoded, after + 1)
            return encoded[at : at + value_size]
        at = stop
    return b""


def read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    """A varint, and the place after it. Errors: IndexError where the bytes end within it."""
    value = shift = 0
    while encoded[at] > 0x7F:
        value |= (encoded[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | encoded[at] << shift, at + 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def murmur3_128(data: bytes) -> int:
    """MurmurHash3 x64 128 with seed 0, as one integer whose low 64 bits are the reference's h1."""
    h1 = h2 = 0
    full = len(data) // 16
    for k1, k2 in struct.iter_unpack("<QQ", memoryview(data)[: full * 16]):
        h1 ^= _mix1(k1)
        h1 = (_rotl(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix2(k2)
        h2 = (_rotl(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[full * 16 :]
    if len(tail) > 8:
        h2 ^= _mix2(int.from_bytes(tail[8:], "little"))
    if tail:
        h1 ^= _mix1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _final(h1), _final(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return h2 << 64 | h1


def _rotl(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _mix1(k: int) -> int:
    return _rotl(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix2(k: int) -> int:
    return _rotl(k * _C2 & _MASK, 33) * _C1 & _MASK


def _final(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
