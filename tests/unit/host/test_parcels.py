"""What all rings had at one look, as few requests, and such a request taken apart."""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

import pytest

from leadline.host import parcels as parcels_module
from leadline.host.delivery import Outcome
from leadline.host.found import Segment
from leadline.host.frames import Item
from leadline.host.lane import Lane, Refusals
from leadline.host.parcels import PARCEL_BYTES_MAX, parcels, parts
from leadline.host.spool import Spool
from leadline.wire.ring.format import SEGMENT_HEADER_BYTES, read_segment
from leadline.wire.ring.segments import SEGMENTS_MAX, decode_ring
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes


def segment(number: int, records: int = 3) -> Segment:
    memory = mmap.mmap(-1, ring_bytes(64))
    format_ring(
        memory, host="h3", job="bert-1", rank=number, world_size=8, source="test", pid=1, tid=1, boot_id=bytes(16),
        start_ns=1_000, start_monotonic_ns=5,
    )  # fmt: skip
    ring = RingWriter(memory)
    for at in range(records):
        ring.clock_pair(at, at)
    return Segment(read_segment(memory, 0).segment, records, f"ring/{number}", records)


def test_one_request_has_what_all_rings_had_and_where_each_is_read_to() -> None:
    found = [segment(0), segment(1), segment(1)._replace(at=9)]
    (item,) = parcels(found, 77)
    assert (item.rows, item.after_ns, item.path) == (9, 77, "/api/v1/ring")
    assert item.marks == (("ring/0", "3"), ("ring/1", "9"))
    assert decode_ring(item.body).records == 9
    assert list(parcels([], 77)) == []


def test_a_request_is_bounded_and_no_segment_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [segment(number) for number in range(5)]
    monkeypatch.setattr(parcels_module, "PARCEL_BYTES_MAX", 2 * len(found[0].body))
    items = list(parcels(found, 0))
    assert [decode_ring(item.body).records for item in items] == [6, 6, 3]
    assert [name for item in items for name, _ in item.marks] == [each.mark for each in found]
    monkeypatch.setattr(parcels_module, "PARCEL_BYTES_MAX", 1)
    assert len(list(parcels(found, 0))) == 5


def test_the_server_takes_as_many_segments_as_a_request_may_have() -> None:
    assert PARCEL_BYTES_MAX // SEGMENT_HEADER_BYTES < SEGMENTS_MAX


def test_a_request_in_parts_is_the_same_each_time() -> None:
    (item,) = parcels([segment(0), segment(1)], 77)
    first, second = parts(item)
    assert (first.body, second.body) == (segment(0).body, segment(1).body)
    assert (first.rows, second.rows) == (3, 3)
    assert parts(item) == [first, second]
    assert first.batch != second.batch
    assert parts(first) == []
    assert parts(item._replace(path="/v1/metrics")) == []
    torn = item._replace(body=item.body[:-1])
    assert [each.body for each in parts(torn)] == [segment(0).body, segment(1).body[:-1]]
    assert parts(item._replace(body=b"nonsense")) == []


# --- lanes with several requests in flight -----------------------------------------------------------------------


class ServerDouble:
    """Answers what a test says, by the first byte of the body, and sees how many ask at once."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.down = False
        self.refused: set[bytes] = set()
        self.asking = self.asking_most = self.asked = 0
        self.stored: list[bytes] = []
        self.lock = threading.Lock()

    def __call__(self, item: Item) -> Outcome:
        with self.lock:
            self.asking += 1
            self.asked += 1
            self.asking_most = max(self.asking, self.asking_most)
        self.gate.wait(10)
        with self.lock:
            self.asking -= 1
            if self.down:
                return Outcome(0, "away")
            if any(bad in item.body for bad in self.refused):
                return Outcome(400, "malformed")
            self.stored.append(item.body)
            return Outcome(200)

    def close(self) -> None:
        pass


def until(what: object) -> None:
    end = time.monotonic() + 10
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def item(number: int) -> Item:
    return Item("/x", "text/plain", b"%d" % number, number.to_bytes(16, "big"), 1)


def lane_of(spool: Spool, server: ServerDouble, refusals: Refusals | None = None) -> Lane:
    return Lane("ring", spool, [server] * 4, 0.05, refusals or Refusals(lambda *_: None))  # type: ignore[list-item]


def test_several_are_on_their_way_at_once_and_no_more_than_that(tmp_path: Path) -> None:
    server = ServerDouble()
    server.gate.clear()
    spool = Spool(tmp_path, 1 << 20, lambda *_: None)
    lane = lane_of(spool, server)
    for number in range(9):
        spool.append(item(number))
    lane.start()
    until(lambda: server.asking == 4)
    server.gate.set()
    until(lambda: lane.delivered == 9)
    assert server.asking_most == 4
    assert sorted(server.stored) == [b"%d" % number for number in range(9)]
    lane.stop(time.monotonic() + 5)
    lane.join()
    spool.close()


def test_a_server_that_is_away_is_asked_by_one_at_a_time_and_what_failed_together_is_one_failure(
    tmp_path: Path,
) -> None:
    server = ServerDouble()
    server.down = True
    server.gate.clear()
    spool = Spool(tmp_path, 1 << 20, lambda *_: None)
    lane = lane_of(spool, server)
    for number in range(8):
        spool.append(item(number))
    lane.start()
    until(lambda: server.asking == 4)
    server.gate.set()
    until(lambda: server.asking == 0)
    assert lane.state.failures == 1
    server.asking_most = 0
    until(lambda: lane.state.failures >= 4)
    assert server.asking_most == 1
    server.down = False
    until(lambda: spool.waiting()[1] == 0)
    assert sorted(server.stored) == [b"%d" % number for number in range(8)]
    assert lane.state.failures == 0
    lane.stop(time.monotonic() + 5)
    lane.join()
    spool.close()


def test_one_spoilt_ring_costs_its_own_segment_and_no_other(tmp_path: Path) -> None:
    refused: list[tuple[int, str]] = []
    server = ServerDouble()
    bad = segment(1)
    server.refused.add(bad.body)
    spool = Spool(tmp_path, 1 << 20, lambda *_: None)
    lane = lane_of(spool, server, Refusals(lambda each, words: refused.append((each.rows, words)), parts))
    for each in parcels([segment(0), bad, segment(2)], 0):
        spool.append(each)
    lane.start()
    until(lambda: spool.waiting()[1] == 0)
    assert server.stored == [segment(0).body, segment(2).body]
    assert refused == [(3, "malformed")]
    assert lane.delivered == 6
    lane.stop(time.monotonic() + 5)
    lane.join()
    spool.close()


def test_what_the_bound_dropped_is_not_tried_again(tmp_path: Path) -> None:
    server = ServerDouble()
    server.down = True
    lost: list[int] = []
    spool = Spool(tmp_path, 4 * 64 * 1024, lambda _, rows: lost.append(rows))
    lane = lane_of(spool, server)
    spool.append(item(0))
    lane.start()
    until(lambda: lane.state.failures)
    for number in range(1, 12):
        spool.append(item(number)._replace(body=os.urandom(60_000)))
    server.down = False
    until(lambda: spool.waiting()[1] == 0)
    assert b"0" not in server.stored
    assert len(server.stored) == 12 - sum(lost)
    lane.stop(time.monotonic() + 5)
    lane.join()
    spool.close()
