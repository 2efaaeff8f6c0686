"""The event ring's bytes: layout of the file, of its records, and of the segments that carry them to the server.

    0      header     what never changes: who writes, how large, where the parts begin
    192    live       written, strings_written, dropped, cut, closed
    256    strings    append-only (u16 length, UTF-8 bytes) of string 1, 2, 3, ...; string 0 is ""
    ...    records    `capacity` slots of 64 bytes; record n (from 1) lies in slot (n - 1) mod capacity

One producer per ring; anyone may read, at any time, also after the producer was killed. A writer stores, in this
order: 0 as the slot's number, the slot's body, the record's own number; and after the last record of a group
`written`. So everything up to `written` is whole, and a record that does not bear the expected number is
overwritten or torn. The oldest records are overwritten: what happened last before a crash matters most.

Standard library only, because the torch hook and the agent import this. The specification is docs/formats/ring.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from leadline.model.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap

    RingBuffer = bytes | bytearray | memoryview | mmap
    # Bytes of a ring from an offset on, so many or an error; each call looks at the ring anew.
    Look = Callable[[int, int], bytes]

MAGIC = b"LEADRING"
SEGMENT_MAGIC = b"LEADSEG1"
VERSION = 1
RECORD_BYTES = 64
HEADER_BYTES = 256  # header and live words
LIVE = 192  # where the live words begin
WRITTEN, STRINGS_WRITTEN, DROPPED, CUT, CLOSED = range(LIVE, LIVE + 5 * 8, 8)
STRINGS_MAX = 65_535  # records name strings by 16 bits
WRITTEN_MAX = 2**63 - 1  # records: at a billion a second 292 years; a larger number is damage, and has no next one
TEXT_BYTES_MAX = 1024  # of one string; longer ones are cut
GROUP_MAX = 64  # records that belong together and are published at once
MORE = 1  # flag of a record: the next one belongs to it

SEGMENT_BYTES_MAX = 1 << 20  # what the agent sends at once: 16,000 records

# magic, version, header bytes, record bytes, spare, capacity, strings at, strings bytes, records at, boot id, pid,
# tid, start realtime and monotonic ns, rank, world size, strings: host, job, clock, source, gpu; start ticks of pid
HEADER = struct.Struct("<8sIIIIQQQQ16sIIqqiiIIIIIxxxxQ")
# magic, version, header bytes, segment bytes, first number, lost before it, records, bytes of strings; then a copy of
# the ring's header and live words, the strings, the records
SEGMENT = struct.Struct("<8sIIQQQII")
SEGMENT_HEADER_BYTES = SEGMENT.size + HEADER_BYTES

_WORD = struct.Struct("<Q")
_LIVE = struct.Struct("<5Q")  # the live words, in their order


class Kind(IntEnum):
    """What a record is. Kinds with the bit FOLLOWS belong to the record before them, whose flags say MORE."""

    COLLECTIVE = 1  # begin, start or end: `state` says which
    MESSAGE = 2  # begin (end_ns is 0) or end
    STEP = 3  # begin (end_ns is 0) or end
    EVENT = 4
    RELATION = 5
    CLOCK = 6  # realtime and monotonic clock, read at the same moment
    STEP_MORE = 0x81  # the rest of a step's numbers
    VALUE = 0x82  # up to three named values of a step
    TEXT = 0x83  # a piece of an event's message, or of one of its attributes


FOLLOWS = 0x80

# Bodies: what follows number, kind and flags. Strings are named by number (H). The same fields as numpy sees them
# are in wire/ring/segments.py.
# comm, op, dtype, seq, bytes, enqueued ns, started ns, finished ns (0: not yet), ranks, algo, state
COLLECTIVE_BODY = struct.Struct("<BBHHHQQqqqIHBx")
# comm, channel, flow, seq, bytes, begin ns, end ns (0: not yet), step, peer, side
MESSAGE_BODY = struct.Struct("<BBHHHQQqqIiB7x")
# which of STEP_FIELDS are given, spare, spare, step, start ns, end ns (0: not yet), data, forward, backward ns
STEP_BODY = struct.Struct("<BBHHHqqqqqq")
# optimizer, checkpoint ns, samples, tokens, loss
STEP_MORE_BODY = struct.Struct("<BBHHHqqddd8x")
# three names (0: none), three values
VALUE_BODY = struct.Struct("<BBHHHddd24x")
# kind, severity, code, time ns, entity
EVENT_BODY = struct.Struct("<BBHHHqH38x")
# name (0: the message), bytes used, spare, bytes
TEXT_BODY = struct.Struct("<BBHHH48s")
# child, parent, kind, from ns, to ns (0: it holds), confidence
RELATION_BODY = struct.Struct("<BBHHHqqd24x")
# spare, spare, spare, realtime ns, monotonic ns
CLOCK_BODY = struct.Struct("<BBHHHqq32x")
BODIES = (COLLECTIVE_BODY, MESSAGE_BODY, STEP_BODY, STEP_MORE_BODY, VALUE_BODY, EVENT_BODY, TEXT_BODY,
          RELATION_BODY, CLOCK_BODY)  # fmt: skip
assert all(body.size == RECORD_BYTES - 8 for body in BODIES)
assert HEADER.size <= LIVE

TEXT_PIECE = 48
VALUES = 3  # in one VALUE record

STATES = ("", "enqueued", "started", "finished", "failed")  # of a collective, by number
ENQUEUED, STARTED, FINISHED, FAILED = 1, 2, 3, 4
SIDES = ("send", "recv")  # of a message
# Bits of a step's first field: which of these are given.
STEP_FIELDS = (
    "data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns", "samples", "tokens", "loss",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RingHeader:
    """Who writes a ring, and how far it is. `rank` is -1 where there is none; `gpu` is an entity id or empty."""

    capacity: int
    strings_at: int
    strings_bytes: int
    records_at: int
    boot_id: bytes
    pid: int
    tid: int
    pid_start_ticks: int  # field 22 of /proc/PID/stat; 0 if unknown. With pid it names one process.
    start_ns: int  # realtime
    start_monotonic_ns: int
    rank: int
    world_size: int
    host: str
    job: str
    clock: str
    source: str
    gpu: str
    written: int
    dropped: int
    cut: int
    closed: bool


class Fixed(NamedTuple):
    """The fields of `HEADER` as they lie there; texts are numbers of strings."""

    magic: bytes
    version: int
    header_bytes: int
    record_bytes: int
    spare: int
    capacity: int
    strings_at: int
    strings_bytes: int
    records_at: int
    boot_id: bytes
    pid: int
    tid: int
    start_ns: int
    start_monotonic_ns: int
    rank: int
    world_size: int
    host: int
    job: int
    clock: int
    source: int
    gpu: int
    pid_start_ticks: int


class Live(NamedTuple):
    """The words of a ring that change: how far it is, what was dropped and cut, whether its writer closed it."""

    written: int
    strings_written: int
    dropped: int
    cut: int
    closed: int


class Reading(NamedTuple):
    """What `read_segment` found: `segment` is empty if there is no data."""

    segment: bytes
    last: int  # give this with the next call
    lost: int  # records that were overwritten before they were read; the segment tells the server, too
    more: bool  # there are more records already


def clock_name(host: str, boot_id: bytes) -> str:
    """The name of a host's clock: `n12/7f3a90b1`. `boot_id` are the 16 bytes of /proc/sys/kernel/random/boot_id."""
    return f"{host}/{boot_id.hex()[:8]}" if any(boot_id) else host


