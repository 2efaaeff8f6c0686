"""Event rings: what a writer writes, what a reader reads of it, what the server makes of that."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from leadline.model.errors import DataError, RefusedError, UsageError
from leadline.model.tables import BY_NAME
from leadline.wire.ring import format as layout
from leadline.wire.ring import segments as ring_module
from leadline.wire.ring.format import GROUP_MAX, RECORD_BYTES, SEGMENT_HEADER_BYTES, read_header, read_segment
from leadline.wire.ring.segments import RingRows, decode_ring
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

from .rings import BOOT, T, everything, fresh


def rows(decoded: RingRows, table: str) -> list[dict[str, Any]]:
    return decoded.tables[table].to_pylist()


def told(ring: bytearray, last: int = 0) -> RingRows:
    return decode_ring(read_segment(ring, last).segment)


@pytest.fixture(scope="module")
def decoded() -> RingRows:
    ring = fresh()
    everything(RingWriter(ring))
    return told(ring)


def test_the_header_says_who_writes() -> None:
    header = read_header(fresh())
    assert (header.host, header.job, header.rank, header.world_size) == ("n12", "bert-7", 3, 8)
    assert (header.pid, header.tid, header.gpu, header.source) == (41, 42, "gpu:GPU-1", "torch-hook")
    assert (header.clock, header.boot_id, header.start_ns) == ("n12/7f3a90b1", BOOT, T)
    assert (header.written, header.dropped, header.cut, header.closed) == (0, 0, 0, False)
    assert read_header(fresh(boot_id=bytes(16))).clock == "n12", "an unknown boot has no name"


def test_collectives_begin_and_end_as_rows_of_their_own(decoded: RingRows) -> None:
    begun, started, finished, failed = rows(decoded, "collective")
    common = {"host": "n12", "clock": "n12/7f3a90b1", "job": "bert-7", "rank": 3, "comm": "bert-7/0x9c", "ranks": 8,
              "source": "torch-hook"}  # fmt: skip
    assert begun == common | {
        "seq": 5, "op": "all_reduce", "bytes": 4096, "dtype": "float32", "algo": None, "enqueued_ns": T + 1,
        "started_ns": None, "finished_ns": None, "state": "enqueued",
    }  # fmt: skip
    assert started == begun | {"algo": "ring", "started_ns": T + 2, "state": "started"}
    assert finished == started | {"finished_ns": T + 9, "state": "finished"}
    assert (failed["seq"], failed["state"], failed["finished_ns"], failed["started_ns"]) == (6, "failed", T + 11, None)


def test_ends_of_messages_are_rows_and_their_flow_is_a_number(decoded: RingRows) -> None:
    sent, received = rows(decoded, "message_end")
    assert sent["flow"] == bytes.fromhex("00112233445566778899aabbccddeeff")[::-1]
    assert received["flow"] is None
    assert [(row["side"], row["peer"], row["end_ns"]) for row in (sent, received)] == [
        ("send", 4, T + 4),
        ("recv", 2, T + 5),
    ]
    assert (sent["channel"], sent["seq"], sent["step"], sent["bytes"], sent["begin_ns"]) == (1, 5, 2, 512, T + 3)


def test_a_step_has_what_was_given_and_nulls_for_the_rest(decoded: RingRows) -> None:
    (step,) = rows(decoded, "step")
    assert (step["step"], step["start_ns"], step["end_ns"]) == (100, T, T + 20)
    assert (step["data_ns"], step["forward_ns"], step["checkpoint_ns"]) == (1, 0, 7), "zero is a value"
    assert step["backward_ns"] is step["optimizer_ns"] is step["samples"] is None
    assert (step["tokens"], step["loss"]) == (512.0, float("inf"))
    assert dict(step["metrics"]) == {"accuracy": "0.5", "é": "1.0", "grad_norm": "2.5", "lr": "0.001"}


def test_an_event_has_its_whole_text(decoded: RingRows) -> None:
    (event,) = rows(decoded, "event")
    assert event["message"] == "saved " + "é" * 40, "pieces of 48 bytes cut characters, joined they are whole"
    assert dict(event["attributes"]) == {"path": "/ckpt/" + "x" * 60}
    assert (event["kind"], event["severity"], event["code"], event["time_ns"]) == ("checkpoint", "warning", "7", T + 6)
    assert (event["entity_kind"], event["entity"], event["source"]) == ("rank", "rank:bert-7/3", "torch-hook")


def test_relations_hold_or_have_an_end(decoded: RingRows) -> None:
    holds, ended = rows(decoded, "relation")
    assert holds == {"child": "rank:bert-7/3", "parent": "gpu:GPU-1", "kind": "runs-on", "from_ns": T, "to_ns": None,
                     "source": "torch-hook", "confidence": 1.0}  # fmt: skip
    assert (ended["to_ns"], ended["confidence"]) == (T + 30, 0.5)


def test_what_has_no_row_is_counted(decoded: RingRows) -> None:
    assert (decoded.begun, decoded.clock_pairs, decoded.unknown, decoded.lost) == (2, 1, 0, 0)


def test_columns_are_those_that_a_sender_gives(decoded: RingRows) -> None:
    for name, table in decoded.tables.items():
        assert table.column_names == [column.name for column in BY_NAME[name].given]


def test_an_entity_that_is_none_keeps_its_text() -> None:
    ring = fresh()
    RingWriter(ring).event("log", T, entity="the blue one")
    (event,) = rows(told(ring), "event")
    assert (event["entity_kind"], event["entity"], event["code"], event["message"]) == ("", "the blue one", None, "")


# -- reading ----------------------------------------------------------------------------------------------


def test_reading_goes_on_where_it_ended() -> None:
    ring = fresh()
    writer = RingWriter(ring)
    writer.step(1, T, T + 1)
    first = read_segment(ring, 0)
    assert (first.last, first.lost, first.more) == (2, 0, False)
    assert read_segment(ring, 2) == layout.Reading(b"", 2, 0, False)
    writer.step(2, T + 1, T + 2)
    assert [row["step"] for row in rows(told(ring, first.last), "step")] == [2]


def test_several_segments_are_one_body() -> None:
    one, other = fresh(), fresh(host="n13", rank=4)
    for ring in (one, other):
        RingWriter(ring).collective_begin("c", 1, "all_reduce", "float32", 4, 2, T)
    both = decode_ring(read_segment(one, 0).segment + read_segment(other, 0).segment)
    assert [(row["host"], row["rank"]) for row in rows(both, "collective")] == [("n12", 3), ("n13", 4)]
    assert both.records == 2


def test_segments_of_several_rings_tell_together_what_each_tells_alone() -> None:
    """Each has its own strings, and its own numbers for them."""
    bodies = []
    for rank in range(3):
        ring = fresh(rank=rank, job=f"bert-{rank}")
        writer = RingWriter(ring)
        for kind in ("one", "two", "three")[rank:]:
            writer.event(kind, T, "it is " * 20, entity=f"rank:bert-{rank}/{rank}", attributes={kind: "yes"})
        writer.step(rank, T, T + 5, metrics={f"of {rank}": 0.5})
        everything(writer)
        bodies.append(read_segment(ring, 0).segment)
    together = decode_ring(b"".join(bodies))
    alone = [decode_ring(body) for body in bodies]
    assert together.tables.keys() == alone[0].tables.keys()
    for table in together.tables:
        assert rows(together, table) == [row for each in alone for row in rows(each, table)]
        assert together.tables[table].schema == alone[0].tables[table].schema
    assert (together.records, together.begun) == (sum(e.records for e in alone), sum(e.begun for e in alone))
    spoilt = bytearray(bodies[1])
    spoilt[-RECORD_BYTES] ^= 0xFF
    with pytest.raises(DataError, match=r"^segment 2 at byte \d+, record \d+: expected number"):
        decode_ring(bodies[0] + spoilt + bodies[2])


def test_a_segment_is_bounded_and_cut_between_groups() -> None:
    ring = fresh(1024)
    writer = RingWriter(ring)
    for number in range(100):
        writer.step(number, T, T + 1, metrics={"a": 1.0})  # three records
    last, seen, readings = 0, [], 0
    while True:
        reading = read_segment(ring, last, bytes_max=1)
        last, readings = reading.last, readings + 1
        seen += [row["step"] for row in rows(decode_ring(reading.segment), "step")]
        assert reading.lost == 0
        if not reading.more:
            break
    assert seen == list(range(100))
    assert readings == 5, "63 records of 64 are 21 whole steps"


def test_what_was_overwritten_is_counted_as_lost_and_no_half_group_is_read() -> None:
    ring = fresh(64)
    writer = RingWriter(ring)
    for number in range(50):
        writer.step(number, T, T + 1, metrics={"a": 1.0})  # 150 records; the last 64 begin within step 28
    reading = read_segment(ring, 0)
    assert (reading.last, reading.lost) == (150, 150 - 63)
    decoded = decode_ring(reading.segment)
    assert decoded.lost == 87
    assert [row["step"] for row in rows(decoded, "step")] == list(range(29, 50))


def test_a_record_that_was_overwritten_while_it_was_read_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = fresh(64)
    writer = RingWriter(ring)
    for number in range(64):
        writer.collective_begin("c", number, "all_reduce", "float32", 4, 8, T)
    copy = layout._copied

    def copied_then_overwritten(*given: Any) -> bytes:
        found = copy(*given)
        monkeypatch.undo()  # once: the numbers are copied again to see which still stand
        for number in range(64, 74):
            writer.collective_begin("c", number, "all_reduce", "float32", 4, 8, T)
        return found

    monkeypatch.setattr(layout, "_copied", copied_then_overwritten)
    reading = read_segment(ring, 0)
    assert (reading.lost, reading.last) == (10, 64)
    assert [row["seq"] for row in rows(decode_ring(reading.segment), "collective")] == list(range(10, 64))
    assert [row["seq"] for row in rows(told(ring, 64), "collective")] == list(range(64, 74))


def test_another_ring_in_the_same_file_is_noticed() -> None:
    with pytest.raises(DataError, match="another ring"):
        read_segment(fresh(), 5)


@pytest.mark.parametrize(
    ("at", "value", "complaint"),
    [
        (0, b"NOTARING", "magic"),
        (8, b"\2\0\0\0", "version"),
        (16, b"\x20\0\0\0", "bytes of a record"),
        (24, b"\x41" + bytes(7), "power of two"),
        (24, b"\0\0\0\1" + bytes(4), "bytes, got"),
        (48, b"\1" + bytes(7), "its parts"),
        (layout.STRINGS_WRITTEN, b"\xff" * 8, "strings written"),
        (layout.STRINGS_WRITTEN, b"\3" + bytes(7), "string 1"),
        (layout.WRITTEN, b"\xff" * 8, "records written"),  # found by fuzzing: its next number had no room
    ],
)
def test_what_is_no_ring_is_refused(at: int, value: bytes, complaint: str) -> None:
    ring = fresh()
    ring[at : at + len(value)] = value
    for use in (read_header, RingWriter):
        with pytest.raises(DataError, match=complaint):
            use(ring)
    with pytest.raises(DataError):
        decode_ring(read_segment(ring, 0).segment + b"the end")


def test_a_short_file_is_no_ring() -> None:
    with pytest.raises(DataError, match="256 bytes"):
        read_header(bytes(100))


# -- writing ----------------------------------------------------------------------------------------------


def test_a_writer_goes_on_after_another_with_its_strings() -> None:
    ring = fresh(strings_bytes=128)  # too little for the names a second time
    RingWriter(ring).collective_begin("c", 1, "all_reduce", "float32", 4, 8, T)
    RingWriter(ring).collective_begin("c", 2, "all_reduce", "float32", 4, 8, T)
    assert [row["seq"] for row in rows(told(ring), "collective")] == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ring: ring.collective_begin("c", -1, "all_reduce", "float32", 4, 8, T),
        lambda ring: ring.collective_begin("c", 1, "all_reduce", "float32", 4, 8, 2**63),
        lambda ring: ring.collective_begin(None, 1, "all_reduce", "float32", 4, 8, T),
        lambda ring: ring.message_end("c", 0, 1, 2, "sideways", 3, 4, T, T),
        lambda ring: ring.message_end("c", 70_000, 1, 2, "send", 3, 4, T, T),
        lambda ring: ring.step("one", T, T),
        lambda ring: ring.step(1, T, T, metrics={"a": "b"}),
        lambda ring: ring.event("kind", T, 5),
        lambda ring: ring.relation("a", "b", "c", 1.5),
        lambda ring: ring.clock_pair(None, 1),
        lambda ring: ring.step_begin(2**64, T),
    ],
)
def test_what_cannot_be_written_is_dropped_and_counted_never_raised(wrong: Any) -> None:
    ring = fresh()
    writer = RingWriter(ring)
    writer.collective_begin("c", 1, "all_reduce", "float32", 4, 8, T)
    wrong(writer)
    assert (writer.dropped, read_header(ring).dropped, writer.written) == (1, 1, 1)
    writer.collective_begin("c", 2, "all_reduce", "float32", 4, 8, T)
    assert [row["seq"] for row in rows(told(ring), "collective")] == [1, 2]


def test_a_full_table_of_strings_drops_what_needs_a_name_and_cuts_what_does_not() -> None:
    ring = fresh(strings_bytes=128)
    writer = RingWriter(ring)
    writer.message_end("c", 0, 1, 2, "send", 3, 4, T, T + 1, "ab" * 16)
    writer.message_end("c", 0, 2, 2, "send", 3, 4, T, T + 1, "cd" * 16)
    writer.message_end("c", 0, 3, 2, "send", 3, 4, T, T + 1, "ef" * 16)
    writer.collective_begin("another communicator", 1, "all_reduce", "float32", 4, 8, T)
    writer.step(1, T, T + 1, metrics={"a name that is new, and long": 1.0})
    header = read_header(ring)
    assert (header.dropped, header.cut) == (1, 2)
    decoded = told(ring)
    assert [row["flow"] is None for row in rows(decoded, "message_end")] == [False, False, True]
    assert rows(decoded, "step")[0]["metrics"] == []


def test_long_texts_are_cut_between_characters() -> None:
    ring = fresh(strings_bytes=8192)
    writer = RingWriter(ring)
    writer.event("log", T, "é" * 600, entity="host:" + "é" * 600, attributes={"lone": "\ud800"})
    (event,) = rows(told(ring), "event")
    assert event["message"] == "é" * 512
    assert event["entity"] == "host:" + "é" * 509
    assert dict(event["attributes"]) == {"lone": "?"}
    assert (read_header(ring).cut, writer.dropped) == (2, 0)


def test_a_group_too_long_loses_its_end() -> None:
    ring = fresh(256, strings_bytes=8192)
    writer = RingWriter(ring)
    writer.step(1, T, T + 1, metrics={f"metric {number}": float(number) for number in range(300)})
    (step,) = rows(told(ring), "step")
    assert len(step["metrics"]) == 3 * (GROUP_MAX - 2)
    assert (writer.written, read_header(ring).cut) == (GROUP_MAX, 1)


def test_a_closed_ring_takes_nothing_more() -> None:
    ring = fresh()
    writer = RingWriter(ring)
    everything(writer)
    count = writer.written
    writer.close()
    writer.close()
    everything(writer)
    assert read_header(ring).closed
    assert (read_header(ring).written, writer.dropped) == (count, 0)
    ring.clear()  # nothing holds on to the buffer: a mapping can be unmapped


def test_a_buffer_that_is_too_small_or_fixed_is_refused() -> None:
    with pytest.raises(UsageError, match="at least"):
        fresh_in(bytearray(1000))
    with pytest.raises(UsageError, match="16 bytes"):
        fresh(boot_id=b"7f3a")
    with pytest.raises(UsageError, match="at most 1024 bytes"):
        fresh(job="x" * 2000)
    with pytest.raises(UsageError, match="must hold"):
        fresh(strings_bytes=10)
    with pytest.raises(UsageError, match="PROT_WRITE"):
        RingWriter(memoryview(bytes(fresh())))


def fresh_in(buffer: bytearray) -> None:
    format_ring(buffer, host="n", job="", rank=-1, world_size=0, source="s", pid=1, tid=1, boot_id=BOOT, start_ns=0,
                start_monotonic_ns=0, strings_bytes=4096)  # fmt: skip


def test_the_size_of_a_ring_is_what_is_asked_for() -> None:
    assert ring_bytes(100, 100) == 256 + 128 + 128 * 64
    assert read_header(fresh(100)).capacity == 128
    assert read_header(fresh(1)).capacity == GROUP_MAX


def test_a_ring_used_again_is_empty() -> None:
    ring = fresh()
    everything(RingWriter(ring))
    fresh_in(ring)
    header = read_header(ring)
    assert (header.written, header.host, header.rank) == (0, "n", -1)


def test_what_jobs_and_agents_import_is_the_standard_library_alone() -> None:
    program = (
        "import sys, leadline.wire.ring.writer, leadline.wire.ring.format, leadline.wire.kernel_log.kmsg, "
        "leadline.wire.kernel_log.events; print(sorted({name.split('.')[0] for name in sys.modules} - "
        "set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    others = {name for name in eval(out) if not name.startswith("_") and "editable" not in name}
    assert others == {"leadline"}


# -- segments that lie ------------------------------------------------------------------------------------


def segment() -> bytearray:
    ring = fresh()
    everything(RingWriter(ring))
    return bytearray(read_segment(ring, 0).segment)


def records_at(body: bytearray) -> int:
    return len(body) - int.from_bytes(body[40:44], "little") * RECORD_BYTES


@pytest.mark.parametrize(
    ("record", "at", "value", "complaint"),
    [
        (0, 0, 9, "number 1"),
        (0, 10, 0xFF, "a string up to"),
        (0, 62, 9, "a state from 1"),
        (4, 56, 7, "side 0"),
        (5, 14, 3, "32 hex digits"),
        (8, 9, 0, "first record of a group"),
        (0, 9, 1, "belongs to the one before"),
        (19, 9, 1, "end of a group"),
        (0, 8, 0x81, "first record of a group"),
    ],
)
def test_every_field_is_checked(record: int, at: int, value: int, complaint: str) -> None:
    body = segment()
    place = records_at(body) + record * RECORD_BYTES + at
    body[place] = value
    if at == 10:
        body[place + 1] = 0xFF
    with pytest.raises(DataError, match=complaint):
        decode_ring(bytes(body))


def test_records_of_a_later_version_are_counted() -> None:
    body = segment()
    at = records_at(body)
    for record, kind in ((0, 77), (9, 0x99)):
        body[at + record * RECORD_BYTES + 8] = kind
    decoded = decode_ring(bytes(body))
    assert decoded.unknown == 2
    assert len(rows(decoded, "collective")) == 3
    assert rows(decoded, "step")[0]["loss"] is None, "the record that had it is one of those"


def test_a_body_is_taken_whole_or_not_at_all() -> None:
    good = bytes(segment())
    assert decode_ring(b"").tables == {}
    for bad, complaint in (
        (good + b"x", "segment 2 at byte"),
        (good + good[:-1], "bytes, got"),
        (b"LEADSEG2" + good[8:], "LEADSEG1"),
        (good[:100], "bytes of header"),
    ):
        with pytest.raises(DataError, match=complaint):
            decode_ring(bad)


def test_bodies_that_would_unpack_to_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    good = bytes(segment())
    monkeypatch.setattr(ring_module, "SEGMENTS_MAX", 2)
    with pytest.raises(RefusedError, match="more than 2 segments"):
        decode_ring(good * 3)
    monkeypatch.setattr(ring_module, "GROUP_MAX", 3)  # an event of any length would be joined piece by piece
    with pytest.raises(DataError, match="groups of at most 3 records"):
        decode_ring(good)
    monkeypatch.setattr(ring_module, "GROUP_MAX", layout.GROUP_MAX)
    monkeypatch.setattr(ring_module, "NAME_BYTES_MAX", 3)
    with pytest.raises(RefusedError, match="names of values"):
        decode_ring(good)


def test_the_header_of_a_segment_is_checked_too() -> None:
    body = segment()
    body[layout.SEGMENT.size + 104] = 0xFF  # the number of the host's name
    with pytest.raises(DataError, match="a string up to"):
        decode_ring(bytes(body))
    assert layout.SEGMENT.size + 256 == SEGMENT_HEADER_BYTES
