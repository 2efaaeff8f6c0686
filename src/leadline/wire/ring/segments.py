"""Decodes segments of event rings (`POST /api/v1/ring`) into columns of the tables they tell of.

A body is one segment or several, one after the other. Each carries its ring's header and strings, so it is decoded
without knowing any other. Everything a segment says is checked before it is used: lengths, numbers, groups, each
string's number. The layout is in ring_format.py, the specification in docs/formats/ring.md.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.model.errors import DataError, RefusedError
from leadline.model.ids import ENTITY_KINDS
from leadline.model.tables import Table
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, MESSAGE_END, STEP
from leadline.model.tables.verdicts import EVENT
from leadline.wire.ring.format import (
    FOLLOWS,
    GROUP_MAX,
    MORE,
    RECORD_BYTES,
    SEGMENT,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    SIDES,
    STATES,
    STEP_FIELDS,
    TEXT_PIECE,
    VERSION,
    Kind,
    RingHeader,
    header_of,
    split_strings,
)

Codes = NDArray[np.uint16]
Records = NDArray[Any]  # (N,) of one of the structured types below
Columns = dict[str, Any]

SEGMENTS_MAX = 10_000  # of one body: an agent sends one per ring at a time
MESSAGE = -1  # in place of a name: the text of an event that is none of its attributes
_AT = ""  # among the columns of a table: the places of its records
NAME_BYTES_MAX = 1 << 26  # names of attributes and values written out: 64 bytes of ring may name 1 KB of text

_HEAD = [("number", "<u8"), ("kind", "u1"), ("flags", "u1")]
_PLAIN = np.dtype([*_HEAD, ("a", "<u2"), ("b", "<u2"), ("c", "<u2"), ("body", "V48")])
_COLLECTIVE = np.dtype([
    *_HEAD, ("comm", "<u2"), ("op", "<u2"), ("dtype", "<u2"), ("seq", "<u8"), ("bytes", "<u8"), ("enqueued_ns", "<i8"),
    ("started_ns", "<i8"), ("finished_ns", "<i8"), ("ranks", "<u4"), ("algo", "<u2"), ("state", "u1"), ("spare", "u1"),
])  # fmt: skip
_MESSAGE = np.dtype([
    *_HEAD, ("comm", "<u2"), ("channel", "<u2"), ("flow", "<u2"), ("seq", "<u8"), ("bytes", "<u8"),
    ("begin_ns", "<i8"), ("end_ns", "<i8"), ("step", "<u4"), ("peer", "<i4"), ("side", "u1"), ("spare", "V7"),
])  # fmt: skip
_STEP = np.dtype([
    *_HEAD, ("given", "<u2"), ("b", "<u2"), ("c", "<u2"), ("step", "<i8"), ("start_ns", "<i8"), ("end_ns", "<i8"),
    ("data_ns", "<i8"), ("forward_ns", "<i8"), ("backward_ns", "<i8"),
])  # fmt: skip
_STEP_MORE = np.dtype([
    *_HEAD, ("given", "<u2"), ("b", "<u2"), ("c", "<u2"), ("optimizer_ns", "<i8"), ("checkpoint_ns", "<i8"),
    ("samples", "<f8"), ("tokens", "<f8"), ("loss", "<f8"), ("spare", "V8"),
])  # fmt: skip
_VALUE = np.dtype([*_HEAD, ("names", "<u2", 3), ("values", "<f8", 3), ("spare", "V24")])
_EVENT = np.dtype([
    *_HEAD, ("kind_text", "<u2"), ("severity", "<u2"), ("code", "<u2"), ("time_ns", "<i8"), ("entity", "<u2"),
    ("spare", "V38"),
])  # fmt: skip
_TEXT = np.dtype([*_HEAD, ("name", "<u2"), ("used", "<u2"), ("c", "<u2"), ("piece", "V48")])
_RELATION = np.dtype([
    *_HEAD, ("child", "<u2"), ("parent", "<u2"), ("kind_text", "<u2"), ("from_ns", "<i8"), ("to_ns", "<i8"),
    ("confidence", "<f8"), ("spare", "V24"),
])  # fmt: skip
_CLOCK = np.dtype([
    *_HEAD, ("a", "<u2"), ("b", "<u2"), ("c", "<u2"), ("realtime_ns", "<i8"), ("monotonic_ns", "<i8"), ("spare", "V32"),
])  # fmt: skip
for _dtype in (_PLAIN, _COLLECTIVE, _MESSAGE, _STEP, _STEP_MORE, _VALUE, _EVENT, _TEXT, _RELATION, _CLOCK):
    assert _dtype.itemsize == RECORD_BYTES

_KNOWN = np.zeros(256, np.bool_)
_KNOWN[list(Kind)] = True


@dataclass(frozen=True, slots=True)
class RingRows:
    """What the segments of B bodies tell. `tables` has `Table.given` columns by table name; none without rows."""

    tables: dict[str, pa.Table]
    bodies: dict[str, NDArray[np.int64]]  # by table (N,): the number of the body that each row is of, ascending
    records: int
    lost_B: list[int]  # records overwritten before the agent read them
    begun: int  # begins of messages and steps: there is no row before the end
    clock_pairs: int  # both clocks of a ring read at once; nothing stores them yet
    unknown_B: list[int]  # records of kinds that this version does not know

    @property
    def lost(self) -> int:
        """Records overwritten before the agent read them, of all bodies."""
        return sum(self.lost_B)

    @property
    def unknown(self) -> int:
        """Records of kinds that this version does not know, of all bodies."""
        return sum(self.unknown_B)


def decode_ring(body: bytes) -> RingRows:
    """Rows of one body. Errors: as `decode_rings`."""
    return decode_rings((body,))


def decode_rings(bodies: Sequence[bytes]) -> RingRows:
    """Rows of one or several segments, in one or several bodies.

    All segments are decoded together: a request of an agent has one of each ring, often of a few records only, and
    each alone took 2 ms whatever was in it (16 of them 36 ms; together 6.5).
    Errors: DataError naming the segment and what is wrong with it; nothing is decoded then. RefusedError for more than
    SEGMENTS_MAX segments, or names that would unpack to more than NAME_BYTES_MAX.
    """
    segments: list[_Segment] = []
    of: list[int] = []  # by segment: the number of its body
    for number, body in enumerate(map(bytes, bodies)):
        at, before = 0, len(segments)
        while at < len(body):
            if len(segments) == SEGMENTS_MAX:
                raise RefusedError("decompressed_too_large", f"more than {SEGMENTS_MAX} segments at once")
            segments.append(_Segment.read(body, at, f"segment {len(segments) - before + 1} at byte {at}"))
            of.append(number)
            at += segments[-1].size
    seen: Tally[str] = Tally()
    body_S = np.array(of, np.int64)
    tables: dict[str, pa.Table] = {}
    body_of: dict[str, NDArray[np.int64]] = {}
    lost_B, unknown_B = [0] * len(bodies), [0] * len(bodies)
    for number, segment in zip(of, segments, strict=True):
        lost_B[number] += segment.lost
    if segments:
        run = _Run.of(segments)
        seen["records"] = len(run.plain)
        for table, columns in run.rows(seen):
            tables[table.name] = _as_table(table, columns)
            body_of[table.name] = body_S[run.segment[columns[_AT]]]
        unknown_B = np.bincount(body_S[run.segment[run.kind == 0]], minlength=len(bodies)).tolist()
    return RingRows(tables, body_of, seen["records"], lost_B, seen["begun"], seen["clock_pairs"], unknown_B)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One segment; its records are not looked at yet."""

    where: str
    size: int
    first: int  # number of its first record
    lost: int
    header: RingHeader
    strings: list[str]
    plain: Records  # (N,)

    @classmethod
    def read(cls, body: bytes, at: int, where: str) -> _Segment:
        """The segment that begins at a byte of the body. Errors: DataError."""
        if len(body) - at < SEGMENT_HEADER_BYTES:
            raise DataError(where, f"{SEGMENT_HEADER_BYTES} bytes of header", f"{len(body) - at}")
        magic, version, head_bytes, size, first, lost, count, strings_bytes = SEGMENT.unpack_from(body, at)
        if magic != SEGMENT_MAGIC or version != VERSION or head_bytes != SEGMENT_HEADER_BYTES:
            expected = f"{SEGMENT_MAGIC!r}, version {VERSION}, a header of {SEGMENT_HEADER_BYTES} bytes"
            raise DataError(where, expected, f"{magic!r}, version {version}, {head_bytes} bytes")
        wanted = head_bytes + strings_bytes + count * RECORD_BYTES
        if size != wanted or size > len(body) - at:
            raise DataError(where, f"{wanted} bytes", f"{size} declared, {len(body) - at} there")
        if first < 1 or first + count > 2**64:
            raise DataError(where, "a first number from 1 on", str(first))
        strings_at = at + head_bytes
        records_at = strings_at + strings_bytes
        try:
            strings = split_strings(body[strings_at:records_at])
            header = header_of(body[at + SEGMENT.size : strings_at], strings)
        except DataError as error:
            raise DataError(f"{where}, {error.where}", error.expected, error.got) from None
        plain = np.frombuffer(body, _PLAIN, count, records_at)
        return cls(where, size, first, lost, header, strings, plain)


