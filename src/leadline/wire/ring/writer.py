"""Writes an event ring: about a microsecond or two per record, no lock, no system call, nothing raised.

    memory = mmap.mmap(fd, ring_bytes())                     # the caller opens the file and maps it
    format_ring(memory, host="n12", job="bert-7", rank=3, world_size=8, ...)
    ring = RingWriter(memory)
    ring.collective_begin("bert-7/0x9c", seq, "all_reduce", "float32", size, ranks, time.time_ns())

One writer per ring, in one thread. All times are given by the caller: CLOCK_REALTIME, ns since the Unix epoch.
What cannot be written (table of strings full, a number out of range, a ring that was closed) is counted in the
ring's header as `dropped`, and training goes on. Standard library only; the layout is in ring_format.py.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leadline.model.errors import UsageError
from leadline.wire.ring.format import (
    CLOCK_BODY,
    CLOSED,
    COLLECTIVE_BODY,
    CUT,
    DROPPED,
    ENQUEUED,
    EVENT_BODY,
    FAILED,
    FINISHED,
    GROUP_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MESSAGE_BODY,
    MORE,
    RECORD_BYTES,
    RELATION_BODY,
    SIDES,
    STARTED,
    STEP_BODY,
    STEP_MORE_BODY,
    STRINGS_MAX,
    STRINGS_WRITTEN,
    TEXT_BODY,
    TEXT_BYTES_MAX,
    TEXT_PIECE,
    VALUE_BODY,
    VALUES,
    VERSION,
    WRITTEN,
    Kind,
    clock_name,
    read_header,
    split_strings,
)

if TYPE_CHECKING:
    from mmap import mmap

    from leadline.wire.ring.format import RingHeader

    WritableBuffer = bytearray | memoryview | mmap

RECORDS = 16_384  # 1 MiB: a minute of 8 channels at 30 messages a second, both ends
STRINGS_BYTES = 64 * 1024  # about 1,800 flows of 32 hex digits beside the names

_SIDE = {side: number for number, side in enumerate(SIDES)}
_Record = tuple[struct.Struct, tuple[Any, ...]]


def ring_bytes(records: int = RECORDS, strings_bytes: int = STRINGS_BYTES) -> int:
    """Bytes of a ring of at least so many records (rounded up to a power of two) and so many bytes of strings."""
    return HEADER_BYTES + _aligned(strings_bytes) + _power(records) * RECORD_BYTES


def format_ring(
    buffer: WritableBuffer,
    *,
    host: str,
    job: str,
    rank: int,
    world_size: int,
    source: str,
    pid: int,
    tid: int,
    boot_id: bytes,
    start_ns: int,
    start_monotonic_ns: int,
    pid_start_ticks: int = 0,
    gpu: str = "",
    clock: str = "",
    strings_bytes: int = STRINGS_BYTES,
) -> None:
    """Make a fresh, empty ring of a buffer, as large as fits. The buffer is zero, or was a ring before.

    Inputs: `source` as in table collective (nccl-plugin, torch-hook, ring-benchmark); `rank` -1 and `world_size` 0
    outside a job; `boot_id` the 16 bytes of /proc/sys/kernel/random/boot_id (zero: unknown); `gpu` an entity id
    `gpu:GPU-...`; `clock` is host and boot id if not given.
    The magic is stored last: a ring without it is not ready.
    Errors: UsageError for a buffer or a text that is too small or too long, ValueError from struct for numbers.
    """
    _little_endian()
    view = memoryview(buffer).cast("B")
    records_at = HEADER_BYTES + _aligned(strings_bytes)
    capacity = _power_below((len(view) - records_at) // RECORD_BYTES)
    if capacity < GROUP_MAX:
        raise UsageError(
            f"a ring needs at least {ring_bytes(GROUP_MAX, strings_bytes)} bytes, got {len(view)}; see ring_bytes()"
        )
    if len(boot_id) != 16:
        raise UsageError(f"a boot id has 16 bytes, got {len(boot_id)}; give the UUID's bytes, not its text")
    view[:HEADER_BYTES] = bytes(HEADER_BYTES)
    view[records_at : records_at + capacity * RECORD_BYTES] = bytes(capacity * RECORD_BYTES)
    numbers, table = _first_strings((host, job, clock or clock_name(host, boot_id), source, gpu), strings_bytes)
    view[HEADER_BYTES : HEADER_BYTES + len(table)] = table
    view[STRINGS_WRITTEN : STRINGS_WRITTEN + 8] = len(table).to_bytes(8, "little")
    header = HEADER.pack(
        MAGIC, VERSION, HEADER_BYTES, RECORD_BYTES, 0, capacity, HEADER_BYTES, _aligned(strings_bytes), records_at,
        boot_id, pid, tid, start_ns, start_monotonic_ns, rank, world_size, *numbers, pid_start_ticks,
    )  # fmt: skip
    view[8 : len(header)] = header[8:]
    view[:8] = header[:8]


class RingWriter:
    """The one writer of a formatted ring. Every method writes one group of records and never raises.

    Construction goes on after what is in the ring already. Errors: DataError if the buffer is no ring, UsageError
    on a machine that is not little-endian or for a buffer that cannot be written.
    """

    def __init__(self, buffer: WritableBuffer) -> None:
        _little_endian()
        self.header: RingHeader = read_header(buffer)
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise UsageError("a ring's writer needs memory that can be written; map it with PROT_WRITE")
        header = self.header
        self._buffer = view[: header.records_at + header.capacity * RECORD_BYTES]
        # One aligned 8-byte store per word, which is whole or not there; struct would store byte by byte.
        self._words = self._buffer.cast("Q")
        self._mask = header.capacity - 1
        self._records_at = header.records_at
        self._next = header.written + 1
        self._strings = _Strings(self._buffer, self._words, header)
        self._open = True

    # -- collectives --------------------------------------------------------------------------------------

    def collective_begin(
        self, comm: str, seq: int, op: str, dtype: str, size: int, ranks: int, enqueued_ns: int, algo: str = ""
    ) -> None:
        """The call was made. `size` is the payload of this rank in bytes, `ranks` the communicator's size."""
        self._collective(comm, seq, op, dtype, size, ranks, enqueued_ns, 0, 0, algo, ENQUEUED)

    def collective_start(
        self, comm: str, seq: int, op: str, dtype: str, size: int, ranks: int,
        enqueued_ns: int, started_ns: int, algo: str = "",
    ) -> None:  # fmt: skip
        """The work began (optional, where the library tells)."""
        self._collective(comm, seq, op, dtype, size, ranks, enqueued_ns, started_ns, 0, algo, STARTED)

    def collective_end(
        self, comm: str, seq: int, op: str, dtype: str, size: int, ranks: int,
        enqueued_ns: int, finished_ns: int, started_ns: int = 0, algo: str = "", failed: bool = False,
    ) -> None:  # fmt: skip
        """The work ended on this rank, well or not. `started_ns` 0: not known."""
        state = FAILED if failed else FINISHED
        self._collective(comm, seq, op, dtype, size, ranks, enqueued_ns, started_ns, finished_ns, algo, state)

    def _collective(
        self, comm: str, seq: int, op: str, dtype: str, size: int, ranks: int,
        enqueued_ns: int, started_ns: int, finished_ns: int, algo: str, state: int,
    ) -> None:  # fmt: skip
        try:
            number = self._next
            at = self._records_at + (number - 1 & self._mask) * RECORD_BYTES
            strings, words = self._strings, self._words
            comm_number, op_number, dtype_number = strings[comm], strings[op], strings[dtype]
            algo_number = strings[algo]
            words[at >> 3] = 0
            COLLECTIVE_BODY.pack_into(
                self._buffer, at + 8, Kind.COLLECTIVE, 0, comm_number, op_number, dtype_number, seq, size,
                enqueued_ns, started_ns, finished_ns, ranks, algo_number, state,
            )  # fmt: skip
            words[at >> 3] = number
            words[WRITTEN >> 3] = number
            self._next = number + 1
        except Exception:
            self._drop()

    # -- messages -----------------------------------------------------------------------------------------

    def message_begin(
        self, comm: str, channel: int, seq: int, step: int, side: str, peer: int, size: int,
        begin_ns: int, flow: str = "",
    ) -> None:  # fmt: skip
        """A transfer was posted. `side` is send or recv, `peer` a global rank, `flow` 32 hex digits where known."""
        self._message(comm, channel, seq, step, side, peer, size, begin_ns, 0, flow)

    def message_end(
        self, comm: str, channel: int, seq: int, step: int, side: str, peer: int, size: int,
        begin_ns: int, end_ns: int, flow: str = "",
    ) -> None:  # fmt: skip
        """A transfer ended: send: accepted by the network; recv: data complete. Needs no begin before it."""
        self._message(comm, channel, seq, step, side, peer, size, begin_ns, end_ns, flow)

    def _message(
        self, comm: str, channel: int, seq: int, step: int, side: str, peer: int, size: int,
        begin_ns: int, end_ns: int, flow: str,
    ) -> None:  # fmt: skip
        try:
            number = self._next
            at = self._records_at + (number - 1 & self._mask) * RECORD_BYTES
            words = self._words
            comm_number, flow_number = self._strings[comm], self._strings.optional(flow)
            side_number = _SIDE[side]
            words[at >> 3] = 0
            MESSAGE_BODY.pack_into(
                self._buffer, at + 8, Kind.MESSAGE, 0, comm_number, channel, flow_number, seq, size,
                begin_ns, end_ns, step, peer, side_number,
            )  # fmt: skip
            words[at >> 3] = number
            words[WRITTEN >> 3] = number
            self._next = number + 1
        except Exception:
            self._drop()

    # -- steps --------------------------------------------------------------------------------------------

    def step_begin(self, step: int, start_ns: int) -> None:
        """A training step began."""
        try:
            self._put(((STEP_BODY, (Kind.STEP, 0, 0, 0, 0, step, start_ns, 0, 0, 0, 0)),))
        except Exception:
            self._drop()

    def step(
        self, step: int, start_ns: int, end_ns: int, *,
        data_ns: int | None = None, forward_ns: int | None = None, backward_ns: int | None = None,
        optimizer_ns: int | None = None, checkpoint_ns: int | None = None,
        samples: float | None = None, tokens: float | None = None, loss: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """A training step ended: lengths of its phases in ns, what it consumed and learned; None: not known."""
        try:
            whole = (data_ns, forward_ns, backward_ns, optimizer_ns, checkpoint_ns)
            parts = (samples, tokens, loss)
            given = sum(1 << bit for bit, value in enumerate((*whole, *parts)) if value is not None)
            data, forward, backward, optimizer, checkpoint = (value or 0 for value in whole)
            body = (Kind.STEP, MORE, given, 0, 0, step, start_ns, end_ns, data, forward, backward)
            rest = (Kind.STEP_MORE, 0, given, 0, 0, optimizer, checkpoint, *(value or 0.0 for value in parts))
            group = [(STEP_BODY, body), (STEP_MORE_BODY, rest)]
            if metrics:
                group += self._values(metrics)
            self._put(group)
        except Exception:
            self._drop()

    def _values(self, metrics: Mapping[str, float]) -> list[_Record]:
        pairs = [(self._strings.optional(name), float(value)) for name, value in metrics.items()]
        pairs = [pair for pair in pairs if pair[0]]
        pairs += [(0, 0.0)] * (-len(pairs) % VALUES)
        return [
            (VALUE_BODY, (Kind.VALUE, 0, *(name for name, _ in three), *(value for _, value in three)))
            for three in (pairs[at : at + VALUES] for at in range(0, len(pairs), VALUES))
        ]

    # -- events, relations, clocks ------------------------------------------------------------------------

    def event(
        self, kind: str, time_ns: int, message: str = "", *, severity: str = "info", entity: str = "",
        code: str = "", attributes: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Something happened. `entity` is an entity id (`rank:bert-7/13`) or empty. Long texts are cut."""
        try:
            strings = self._strings
            head = (Kind.EVENT, 0, strings[kind], strings[severity], strings[code], time_ns, strings[entity])
            group = [(EVENT_BODY, head), *self._text(0, message)]
            for name, text in (attributes or {}).items():
                name_number = strings.optional(name)
                if name_number:
                    group += self._text(name_number, text)
            self._put(group)
        except Exception:
            self._drop()

    def relation(
        self, child: str, kind: str, parent: str, from_ns: int, to_ns: int = 0, confidence: float = 1.0
    ) -> None:
        """An edge between two entity ids: `child` runs-on, in, member, owns ... `parent`. `to_ns` 0: it holds."""
        try:
            strings = self._strings
            body = (Kind.RELATION, 0, strings[child], strings[parent], strings[kind], from_ns, to_ns, confidence)
            self._put(((RELATION_BODY, body),))
        except Exception:
            self._drop()

    def clock_pair(self, realtime_ns: int, monotonic_ns: int) -> None:
        """Both clocks, read at the same moment."""
        try:
            self._put(((CLOCK_BODY, (Kind.CLOCK, 0, 0, 0, 0, realtime_ns, monotonic_ns)),))
        except Exception:
            self._drop()

    def _text(self, name: int, text: str) -> list[_Record]:
        encoded, was_cut = _cut(text)
        if was_cut:
            self._strings.count_cut()
        pieces = (encoded[at : at + TEXT_PIECE] for at in range(0, len(encoded), TEXT_PIECE))
        return [(TEXT_BODY, (Kind.TEXT, 0, name, len(piece), 0, piece)) for piece in pieces]

    # -- the ring itself ----------------------------------------------------------------------------------

    @property
    def written(self) -> int:
        """Number of the last record written."""
        return self._next - 1

    @property
    def dropped(self) -> int:
        """Calls that could not be written."""
        return self._words[DROPPED >> 3] if self._open else 0

    def close(self) -> None:
        """Say that nothing more will come, and let go of the buffer. Later calls write nothing."""
        if self._open:
            self._open = False
            self._words[CLOSED >> 3] = 1
            self._strings.release()
            self._words.release()
            self._buffer.release()

    def _put(self, group: Sequence[_Record]) -> None:
        """Write records that belong together; they are published at once. A group too long loses its end."""
        if len(group) > GROUP_MAX:
            group = group[:GROUP_MAX]
            self._strings.count_cut()
        first, words, last = self._next, self._words, len(group) - 1
        for place, (body, fields) in enumerate(group):
            at = self._records_at + (first + place - 1 & self._mask) * RECORD_BYTES
            words[at >> 3] = 0
            body.pack_into(self._buffer, at + 8, fields[0], MORE if place < last else 0, *fields[2:])
            words[at >> 3] = first + place
        words[WRITTEN >> 3] = first + last
        self._next = first + last + 1

    def _drop(self) -> None:
        if self._open:
            self._words[DROPPED >> 3] += 1


class _Strings(dict[str, int]):
    """Numbers of the strings in the ring; a new one is appended to the table on its first use."""

    def __init__(self, buffer: memoryview, words: memoryview, header: RingHeader) -> None:
        self._buffer, self._words = buffer, words
        self._at, self._end = header.strings_at + words[STRINGS_WRITTEN >> 3], header.strings_at + header.strings_bytes
        self._start = header.strings_at
        known = split_strings(bytes(buffer[self._start : self._at]))
        super().__init__({text: number for number, text in reversed(list(enumerate(known)))})
        self._count = len(known)

    def __missing__(self, text: str) -> int:
        encoded, was_cut = _cut(text)
        if was_cut:
            self.count_cut()
        end = self._at + 2 + len(encoded)
        if end > self._end or self._count > STRINGS_MAX:
            raise OverflowError("the ring's table of strings is full")
        self._buffer[self._at : end] = len(encoded).to_bytes(2, "little") + encoded
        self._at = end
        self._words[STRINGS_WRITTEN >> 3] = end - self._start
        number = self[text] = self._count
        self._count += 1
        return number

    def optional(self, text: str) -> int:
        """The number of a text that the record can do without: 0, and counted as cut, when the table is full."""
        try:
            return self[text]
        except OverflowError:
            self.count_cut()
            return 0

    def count_cut(self) -> None:
        self._words[CUT >> 3] += 1

    def release(self) -> None:
        del self._buffer, self._words


def _first_strings(texts: tuple[str, ...], strings_bytes: int) -> tuple[list[int], bytes]:
    """Numbers and table of the header's own strings."""
    numbers: dict[str, int] = {"": 0}
    table = b""
    for text in texts:
        if text not in numbers:
            numbers[text] = len(numbers)
            encoded = text.encode()
            if len(encoded) > TEXT_BYTES_MAX:
                raise UsageError(
                    f"a ring's texts have at most {TEXT_BYTES_MAX} bytes, got {len(encoded)}: {text[:60]!r}"
                )
            table += len(encoded).to_bytes(2, "little") + encoded
    if len(table) > strings_bytes:
        raise UsageError(f"strings_bytes must hold the header's texts, {len(table)} bytes; got {strings_bytes}")
    return [numbers[text] for text in texts], table


def _cut(text: str) -> tuple[bytes, bool]:
    """A text's bytes, at most TEXT_BYTES_MAX and cut between characters; lone surrogates become question marks."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= TEXT_BYTES_MAX:
        return encoded, False
    return encoded[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode(), True


def _little_endian() -> None:
    if sys.byteorder != "little":
        raise UsageError("event rings are written on little-endian machines only")


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _power(count: int) -> int:
    return 1 << max(count - 1, GROUP_MAX - 1).bit_length()


def _power_below(count: int) -> int:
    return 1 << count.bit_length() - 1 if count > 0 else 0
