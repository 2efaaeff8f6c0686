"""A real writer of an event ring, killed while it writes, and a real server that is told what it left behind."""

from __future__ import annotations

import mmap
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.senders.running import RunningLeadline, wait_for

from leadline.wire.ring.format import read_header, read_segment

# Writes collectives whose fields all follow from their number, without a pause, for at most 20 s.
WRITER = """
import mmap, os, sys, time
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes
path = sys.argv[1]
with open(path + ".new", "w+b") as file:
    file.truncate(ring_bytes(1024, 4096))
    memory = mmap.mmap(file.fileno(), 0)
now = time.time_ns()
format_ring(memory, host="n12", job="bert-7", rank=3, world_size=8, source="torch-hook", pid=os.getpid(), tid=1,
            boot_id=bytes(16), start_ns=now, start_monotonic_ns=0, strings_bytes=4096)
os.rename(path + ".new", path)
ring, seq, end = RingWriter(memory), 0, time.monotonic() + 20
while time.monotonic() < end:
    seq += 1
    ring.collective_end("bert-7/0x9c", seq, "all_reduce", "float32", seq * 3, 8, now + seq, now + seq + 7)
    if seq % 64 == 0:
        ring.step(seq // 64, now + seq, now + seq + 1, loss=float(seq), metrics={"twice": 2.0 * seq})
"""


@pytest.fixture
def killed_ring(tmp_path: Path) -> Iterator[tuple[mmap.mmap, list[bytes], int, int]]:
    """What was read while the writer lived, what it left when it was killed: ring, segments, last number, lost."""
    path = tmp_path / "13.ring"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        wait_for("the ring", path.exists, 30, 0.01)
        with path.open("rb") as file:
            ring = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        segments, last, lost = [], 0, 0
        while last < 30_000:  # 1,024 are held, so many are overwritten, some of them while they are read
            reading = read_segment(ring, last, 16 * 1024)
            assert writer.poll() is None
            segments.append(reading.segment)
            last, lost = reading.last, lost + reading.lost
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        yield ring, segments, last, lost
        ring.close()
    finally:
        writer.kill()
        writer.wait()


def test_what_a_killed_writer_left_arrives_whole(
    tmp_path: Path, killed_ring: tuple[mmap.mmap, list[bytes], int, int]
) -> None:
    ring, segments, last, lost = killed_ring
    header = read_header(ring)
    more = True
    while more:
        reading = read_segment(ring, last, 16 * 1024)
        segments.append(reading.segment)
        last, lost, more = reading.last, lost + reading.lost, reading.more
    assert last == header.written
    assert (header.dropped, header.closed) == (0, False)
    segments = [segment for segment in segments if segment]
    bodies = [b"".join(segments[at : at + 10]) for at in range(0, len(segments), 10)][-12:]
    with RunningLeadline(tmp_path) as leadline:
        told_rows = told_lost = 0
        for body in bodies:
            answer = leadline.http.post("/api/v1/ring", content=body)
            assert answer.status_code == 200, answer.text
            told_rows += answer.json()["rows"]
            told_lost += answer.json()["refused"].get("ring_lost", 0)
        assert leadline.http.post("/api/v1/ring", content=bodies[-1]).status_code == 200  # an answer got lost
        right = leadline.sql(
            "SELECT count() AS n, uniqExact(seq) AS seqs, countIf(bytes = 3 * seq AND comm = 'bert-7/0x9c' AND "
            "op = 'all_reduce' AND finished_ns - enqueued_ns = 7 AND rank = 3 AND state = 'finished') AS good "
            "FROM collective"
        )[0]
        steps = leadline.sql(
            "SELECT count() AS n, countIf(loss = 64 * step AND toFloat64(metrics['twice']) = 2 * loss) AS good "
            "FROM step"
        )[0]
        assert right["n"] == right["seqs"] == right["good"] > 0
        assert steps["n"] == steps["good"]
        assert right["n"] + steps["n"] == told_rows
        assert leadline.refused().get(("ingest_refused", "ring_lost"), 0) == told_lost