@dataclass(frozen=True, slots=True)
class _Run:
    """The records of all segments in a row, N of S segments; checked but for the numbers of strings in them.

    String `code` of segment s is `strings[base_S[s] + code]`.
    """

    segments: list[_Segment]
    segment: NDArray[np.int64]  # (N,)
    start_S: NDArray[np.int64]  # place of each segment's first record
    base_S: NDArray[np.int64]
    strings: list[str]
    plain: Records  # (N,)
    kind: NDArray[np.uint8]  # (N,), 0 where unknown
    head: NDArray[np.int64]  # (N,), the record that begins the group
    string_array: pa.Array

    @classmethod
    def of(cls, segments: list[_Segment]) -> _Run:
        """All records of at least one segment. Errors: DataError."""
        count_S = np.array([len(each.plain) for each in segments], np.int64)
        start_S = np.cumsum(count_S) - count_S
        segment = np.repeat(np.arange(len(segments)), count_S)
        plain = np.concatenate([each.plain for each in segments])
        where = _Places(segments, segment, start_S)
        _check_numbers(where, plain["number"], np.array([each.first for each in segments], np.uint64))
        kind, head = _groups(where, plain, (start_S + count_S - 1)[count_S > 0])
        strings = [text for each in segments for text in each.strings]
        words_S = np.array([len(each.strings) for each in segments], np.int64)
        base_S = np.cumsum(words_S) - words_S
        array = pa.array(strings, pa.string())
        return cls(segments, segment, start_S, base_S, strings, plain, kind, head, array)

    def rows(self, seen: Tally[str]) -> list[tuple[Table, Columns]]:
        """The tables that have rows, with their columns; counts what has none."""
        seen["clock_pairs"] += int(np.count_nonzero(self.kind == Kind.CLOCK))
        made = [
            (COLLECTIVE, self._collectives()),
            (MESSAGE_END, self._messages(seen)),
            (STEP, self._steps(seen)),
            (EVENT, self._events(seen)),
            (RELATION, self._relations()),
        ]
        return [(table, columns) for table, columns in made if columns]

    def _of(self, kind: Kind, dtype: np.dtype[Any]) -> tuple[NDArray[np.int64], Records]:
        """Places and records of one kind."""
        at = np.flatnonzero(self.kind == kind)
        return at, self.plain.view(dtype)[at]

    def _where(self, at: NDArray[np.int64], wrong: NDArray[np.bool_]) -> str:
        """The segment of the first of these records that is wrong."""
        return self.segments[int(self.segment[at[wrong][0]])].where

    def _collectives(self) -> Columns:
        at, records = self._of(Kind.COLLECTIVE, _COLLECTIVE)
        if not len(records):
            return {}
        state = records["state"]
        wrong = (state < 1) | (state >= len(STATES))
        if wrong.any():
            where = self._where(at, wrong)
            raise DataError(f"{where}, a collective", f"a state from 1 to {len(STATES) - 1}", _range(state[wrong]))
        return {
            _AT: at,
            **self._host_columns(at),
            **self._rank_columns(at),
            "comm": self._words(at, records["comm"]),
            "ranks": records["ranks"].astype(np.int64),
            "seq": records["seq"],
            "op": self._words(at, records["op"]),
            "bytes": records["bytes"],
            "dtype": self._words(at, records["dtype"]),
            "algo": self._words(at, records["algo"], nullable=True),
            "enqueued_ns": records["enqueued_ns"],
            "started_ns": _nullable(records["started_ns"], records["started_ns"] != 0),
            "finished_ns": _nullable(records["finished_ns"], records["finished_ns"] != 0),
            "state": _dictionary(state.astype(np.int32), pa.array(STATES, pa.string())),
            "source": self._by_segment("source", at),
        }

    def _messages(self, seen: Tally[str]) -> Columns:
        at, records = self._of(Kind.MESSAGE, _MESSAGE)
        ended = records["end_ns"] != 0
        seen["begun"] += len(records) - int(ended.sum())
        wrong = records["side"] >= len(SIDES)
        if wrong.any():
            where = self._where(at, wrong)
            raise DataError(f"{where}, a message", "side 0 (send) or 1 (recv)", _range(records["side"][wrong]))
        at, records = at[ended], records[ended]
        if not len(records):
            return {}
        return {
            _AT: at,
            **self._host_columns(at),
            **self._rank_columns(at),
            "comm": self._words(at, records["comm"]),
            "channel": records["channel"].astype(np.int64),
            "seq": records["seq"],
            "step": records["step"].astype(np.int64),
            "side": _dictionary(records["side"].astype(np.int32), pa.array(SIDES, pa.string())),
            "peer": records["peer"].astype(np.int64),
            "bytes": records["bytes"],
            "begin_ns": records["begin_ns"],
            "end_ns": records["end_ns"],
            "flow": self._flows(at, records["flow"]),
        }

    def _flows(self, at: NDArray[np.int64], codes: Codes) -> pa.Array:
        """Ids of flows: each of the few strings is read once."""
        used, places = np.unique(self._numbers(at, codes), return_inverse=True)
        return pa.array([self._flow(int(number)) for number in used], pa.binary(16)).take(pa.array(places))

    def _flow(self, number: int) -> bytes | None:
        text = self.strings[number]
        if not text:
            return None
        try:
            if len(text) != 32:
                raise ValueError
            return bytes.fromhex(text)[::-1]  # text is big-endian, the column little-endian
        except ValueError:
            segment = self.segments[int(np.searchsorted(self.base_S, number, side="right")) - 1]
            raise DataError(f"{segment.where}, a message's flow", "32 hex digits", repr(text[:40])) from None

    def _steps(self, seen: Tally[str]) -> Columns:
        at, records = self._of(Kind.STEP, _STEP)
        ended = records["end_ns"] != 0
        seen["begun"] += len(records) - int(ended.sum())
        at, records = at[ended], records[ended]
        if not len(records):
            return {}
        count = len(records)
        more = np.zeros(count, _STEP_MORE)
        more_at, more_records = self._of(Kind.STEP_MORE, _STEP_MORE)
        mine = np.isin(self.head[more_at], at)
        more[np.searchsorted(at, self.head[more_at[mine]])] = more_records[mine]
        here = (records["given"], more["given"] & records["given"])
        columns: Columns = {}
        for bit, name in enumerate(STEP_FIELDS):
            part, given = (records, here[0]) if name in _STEP.fields else (more, here[1])  # type: ignore[operator]
            columns[name] = _nullable(part[name], given >> bit & 1 != 0)
        return {
            _AT: at,
            **self._host_columns(at),
            **self._rank_columns(at),
            **{name: records[name] for name in ("step", "start_ns", "end_ns")},
            **columns,
            "metrics": self._metrics(at, seen),
        }

    def _metrics(self, steps: NDArray[np.int64], seen: Tally[str]) -> pa.Array:
        metrics: list[dict[str, str]] = [{} for _ in steps]
        place_of = {int(at): place for place, at in enumerate(steps)}
        at, records = self._of(Kind.VALUE, _VALUE)
        numbers = self._numbers(np.repeat(at, 3), records["names"].ravel()).reshape(-1, 3)
        for head, names, values in zip(
            self.head[at].tolist(), numbers.tolist(), records["values"].tolist(), strict=True
        ):
            place = place_of.get(head)
            if place is not None:
                words = [self.strings[name] for name in names]
                found = {word: repr(value) for word, value in zip(words, values, strict=True) if word}
                metrics[place].update(found)
                _count_names(seen, sum(map(len, found)))
        return _maps(metrics)

    def _events(self, seen: Tally[str]) -> Columns:
        at, records = self._of(Kind.EVENT, _EVENT)
        if not len(records):
            return {}
        messages, attributes = self._texts(at, seen)
        kinds = [text.partition(":")[0] for text in self.strings]
        entity_kinds = pa.array([kind if kind in ENTITY_KINDS else "" for kind in kinds], pa.string())
        return {
            _AT: at,
            **self._host_columns(at),
            "time_ns": records["time_ns"],
            "entity_kind": self._words(at, records["entity"], words=entity_kinds),
            "entity": self._words(at, records["entity"]),
            "kind": self._words(at, records["kind_text"]),
            "severity": self._words(at, records["severity"]),
            "code": self._words(at, records["code"], nullable=True),
            "message": pa.array(messages, pa.string()),
            "attributes": _maps(attributes),
            "source": self._by_segment("source", at),
        }

    def _texts(self, events: NDArray[np.int64], seen: Tally[str]) -> tuple[list[str], list[dict[str, str]]]:
        """Message and attributes of each event, its pieces joined."""
        joined: list[dict[int, bytes]] = [{} for _ in events]
        place_of = {int(at): place for place, at in enumerate(events)}
        at, records = self._of(Kind.TEXT, _TEXT)
        numbers = np.where(records["name"] == 0, MESSAGE, self._numbers(at, records["name"]))
        wrong = records["used"] > TEXT_PIECE
        if wrong.any():
            where = self._where(at, wrong)
            raise DataError(f"{where}, a text", f"at most {TEXT_PIECE} bytes used", _range(records["used"][wrong]))
        for head, name, used, piece in zip(
            self.head[at].tolist(), numbers.tolist(), records["used"].tolist(), records["piece"], strict=True
        ):
            place = place_of.get(head)
            if place is not None:
                joined[place][name] = joined[place].get(name, b"") + bytes(piece)[:used]
                _count_names(seen, len(self.strings[name]) if name != MESSAGE else 0)
        texts = [{name: _text(raw) for name, raw in each.items()} for each in joined]
        messages = [each.pop(MESSAGE, "") for each in texts]
        return messages, [{self.strings[name]: text for name, text in each.items()} for each in texts]

    def _relations(self) -> Columns:
        at, records = self._of(Kind.RELATION, _RELATION)
        if not len(records):
            return {}
        return {
            _AT: at,
            "child": self._words(at, records["child"]),
            "parent": self._words(at, records["parent"]),
            "kind": self._words(at, records["kind_text"]),
            "from_ns": records["from_ns"],
            "to_ns": _nullable(records["to_ns"], records["to_ns"] != 0),
            "source": self._by_segment("source", at),
            "confidence": records["confidence"],
        }

    def _host_columns(self, at: NDArray[np.int64]) -> Columns:
        return {name: self._by_segment(name, at) for name in ("host", "clock")}

    def _rank_columns(self, at: NDArray[np.int64]) -> Columns:
        rank_S = np.array([each.header.rank for each in self.segments], np.int64)
        return {"job": self._by_segment("job", at), "rank": rank_S[self.segment[at]]}

    def _by_segment(self, name: str, at: NDArray[np.int64]) -> pa.DictionaryArray:
        """A text of the header, for the records of these places."""
        used, places = np.unique(self.segment[at], return_inverse=True)
        texts = pa.array([getattr(self.segments[each].header, name) for each in used], pa.string()).dictionary_encode()
        return _dictionary(np.asarray(texts.indices)[places], texts.dictionary)

    def _words(
        self, at: NDArray[np.int64], codes: Codes, nullable: bool = False, words: pa.Array | None = None
    ) -> pa.DictionaryArray:
        """Strings of the records of these places, by their numbers; with `nullable`, number 0 is no string."""
        used, places = np.unique(self._numbers(at, codes), return_inverse=True)
        texts = (self.string_array if words is None else words).take(pa.array(used)).dictionary_encode()
        indices = np.asarray(texts.indices)[places]
        return _dictionary(indices, texts.dictionary, codes != 0 if nullable else None)

    def _numbers(self, at: NDArray[np.int64], codes: Codes) -> NDArray[np.int64]:
        """The numbers that strings of segments have among all. Errors: DataError for one that is not there."""
        segment = self.segment[at]
        wrong = codes >= np.array([len(each.strings) for each in self.segments])[segment]
        if wrong.any():
            bad = self.segments[int(segment[wrong][0])]
            expected = f"a string up to {len(bad.strings) - 1}"
            raise DataError(f"{bad.where}, a record", expected, str(codes[wrong][0]))
        return codes + self.base_S[segment]