def read_header(ring: RingBuffer) -> RingHeader:
    """The header of a ring that may be written to meanwhile. Errors: DataError for bytes that are no ring."""
    view = memoryview(ring).cast("B")
    return header_at(_slices(view), len(view))


def header_at(look: Look, size: int) -> RingHeader:
    """The same of a ring of that many bytes that is not in memory. Errors: DataError, and what `look` raises."""
    header, fixed, live = _header(look, size)
    strings = look(fixed.strings_at, live.strings_written)
    return _named(memoryview(header), fixed, split_strings(strings))


def live_at(look: Look) -> Live:
    """The words that change, of a ring whose header was read before."""
    return Live._make(_LIVE.unpack(look(LIVE, _LIVE.size)))


def read_segment(ring: RingBuffer, last: int, bytes_max: int = SEGMENT_BYTES_MAX) -> Reading:
    """The records after number `last` (0 at first), as one segment that `ring.decode_ring` understands by itself.

    Inputs: the ring's bytes, which may be written to meanwhile; the number of the last record read before; the most
    bytes of records to take (at least one group is).
    Returns: Reading. Cuts only between groups. Records that were overwritten are counted as lost.
    Errors: DataError for bytes that are no ring, and for a ring that was written less than read (it is another one).
    Source: the retry-free reader of a sequence lock, per record: copy, then look whether the numbers still stand.
    """
    view = memoryview(ring).cast("B")
    return segment_at(_slices(view), len(view), last, bytes_max)


