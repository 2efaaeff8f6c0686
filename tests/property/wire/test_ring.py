"""Laws of event rings: whatever instant the writer dies at, what is published is whole and right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.wire.rings import T, everything, fresh

from leadline.model.errors import DataError
from leadline.wire.ring.format import RECORD_BYTES, SEGMENT, read_header, read_segment
from leadline.wire.ring.segments import decode_ring
from leadline.wire.ring.writer import RingWriter

LAW = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
Call = Callable[[RingWriter], None]

words = st.text(max_size=70)
times = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**64 - 1)
some = st.floats(allow_nan=False)
flows = st.sampled_from(["", "00" * 16, "ab" * 16])


def calls() -> st.SearchStrategy[Call]:
    """One call of a writer's method."""
    collective = st.builds(
        lambda comm, seq, op, size, at, end, failed: lambda ring: ring.collective_end(
            comm, seq, op, "float32", size, 8, at, end, failed=failed
        ),
        words, counts, words, counts, times, times, st.booleans(),
    )  # fmt: skip
    message = st.builds(
        lambda comm, channel, seq, side, at, end, flow: lambda ring: ring.message_end(
            comm, channel, seq, 1, side, 2, 10, at, end, flow
        ),
        words, st.integers(0, 65535), counts, st.sampled_from(["send", "recv"]), times, times, flows,
    )  # fmt: skip
    step = st.builds(
        lambda number, at, phase, metrics: lambda ring: ring.step(number, at, at, data_ns=phase, metrics=metrics),
        times, times, st.none() | times, st.dictionaries(words, some, max_size=8),
    )  # fmt: skip
    event = st.builds(
        lambda kind, text, attributes: lambda ring: ring.event(kind, T, text, attributes=attributes),
        words, words, st.dictionaries(words, words, max_size=4),
    )  # fmt: skip
    relation = st.builds(lambda a, b: lambda ring: ring.relation(a, "in", b, T), words, words)
    return st.one_of(collective, message, step, event, relation)


def records_of(segment: bytes) -> dict[int, bytes]:
    """The records of a segment by their number."""
    if not segment:
        return {}
    _, _, _, size, first, _, count, _ = SEGMENT.unpack_from(segment)
    raw = segment[size - count * RECORD_BYTES : size]
    return {first + n: raw[n * RECORD_BYTES : (n + 1) * RECORD_BYTES] for n in range(count)}


def every_record(run: Callable[[RingWriter], None]) -> dict[int, bytes]:
    """What the calls write into a ring where nothing is overwritten."""
    ring = fresh(4096)
    run(RingWriter(ring))
    return records_of(read_segment(ring, 0, 1 << 24).segment)


def instants(ring: bytearray, run: Callable[[], None]) -> Iterator[bytes]:
    """The ring as it is between any two byte codes of the writer: all that a kill can leave behind."""
    seen: list[bytes] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith("ring/writer.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            now = bytes(ring)
            if not seen or seen[-1] != now:
                seen.append(now)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    yield from seen
    yield bytes(ring)


def torn(before: bytes, after: bytes) -> Iterator[bytes]:
    """States in the middle of one store of more than a word: some of its bytes are there."""
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if changed and changed[-1] - changed[0] >= 8:
        for stop in (changed[len(changed) // 3], changed[2 * len(changed) // 3]):
            yield after[:stop] + before[stop:]


def hold_at(state: bytes, whole: dict[int, bytes]) -> int:
    """A reader of this state sees only published records, each as it was written. Returns: how many."""
    written = read_header(state).written
    reading = read_segment(state, 0)
    records = records_of(reading.segment)
    assert reading.last == written
    assert len(records) + reading.lost == written
    for number, record in records.items():
        assert record == whole[number], f"record {number} of {written}"
    if reading.segment:
        assert decode_ring(reading.segment).unknown == 0
    return len(records)


def test_a_writer_killed_at_any_instant_leaves_a_ring_that_reads() -> None:
    def run(writer: RingWriter) -> None:
        for _ in range(5):  # 100 records into 64 slots
            everything(writer)

    whole = every_record(run)
    ring = fresh(64, strings_bytes=512)
    writer = RingWriter(ring)
    states = list(instants(ring, lambda: run(writer)))
    assert len(states) > 300
    previous = states[0]
    for state in states:
        for instant in (*torn(previous, state), state):
            hold_at(instant, whole)
        previous = state
    assert hold_at(states[-1], whole) >= 64 - 5, "at most the begin of one group was lost with its end"


@LAW
@given(script=st.lists(calls(), max_size=60), reads=st.lists(st.integers(0, 59), max_size=6))
def test_reading_now_and_then_sees_each_record_once_or_counts_it(script: list[Call], reads: list[int]) -> None:
    whole = every_record(lambda writer: [call(writer) for call in script] and None)
    ring = fresh(64, strings_bytes=65536)
    writer = RingWriter(ring)
    last = lost = 0
    seen: list[int] = []
    for place, call in enumerate([*script, lambda _: None]):
        call(writer)
        if place in reads or place == len(script):
            reading = read_segment(ring, last)
            records = records_of(reading.segment)
            assert all(record == whole[number] for number, record in records.items())
            seen += records
            last, lost = reading.last, lost + reading.lost
            decode_ring(reading.segment)
    assert writer.dropped == 0
    assert seen == sorted(set(seen))
    assert len(seen) + lost == writer.written == len(whole)


@LAW
@given(script=st.lists(calls(), min_size=1, max_size=20), bytes_max=st.integers(0, 9000))
def test_segments_of_any_size_tell_the_same(script: list[Call], bytes_max: int) -> None:
    ring = fresh(4096, strings_bytes=65536)
    writer = RingWriter(ring)
    for call in script:
        call(writer)
    at_once = decode_ring(read_segment(ring, 0, 1 << 24).segment)
    pieces, last, more = b"", 0, True
    while more:
        reading = read_segment(ring, last, bytes_max)
        pieces, last, more = pieces + reading.segment, reading.last, reading.more
    told = decode_ring(pieces)
    assert {name: table.to_pylist() for name, table in told.tables.items()} == {
        name: table.to_pylist() for name, table in at_once.tables.items()
    }


@LAW
@given(damage=st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 255)), max_size=5), last=st.integers(0, 200))
def test_any_file_reads_or_raises(damage: list[tuple[int, int]], last: int) -> None:
    ring = fresh(64, strings_bytes=512)
    writer = RingWriter(ring)
    for _ in range(4):
        everything(writer)
    for at, value in damage:
        ring[at % len(ring)] = value
    try:
        read_header(ring)
        reading = read_segment(ring, last)
        if reading.segment:
            decode_ring(reading.segment)
    except DataError:
        return
    assert reading.last >= last


@pytest.mark.parametrize("size", [0, 1, 63, 255, 256, 300])
def test_any_short_file_raises(size: int) -> None:
    with pytest.raises(DataError):
        read_segment(bytes(fresh(64, strings_bytes=512))[:size], 0)