@dataclass(frozen=True, slots=True)
class _Places:
    """What to call a record: its segment, and its number there from 1."""

    segments: list[_Segment]
    segment: NDArray[np.int64]  # (N,)
    start_S: NDArray[np.int64]

    def segment_of(self, at: int) -> str:
        return self.segments[int(self.segment[at])].where

    def record(self, at: int) -> str:
        return f"{self.segment_of(at)}, record {at - int(self.start_S[self.segment[at]]) + 1}"


def _check_numbers(where: _Places, numbers: NDArray[np.uint64], first_S: NDArray[np.uint64]) -> None:
    place = np.arange(len(numbers)) - where.start_S[where.segment]
    expected = first_S[where.segment] + place.astype(np.uint64)
    wrong = np.flatnonzero(numbers != expected)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(where.record(at), f"number {expected[at]}", str(numbers[at]))


def _count_names(seen: Tally[str], size: int) -> None:
    """Count names before they are written out. Errors: RefusedError."""
    seen["name bytes"] += size
    if seen["name bytes"] > NAME_BYTES_MAX:
        raise RefusedError(
            "decompressed_too_large",
            f"the names of values and attributes take more than {NAME_BYTES_MAX} bytes written out; send fewer "
            "segments at once, or use shorter names",
        )


def _groups(where: _Places, plain: Records, last: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Kind of each record (0: not known) and the place of the record that its group begins with.

    `last`: places of the segments' last records, at which a group must end. Errors: DataError.
    """
    raw = plain["kind"]
    unended = last[plain["flags"][last] & MORE != 0]
    if len(unended):
        named = f"{where.segment_of(int(unended[0]))}, its last record"
        raise DataError(named, "the end of a group", "one that says that more follows")
    follows = raw & FOLLOWS != 0
    announced = np.zeros(len(plain), np.bool_)
    announced[1:] = plain["flags"][:-1] & MORE != 0
    wrong = np.flatnonzero(follows != announced)
    if len(wrong):
        at = int(wrong[0])
        expected = "a record that belongs to the one before" if announced[at] else "the first record of a group"
        raise DataError(where.record(at), expected, f"kind {raw[at]}")
    places = np.arange(len(plain), dtype=np.int64)
    head = np.maximum.accumulate(np.where(follows, 0, places)) if len(plain) else places
    long = np.flatnonzero(places - head >= GROUP_MAX)
    if len(long):  # one event of a million pieces would be joined piece by piece
        raise DataError(where.record(int(long[0])), f"groups of at most {GROUP_MAX} records", "a longer one")
    return np.where(_KNOWN[raw], raw, 0).astype(np.uint8), head


def _as_table(table: Table, columns: Columns) -> pa.Table:
    return pa.table({column.name: columns[column.name] for column in table.given})


def _dictionary(indices: NDArray[Any], words: pa.Array, valid: NDArray[np.bool_] | None = None) -> pa.DictionaryArray:
    mask = None if valid is None else ~valid
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32), pa.int32(), mask=mask), words)


def _nullable(values: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), mask=~valid)


def _maps(maps: list[dict[str, str]]) -> pa.Array:
    return pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.string()))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _range(values: NDArray[Any]) -> str:
    return f"from {values.min()} to {values.max()}"