def segment_at(look: Look, size: int, last: int, bytes_max: int = SEGMENT_BYTES_MAX) -> Reading:
    """The same of a ring of `size` bytes that is not in memory. The order of the looks matters: how far it is written,
    the records, the strings they name, and whether the records' numbers still stand. Errors: also what `look` raises.
    """
    header, fixed, live = _header(look, size)
    capacity, records_at = fixed.capacity, fixed.records_at
    written = live.written
    if written < last:
        raise DataError("ring", f"at least {last} records, as were read before", f"{written}; it is another ring")
    first = max(last + 1, written - capacity + 1)
    count_max = max(GROUP_MAX, bytes_max // RECORD_BYTES)
    count = min(written - first + 1, count_max)
    copy = _copied(look, records_at, capacity, first, count)
    header, fixed_now, live = _header(look, size)  # after `written`: every string a record names is in it
    if fixed_now != fixed:
        raise DataError("ring", "the header it had", "another one; it is another ring")
    strings = look(fixed.strings_at, live.strings_written)
    intact = _first_intact(look, records_at, capacity, first, count)
    skip = _group_start(copy, intact)
    stop = _group_end(copy, skip, count) if count < written - first + 1 else count
    lost = first - last - 1 + skip
    if stop <= skip and not lost:
        return Reading(b"", last, 0, False)
    records = copy[skip * RECORD_BYTES : max(skip, stop) * RECORD_BYTES]
    new_last = first + max(skip, stop) - 1
    head = _segment_head(header, strings, first + skip, lost, len(records) // RECORD_BYTES)
    return Reading(head + strings + records, new_last, lost, new_last < written)


def _slices(view: memoryview) -> Look:
    """Looks at a ring that is in memory."""
    return lambda at, size: bytes(view[at : at + size])


def _header(look: Look, size: int) -> tuple[bytes, Fixed, Live]:
    """The header and the live words of a ring; every part lies inside its `size` bytes. Errors: DataError.

    The live words come by a look of their own: the kernel copies a few words one by one, each whole, and of more than
    64 bytes it promises nothing.
    """
    if size < HEADER_BYTES:
        raise DataError("ring", f"a header of {HEADER_BYTES} bytes", f"{size} bytes")
    live = live_at(look)
    header = look(0, HEADER_BYTES)
    header = header[:LIVE] + _LIVE.pack(*live) + header[LIVE + _LIVE.size :]
    return header, _layout(header, size), live


def split_strings(table: bytes) -> list[str]:
    """The strings of a table, string 0 ("") first. Errors: DataError for a table cut short or not UTF-8."""
    strings = [""]
    at = 0
    while at < len(table):
        length = int.from_bytes(table[at : at + 2], "little")
        end = at + 2 + length
        if end > len(table) or length > TEXT_BYTES_MAX or len(strings) > STRINGS_MAX:
            expected = f"at most {STRINGS_MAX} of {TEXT_BYTES_MAX} bytes, inside the table of {len(table)} bytes"
            raise DataError(f"string {len(strings)} of a ring", expected, f"{length} bytes at byte {at}")
        try:
            strings.append(str(table[at + 2 : end], "utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(f"string {len(strings)} of a ring", "UTF-8", str(error)) from None
        at = end
    return strings


def header_of(header: bytes | memoryview, strings: list[str]) -> RingHeader:
    """The header that a segment carries, with its texts. Errors: DataError."""
    return _named(memoryview(header), _fixed(header), strings)


def _fixed(header: bytes | memoryview) -> Fixed:
    """The header, checked as far as it can be without the ring. Errors: DataError."""
    if len(header) < HEADER_BYTES:
        raise DataError("ring", f"a header of {HEADER_BYTES} bytes", f"{len(header)} bytes")
    fixed = Fixed._make(HEADER.unpack_from(header))
    if fixed.magic != MAGIC:
        raise DataError("ring", f"the magic {MAGIC!r}", repr(fixed.magic))
    for name, expected, got in (
        ("version", VERSION, fixed.version),
        ("bytes of the header", HEADER_BYTES, fixed.header_bytes),
        ("bytes of a record", RECORD_BYTES, fixed.record_bytes),
    ):
        if expected != got:
            raise DataError(f"ring, {name}", str(expected), str(got))
    return fixed


def _layout(header: bytes, size: int) -> Fixed:
    """The header of a ring of so many bytes; every part lies inside it. Errors: DataError."""
    fixed = _fixed(header)
    view = memoryview(header)
    if fixed.capacity < GROUP_MAX or fixed.capacity & (fixed.capacity - 1):
        raise DataError("ring, capacity", f"a power of two, at least {GROUP_MAX}", str(fixed.capacity))
    strings_end = fixed.strings_at + fixed.strings_bytes
    if fixed.strings_at < HEADER_BYTES or strings_end > fixed.records_at or fixed.records_at % 8:
        got = f"strings from {fixed.strings_at} to {strings_end}, records at {fixed.records_at}"
        raise DataError("ring, its parts", "header, strings, records", got)
    end = fixed.records_at + fixed.capacity * RECORD_BYTES
    if end > size:
        raise DataError("ring", f"{end} bytes", f"{size}")
    if _word(view, STRINGS_WRITTEN) > fixed.strings_bytes:
        raise DataError("ring, strings written", f"at most {fixed.strings_bytes}", str(_word(view, STRINGS_WRITTEN)))
    if _word(view, WRITTEN) > WRITTEN_MAX:
        raise DataError("ring, records written", f"at most {WRITTEN_MAX}", str(_word(view, WRITTEN)))
    return fixed


def _named(view: memoryview, fixed: Fixed, strings: list[str]) -> RingHeader:
    def string(number: int) -> str:
        if number >= len(strings):
            raise DataError("ring, header", f"a string up to {len(strings) - 1}", str(number))
        return strings[number]

    return RingHeader(
        capacity=fixed.capacity,
        strings_at=fixed.strings_at,
        strings_bytes=fixed.strings_bytes,
        records_at=fixed.records_at,
        boot_id=fixed.boot_id,
        pid=fixed.pid,
        tid=fixed.tid,
        pid_start_ticks=fixed.pid_start_ticks,
        start_ns=fixed.start_ns,
        start_monotonic_ns=fixed.start_monotonic_ns,
        rank=fixed.rank,
        world_size=fixed.world_size,
        host=string(fixed.host),
        job=string(fixed.job),
        clock=string(fixed.clock),
        source=string(fixed.source),
        gpu=string(fixed.gpu),
        written=_word(view, WRITTEN),
        dropped=_word(view, DROPPED),
        cut=_word(view, CUT),
        closed=bool(_word(view, CLOSED)),
    )


def _word(view: memoryview, at: int) -> int:
    return int(_WORD.unpack_from(view, at)[0])


def _copied(look: Look, records_at: int, capacity: int, first: int, count: int) -> bytes:
    """The slots of `count` records from number `first`, in the order of their numbers."""
    slot = (first - 1) % capacity
    ahead = min(count, capacity - slot)
    copy = look(records_at + slot * RECORD_BYTES, ahead * RECORD_BYTES) if ahead else b""
    return copy + look(records_at, (count - ahead) * RECORD_BYTES) if count > ahead else copy


def _first_intact(look: Look, records_at: int, capacity: int, first: int, count: int) -> int:
    """How many of the oldest records were overwritten since: slots are overwritten in order, so the rest stands.

    Nearly always the oldest still stands, and one look says so; else one more copy of all.
    """
    if not count:
        return 0
    slot = (first - 1) % capacity
    if _WORD.unpack(look(records_at + slot * RECORD_BYTES, _WORD.size))[0] == first:
        return 0
    again = _copied(look, records_at, capacity, first, count)
    for gone in range(count):
        if _WORD.unpack_from(again, gone * RECORD_BYTES)[0] == first + gone:
            return gone
    return count


def _group_start(copy: bytes, intact: int) -> int:
    """The first record from `intact` on that belongs to no record before it."""
    count = len(copy) // RECORD_BYTES
    while intact < count and copy[intact * RECORD_BYTES + 8] & FOLLOWS:
        intact += 1
    return intact


def _group_end(copy: bytes, start: int, count: int) -> int:
    """The end of the last whole group among the first `count` records."""
    while count > start and copy[(count - 1) * RECORD_BYTES + 9] & MORE:
        count -= 1
    return count


def _segment_head(header: bytes, strings: bytes, first: int, lost: int, count: int) -> bytes:
    size = SEGMENT_HEADER_BYTES + len(strings) + count * RECORD_BYTES
    head = SEGMENT.pack(SEGMENT_MAGIC, VERSION, SEGMENT_HEADER_BYTES, size, first, lost, count, len(strings))
    return head + header
