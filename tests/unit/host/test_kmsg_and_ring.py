"""The kernel log as a growing file, and event rings as jobs leave them."""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.host.found import Found
from leadline.host.sources.kmsg import Kmsg
from leadline.host.sources.ring import Ring
from leadline.host.sources.site import Site
from leadline.wire.kernel_log.events import xid_line
from leadline.wire.kernel_log.kmsg import kmsg_record
from leadline.wire.ring.segments import decode_ring
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

from .conftest import site_with

XID = xid_line("0000:9b:00", 79, "GPU has fallen off the bus.")


def test_lines_as_the_file_grows_half_lines_too(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    whole = kmsg_record(6, 1, 5_000_000, "nothing to see") + kmsg_record(3, 2, 6_000_000, XID)
    file.write_bytes(whole[:-10])
    source = Kmsg(site_with(kmsg=file))
    now = time.time_ns()
    assert source.poll(now).events == []
    with file.open("ab") as grows:
        grows.write(whole[-10:])
    found = source.poll(now)
    (event,) = found.events
    boot_ns = now - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert (event.kind, event.code, event.entity) == ("xid", "79", "host:h3")
    assert abs(event.time_ns - boot_ns - 6 * 10**9) < 10**9
    assert found.mark == (f"kmsg/{source.site.boot_id}", "2")
    assert source.poll(now).events == []
    source.close()


def test_a_restart_goes_on_behind_the_last_line_told(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    file.write_bytes(kmsg_record(3, 1, 5, XID) + kmsg_record(3, 2, 6, XID))
    site = site_with(kmsg=file)
    site.mark = lambda name: "1" if name == f"kmsg/{site.boot_id}" else ""
    source = Kmsg(site)
    assert [event.attributes["sequence"] for event in source.poll(time.time_ns()).events] == ["2"]
    file.write_bytes(kmsg_record(3, 1, 5, XID))  # made anew, shorter
    assert [event.attributes["sequence"] for event in source.poll(time.time_ns()).events] == ["1"]
    source.close()


def test_the_gpu_that_the_log_names_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    uuid = "GPU-5c1e9f0a-0000-4000-8000-000000000001"
    file.write_bytes(kmsg_record(6, 1, 5, f"NVRM: GPU at PCI:0000:9b:00: {uuid}"))
    source = Kmsg(site_with(kmsg=file))
    source.poll(time.time_ns())
    with file.open("ab") as grows:
        grows.write(kmsg_record(3, 2, 6, XID))
    assert [event.entity for event in source.poll(time.time_ns()).events] == [f"gpu:{uuid}"]
    source.close()


def test_the_gpu_that_the_log_named_is_known_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    uuid = "GPU-5c1e9f0a-0000-4000-8000-000000000001"
    file.write_bytes(kmsg_record(6, 1, 5, f"NVRM: GPU at PCI:0000:9b:00: {uuid}") + kmsg_record(3, 2, 6, XID))
    site = site_with(kmsg=file)
    site.mark = lambda _: "1"
    source = Kmsg(site)
    assert [event.entity for event in source.poll(time.time_ns()).events] == [f"gpu:{uuid}"]
    source.close()


def test_half_a_line_is_forgotten_with_the_file_it_was_in(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    file.write_bytes(kmsg_record(3, 1, 5, XID) + b"3,2,6,-;half of")
    source = Kmsg(site_with(kmsg=file))
    source.poll(time.time_ns())
    file.write_bytes(kmsg_record(3, 1, 5, XID))  # made anew, shorter
    assert [event.attributes["sequence"] for event in source.poll(time.time_ns()).events] == ["1"]
    source.close()


def test_a_container_without_a_kernel_log_has_dev_null(tmp_path: Path) -> None:
    source = Kmsg(site_with(kmsg=Path("/dev/null")))
    assert source.poll(5).events == []
    assert source.watched() == ()  # it is readable always, and would be read all the time
    assert source.poll(6).events == []
    source.close()


def make_ring(path: Path, pid: int, ticks: int = 0, records: int = 64, rank: int = 3) -> RingWriter:
    path.parent.mkdir(exist_ok=True)
    with path.open("w+b") as file:
        file.truncate(ring_bytes(records))
        memory = mmap.mmap(file.fileno(), 0)
    format_ring(
        memory, host="h3", job="bert-1", rank=rank, world_size=8, source="test", pid=pid, tid=pid, boot_id=bytes(16),
        start_ns=1_000, start_monotonic_ns=5, pid_start_ticks=ticks, gpu="gpu:GPU-1",
    )  # fmt: skip
    return RingWriter(memory)


def write(ring: RingWriter, first: int, last: int) -> None:
    for seq in range(first, last):
        ring.collective_begin("bert-1/0x9c", seq, "all_reduce", "float32", 1024, 8, time.time_ns())


def rows(found: object) -> list[int]:
    return [
        int(seq)
        for segment in found.segments  # type: ignore[attr-defined]
        for seq in decode_ring(segment.body).tables["collective"]["seq"].to_pylist()
    ]


def test_a_ring_of_a_living_process_is_tailed_and_announces_its_rank(site: Site) -> None:
    source = Ring(site)
    ring = make_ring(site.config.ring_dir / "a.ring", os.getpid())
    write(ring, 0, 3)
    found = source.poll(5)
    assert rows(found) == [0, 1, 2]
    assert (found.segments[0].records, found.segments[0].at) == (3, 3)
    assert site.ranks[os.getpid()].entity == "rank:bert-1/3"
    assert site.ranks[os.getpid()].gpu == "gpu:GPU-1"
    write(ring, 3, 4)
    assert rows(source.poll(5)) == [3]
    assert source.poll(5).segments == []
    write(ring, 4, 204)  # more than it holds: the oldest are gone, and counted
    found = source.poll(5)
    assert rows(found) == list(range(140, 204))
    assert site.counts.all() == {("agent_lost", "ring_overrun"): 136}
    assert (site.config.ring_dir / "a.ring").exists()
    source.close()


def test_looks_are_as_far_apart_as_the_server_says_and_no_ring_overflows(site: Site) -> None:
    source = Ring(site)
    ring = make_ring(site.config.ring_dir / "a.ring", os.getpid())
    assert source.every_s == site.config.ring_interval_s
    site.look_s = 2.0
    assert source.every_s == site.config.ring_interval_s, "nobody knows yet how fast rings fill"
    time.sleep(0.01)
    source.poll(5)
    assert source.every_s == 2.0, "nothing was written"
    write(ring, 0, 60)  # of 64
    source.poll(5)
    assert source.every_s == site.config.ring_interval_s
    site.look_s = 0.0
    source.poll(5)
    assert source.every_s == site.config.ring_interval_s
    source.close()


def test_a_restart_goes_on_behind_the_last_record_kept(site: Site) -> None:
    ring = make_ring(site.config.ring_dir / "a.ring", os.getpid())
    write(ring, 0, 10)
    source = Ring(site)
    kept = {segment.mark: str(segment.at) for segment in source.poll(5).segments}
    source.close()
    site.mark = lambda name: kept.get(name, "")
    write(ring, 10, 12)
    source = Ring(site)
    assert rows(source.poll(5)) == [10, 11]
    source.close()


def ended() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_ring_of_the_dead_is_read_to_its_end_and_removed_a_look_later(site: Site) -> None:
    forgotten: list[str] = []
    site.forget = forgotten.append
    path = site.config.ring_dir / "a.ring"
    ring = make_ring(path, ended())
    write(ring, 0, 5)
    source = Ring(site)
    found = source.poll(5)
    assert rows(found) == [0, 1, 2, 3, 4]
    assert path.exists()  # what was read is not in the spool yet
    assert site.ranks == {}
    assert source.poll(5).segments == []
    assert not path.exists()
    assert forgotten == [found.segments[0].mark]


def test_a_ring_whose_writer_holds_it_stays_whatever_its_process_is_called_here(site: Site) -> None:
    """As that of a job in a container, which has numbers of processes of its own."""
    path = site.config.ring_dir / "a.ring"
    ring = make_ring(path, ended())
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(ring, 0, 2)
        source = Ring(site)
        assert rows(source.poll(5)) == [0, 1]
        assert source.poll(5).segments == []
        write(ring, 2, 3)
        assert rows(source.poll(5)) == [2]
        assert site.ranks == {}  # nobody here has that number
    assert source.poll(5).segments == []
    assert not path.exists()


def test_a_file_too_large_for_a_ring_is_passed_over(site: Site) -> None:
    site.config.ring_dir.mkdir()
    path = site.config.ring_dir / "a.ring"
    make_ring(path, os.getpid())
    os.truncate(path, 1 << 40)
    source = Ring(site)
    assert source.poll(5).segments == []
    assert site.ranks == {}


def test_a_new_ring_of_the_same_name_is_not_removed_with_the_old_one(site: Site) -> None:
    path = site.config.ring_dir / "a.ring"
    ring = make_ring(path, ended())
    write(ring, 0, 1)
    source = Ring(site)
    source.poll(5)
    path.unlink()
    ring = make_ring(path, os.getpid())
    write(ring, 7, 9)
    source.poll(5)
    assert path.exists()
    assert rows(source.poll(5)) == [7, 8]
    source.close()


def test_what_is_no_ring_and_what_was_cut_short(site: Site) -> None:
    source = Ring(site)
    (site.config.ring_dir / "empty.ring").write_bytes(b"")
    (site.config.ring_dir / "other.ring").write_bytes(b"x" * 5000)
    (site.config.ring_dir / "link.ring").symlink_to("/dev/zero")
    os.mkfifo(site.config.ring_dir / "pipe.ring")
    path = site.config.ring_dir / "a.ring"
    ring = make_ring(path, os.getpid())
    write(ring, 0, 2)
    assert rows(source.poll(5)) == [0, 1]
    os.truncate(path, 100)
    assert source.poll(5).segments == []
    assert site.counts.all() == {("agent_lost", "ring_spoilt"): 1}
    source.poll(5)  # it is no ring any more: it is not even opened
    assert site.counts.all() == {("agent_lost", "ring_spoilt"): 1}
    source.close()


def test_a_ring_that_is_cut_short_while_it_is_read_ends_nothing(site: Site) -> None:
    """Its owner may do that at any instant; a reader that had mapped it would die of SIGBUS. (The agent is a process of
    its own here, so that the test would tell of that.)"""
    path = site.config.ring_dir / "a.ring"
    write(make_ring(path, os.getpid(), records=8192), 0, 8192)
    size = path.stat().st_size
    code = (
        "import sys, time; from pathlib import Path; from leadline.host.config import AgentConfig; "
        "from leadline.host.counts import AgentCounts; from leadline.host.sources.ring import Ring; "
        "from leadline.host.sources.site import Site\n"
        "site = Site(AgentConfig(ring_dir=Path(sys.argv[1])), 'h', 'h', '', AgentCounts()); source = Ring(site)\n"
        "spoilt = 0; until = time.monotonic() + 60\n"
        "while spoilt < 40 and time.monotonic() < until:\n"
        "    source.poll(5); source.not_kept()\n"
        "    spoilt = site.counts.all().get(('agent_lost', 'ring_spoilt'), 0)\n"
        "print(spoilt)"
    )
    whole = path.read_bytes()
    reader = subprocess.Popen([sys.executable, "-c", code, str(path.parent)], stdout=subprocess.PIPE, text=True)
    with path.open("r+b") as file:
        while reader.poll() is None:
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), whole, 0)
            time.sleep(0.005)  # long enough for a look of all of it, which most cuts come in the middle of
    assert (reader.returncode, size) == (0, len(whole))
    assert reader.stdout is not None
    with reader.stdout:
        assert int(reader.stdout.read()) >= 40


def owned_ring(site: Site, owner: int, status: str, pid: int = 77) -> Path:
    """A ring of a user that names process 77, of which a double of /proc tells."""
    path = site.config.ring_dir / "a.ring"
    write(make_ring(path, pid), 0, 2)
    os.chown(path, owner if os.getuid() == 0 else -1, -1)
    process = site.config.proc_root / "77"
    process.mkdir(parents=True)
    (process / "stat").write_text("77 (python) S " + "1 " * 30)
    (process / "status").write_text(f"Name:\tpython\n{status}\nGid:\t5\t5\t5\t5\n")
    return path


@pytest.fixture
def other() -> int:
    """A user that is not root."""
    return os.getuid() or 1234


def test_a_ring_of_somebody_else_than_its_process_is_refused_and_counted_once(tmp_path: Path, other: int) -> None:
    site = site_with(ring_dir=tmp_path / "ring", proc_root=tmp_path / "proc")
    path = owned_ring(site, other, "Uid:\t99\t99\t99\t99")
    source = Ring(site)
    for _ in range(3):
        found = source.poll(5)
        assert (found.segments, found.jobs) == ([], {})
    assert site.ranks == {}
    assert site.counts.all() == {("agent_lost", "ring_owner"): 1}
    assert path.exists()
    source.close()


@pytest.mark.parametrize("uid", [0, 1, 2, 3])
def test_a_process_may_have_made_its_ring_as_any_of_its_users(tmp_path: Path, other: int, uid: int) -> None:
    site = site_with(ring_dir=tmp_path / "ring", proc_root=tmp_path / "proc")
    uids = [99, 99, 99, 99]
    uids[uid] = other
    owned_ring(site, other, "Uid:\t" + "\t".join(map(str, uids)))
    source = Ring(site)
    assert rows(source.poll(5)) == [0, 1]
    assert site.ranks[77].entity == "rank:bert-1/3"
    source.close()


def test_a_process_with_another_number_here_is_known_by_the_lock_it_holds(tmp_path: Path, other: int) -> None:
    for name, uid, segments in (("mine", other, 1), ("theirs", 99, 0)):
        site = site_with(ring_dir=tmp_path / name, proc_root=tmp_path / f"proc-{name}")
        path = owned_ring(site, other, f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}", pid=1 << 22)
        told = path.stat()
        place = f"{os.major(told.st_dev):02x}:{os.minor(told.st_dev):02x}:{told.st_ino}"
        (site.config.proc_root / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 77 {place} 0 EOF\n")
        source = Ring(site)
        assert len(source.poll(5).segments) == segments
        source.close()


def test_one_look_for_a_person_takes_nothing_away(site: Site) -> None:
    path = site.config.ring_dir / "a.ring"
    make_ring(path, ended())
    site.looks_only = True
    source = Ring(site)
    source.poll(5)
    source.poll(5)
    assert path.exists()
    source.close()


def test_jobs_are_those_into_whose_rings_somebody_still_writes(site: Site) -> None:
    source = Ring(site)
    first = make_ring(site.config.ring_dir / "a.ring", os.getpid())
    second = make_ring(site.config.ring_dir / "b.ring", os.getpid())  # of the same rank: another of its threads
    make_ring(site.config.ring_dir / "c.ring", os.getpid(), rank=4)
    make_ring(site.config.ring_dir / "d.ring", os.getpid(), rank=-1)  # of no rank
    assert source.poll(5).jobs == {"bert-1": 2}
    write(first, 0, 2)
    first.close()
    assert source.poll(5).jobs == {"bert-1": 2}
    second.close()
    assert source.poll(5).jobs == {"bert-1": 1}
    source.close()


def test_what_was_not_kept_is_read_again_and_counted_once(site: Site) -> None:
    kept: dict[str, str] = {}
    site.mark = lambda name: kept.get(name, "")
    source = Ring(site)
    ring = make_ring(site.config.ring_dir / "a.ring", os.getpid())
    write(ring, 0, 100)  # it holds 64
    assert rows(source.poll(5)) == list(range(36, 100))
    source.not_kept()
    write(ring, 100, 110)
    (segment,) = source.poll(5).segments
    assert rows(Found(segments=[segment])) == list(range(46, 110))
    assert site.counts.all() == {("agent_lost", "ring_overrun"): 46}
    kept[segment.mark] = str(segment.at)
    source.not_kept()
    assert source.poll(5).segments == []
    source.close()


def test_one_look_takes_no_more_than_its_bound_and_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.sources.ring.LOOK_BYTES_MAX", 1)
    source = Ring(site)
    gone = ended()
    for name in ("a", "b"):
        write(make_ring(site.config.ring_dir / f"{name}.ring", gone), 0, 3)
    looks = [source.poll(5) for _ in range(3)]
    assert [len(look.segments) for look in looks] == [1, 1, 0]
    assert [look.is_whole for look in looks] == [False, True, True]
    assert [look.jobs for look in looks] == [{"bert-1": 1}, {"bert-1": 1}, {}]
    assert list(site.config.ring_dir.iterdir()) == []
