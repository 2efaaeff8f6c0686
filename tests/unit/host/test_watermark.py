"""How far the data has come, as the agent tells it: never further than it is true, and the end of a job for certain."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leadline.host import spool as spool_module
from leadline.host.agent import Agent
from leadline.host.found import Event, Found
from leadline.host.sources.exits import Exits
from leadline.host.sources.ring import Ring
from leadline.host.sources.source import Source
from leadline.host.watermark import Gone, Jobs, Kept
from leadline.model.tables import BY_NAME
from leadline.wire.ring.segments import decode_ring

from .conftest import AnsweringDouble, site_with
from .test_kmsg_and_ring import ended, make_ring, write

RING, WATERMARK = "/api/v1/ring", "/api/v1/rows/watermark"
S = 10**9


def told(jobs: Jobs, to_ns: int) -> list[tuple[str, int, str]]:
    return [(row.job, row.ranks, row.state) for row in jobs.rows(to_ns, 99)]


def test_a_job_is_open_while_it_writes_and_ended_once_all_of_it_is_stored() -> None:
    jobs = Jobs().looked({"a": 2, "b": 1}, 10)
    assert told(jobs, 5) == [("", 3, "open"), ("a", 2, "open"), ("b", 1, "open")]
    jobs = jobs.looked({"b": 1}, 20).looked({"b": 1}, 30)
    assert told(jobs, 19) == [("", 1, "open"), ("b", 1, "open"), ("a", 2, "open")]
    assert told(jobs, 20) == [("", 1, "open"), ("b", 1, "open"), ("a", 2, "ended")]
    assert told(jobs.told(jobs.over(20)), 20) == [("", 1, "open"), ("b", 1, "open")]
    assert told(jobs.looked({"a": 1, "b": 1}, 40), 50)[1:] == [("a", 1, "open"), ("b", 1, "open")]  # it is back


def test_an_agent_that_is_told_to_end_says_so_unless_a_job_runs_on() -> None:
    idle = Jobs()
    assert idle.rows(20, 30)[0].state == "open"
    assert idle.rows(20, 30, leaving=True)[0].state == "ended"
    assert Jobs().looked({"a": 2}, 10).rows(20, 30, leaving=True)[0].state == "open"
    late = Jobs().looked({"a": 2}, 10).looked({}, 25)
    assert late.rows(20, 30, leaving=True)[0].state == "open", "its last rows are not stored yet"


def test_an_end_that_came_again_meanwhile_is_told_again() -> None:
    jobs = Jobs(gone={"a": Gone(20, 2)})
    over = jobs.over(20)
    again = jobs.looked({"a": 2}, 30).looked({}, 40).told(over)
    assert told(again, 40) == [("", 0, "open"), ("a", 2, "ended")]


def test_a_row_has_the_columns_of_its_table() -> None:
    columns = {column.name for column in BY_NAME["watermark"].given}
    assert {*Jobs().rows(1, 2)[0]._fields, "host", "clock"} <= columns


@pytest.mark.parametrize("text", ["", "[]", '{"a": "x"}', '{"a": null}', "{"])
def test_jobs_that_were_kept_badly_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs").write_text(text)
    assert Kept(tmp_path / "jobs").read() == {}


# --- the whole agent, its clock in our hand ----------------------------------------------------------------------


class Held(Source):
    """Has seen something that it will tell later."""

    name = "held"
    since_ns: int | None = None

    @property
    def held_ns(self) -> int | None:
        return self.since_ns


class Sudden(Source):
    """Tells an event when it is told to."""

    name = "sudden"
    wants = False

    def poll(self, now_ns: int) -> Found:
        if not self.wants:
            return Found()
        self.wants = False
        return Found(events=[Event(now_ns, "host:h3", "sudden", "info", "", {}, "test")])


class Host:
    """An agent on one host, looked with by hand: `look()` is one round of its loop at the next second."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory, self.url = directory, url
        self.now_ns = 1_000 * S
        self.born()

    def born(self) -> None:
        site = site_with(
            server=self.url, spool=self.directory / "spool", ring_dir=self.directory / "ring", retry_s_max=0.1,
            interval_s=0.1, ring_interval_s=0.05,
        )  # fmt: skip
        site.now_ns = lambda: self.now_ns
        self.agent = Agent(site.config, site)
        self.agent.open((Ring, Held, Sudden, Exits))
        self.ring, self.held, self.sudden, _ = (running.source for running in self.agent._running)

    def look(self) -> int:
        self.now_ns += S
        self.agent._poll_due(self.now_ns, everything=True)
        return self.now_ns

    def killed(self) -> None:
        """As with kill -9: nothing is delivered or written any more."""
        for lane in self.agent.lanes.values():
            lane.stop(time.monotonic())
            lane.join()
            os.close(lane.spool._guard)
        self.agent.reporter._delivered = lambda: 0
        self.agent.reporter.stop()
        self.ring.close()


@pytest.fixture
def host(tmp_path: Path, answering: AnsweringDouble) -> Host:
    return Host(tmp_path, answering.url)


def until(what: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def seqs(answering: AnsweringDouble) -> list[int]:
    """The numbers of the collectives that came, in their order, each batch once."""
    bodies = dict.fromkeys(body for path, _, body in list(answering.got) if path == RING)
    tables = [decode_ring(body).tables for body in bodies]
    return sorted(seq for each in tables if "collective" in each for seq in each["collective"]["seq"].to_pylist())


def marks(answering: AnsweringDouble) -> list[dict[str, Any]]:
    bodies = [body for path, _, body in list(answering.got) if path == WATERMARK]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def test_it_says_up_to_which_look_all_is_stored(host: Host) -> None:
    agent = host.agent
    ring = make_ring(host.directory / "ring" / "a.ring", os.getpid())
    write(ring, 0, 3)
    first = host.look()
    assert agent.delivered_ns() == 0  # it has told nothing yet, and nobody knows of the time before it
    agent.lanes["ring"].start()
    until(lambda: agent.delivered_ns() == first)
    second = host.look()
    assert agent.delivered_ns() == second  # nothing was found: it was seen that nothing was there
    host.sudden.wants = True  # type: ignore[attr-defined]
    host.look()
    host.look()
    assert agent.delivered_ns() == second  # the event waits in the other lane
    agent.lanes["urgent"].start()
    until(lambda: agent.delivered_ns() == host.now_ns)
    host.held.since_ns = 1_004 * S + 5  # type: ignore[attr-defined]
    host.look()
    assert agent.delivered_ns() == 1_004 * S + 4
    agent.close()


def test_a_ring_that_could_not_be_read_to_its_end_holds_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.sources.ring.LOOK_BYTES_MAX", 1)
    host.agent.lanes["ring"].start()
    first = host.look()
    for name in ("a", "b"):
        write(make_ring(host.directory / "ring" / f"{name}.ring", os.getpid()), 0, 3)
    host.look()
    until(lambda: host.agent.lanes["ring"].spool.waiting()[1] == 0)
    assert host.agent.delivered_ns() == first
    third = host.look()
    until(lambda: host.agent.delivered_ns() == third)
    host.agent.close()


@contextmanager
def full_disk() -> Iterator[None]:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool_module.os, "write", full)
        yield


def test_on_a_full_disk_the_rings_keep_what_is_theirs_and_losses_are_told_first(
    host: Host, answering: AnsweringDouble
) -> None:
    agent = host.agent
    ring = make_ring(host.directory / "ring" / "a.ring", os.getpid())
    for lane in agent.lanes.values():
        lane.start()
    before = host.look()
    until(lambda: agent.delivered_ns() == before)
    with full_disk():
        write(ring, 0, 3)
        host.sudden.wants = True  # type: ignore[attr-defined]
        host.look()
        write(ring, 3, 5)
        host.look()
        assert agent.delivered_ns() == before
        assert agent.site.counts.all()["agent_dropped", "spool_failed"] >= 1  # the event, and samples
    after = host.look()
    until(lambda: agent.delivered_ns() >= after or (host.look() and False))
    until(lambda: seqs(answering) == [0, 1, 2, 3, 4])
    events = [json.loads(body) for path, _, body in answering.got if path.endswith("/event")]
    assert [event["kind"] for event in events] == ["agent-lost"]
    assert int(events[0]["attributes"]["spool_failed"]) >= 1
    agent.close()


def test_what_was_lost_stands_in_the_way_until_it_is_told(host: Host) -> None:
    agent = host.agent
    agent.lanes["ring"].start()
    before = host.look()
    assert agent.delivered_ns() == before
    agent._dropped("spool_full", 70)
    host.look()
    assert agent.delivered_ns() == before  # its event is kept, not stored
    agent.lanes["urgent"].start()
    until(lambda: agent.delivered_ns() == host.now_ns)
    agent.close()


def test_a_restart_in_mid_job_tells_nothing_twice_and_goes_on_from_what_is_stored(
    host: Host, answering: AnsweringDouble
) -> None:
    ring = make_ring(host.directory / "ring" / "a.ring", os.getpid())
    host.agent.lanes["ring"].start()
    write(ring, 0, 2)
    first = host.look()
    until(lambda: host.agent.delivered_ns() == first)
    host.agent.lanes["ring"].stop(time.monotonic())
    host.agent.lanes["ring"].join()
    write(ring, 2, 4)
    host.look()
    write(ring, 4, 5)
    host.look()
    host.killed()
    write(ring, 5, 8)
    host.born()
    host.look()
    assert host.agent.delivered_ns() == first  # a look later than that is in the spool yet
    host.agent.lanes["ring"].start()
    until(lambda: host.agent.delivered_ns() == host.now_ns)
    assert seqs(answering) == list(range(8))
    host.agent.close()


def test_an_agent_that_comes_late_reads_what_is_there_and_counts_the_rest(
    host: Host, answering: AnsweringDouble
) -> None:
    write(make_ring(host.directory / "ring" / "a.ring", os.getpid()), 0, 200)  # it holds 64
    host.agent.lanes["ring"].start()
    first = host.look()
    until(lambda: host.agent.delivered_ns() == first)
    assert seqs(answering) == list(range(136, 200))
    assert host.agent.site.counts.all()["agent_lost", "ring_overrun"] == 136
    assert decode_ring(answering.got[0][2]).lost == 136
    host.agent.close()


def test_the_rings_of_a_dead_job_are_told_once_removed_and_the_job_is_ended(
    host: Host, answering: AnsweringDouble
) -> None:
    """It died before the agent came: one rank in its first step, of which there is no row."""
    dead = ended()
    write(make_ring(host.directory / "ring" / "a.ring", dead), 0, 3)
    make_ring(host.directory / "ring" / "b.ring", dead).step_begin(0, 5)
    agent = host.agent
    agent.start()
    host.look()
    assert agent.reporter._jobs.here == {"bert-1": 1}
    host.look()
    assert list((host.directory / "ring").iterdir()) == []
    answering.answers += [(503, {}, b"")] * 2  # whoever comes first has to come again
    host.look()
    until(lambda: [row for row in marks(answering) if row["state"] == "ended"])
    until(lambda: not agent.reporter._jobs.gone)
    host.look()
    agent.close()
    assert seqs(answering) == [0, 1, 2]
    (end,) = {(row["job"], row["ranks"], row["to_ns"] >= 1_002 * S) for row in marks(answering) if row["job"]
              and row["state"] == "ended"}  # fmt: skip
    assert end == ("bert-1", 1, True)
    again = Host(host.directory, host.url)  # it is known to be told
    again.look()
    assert again.agent.reporter._jobs == Jobs()
    again.agent.close()


def test_the_last_word_of_an_agent_that_ends_in_order_is_that_its_host_is_no_more(
    host: Host, answering: AnsweringDouble
) -> None:
    host.agent.start()
    host.look()
    until(lambda: marks(answering))
    host.agent.close()
    assert [(row["job"], row["state"]) for row in marks(answering)][-1] == ("", "ended")


def test_a_job_that_ended_while_no_agent_was_there_is_told_to_have(host: Host, answering: AnsweringDouble) -> None:
    path = host.directory / "ring" / "a.ring"
    ring = make_ring(path, os.getpid())
    host.look()
    host.killed()
    ring.close()
    path.unlink()  # as when the host was started anew
    host.born()
    host.agent.start()
    host.look()
    until(lambda: [row["job"] for row in marks(answering) if row["state"] == "ended"] == ["bert-1"])
    host.agent.close()


def test_a_rank_that_lives_and_writes_nothing_is_open_and_its_time_goes_on(
    host: Host, answering: AnsweringDouble
) -> None:
    ring = make_ring(host.directory / "ring" / "a.ring", os.getpid())
    write(ring, 0, 1)
    host.agent.start()
    for _ in range(3):
        look = host.look()
        until(lambda at=look: any(row["to_ns"] == at for row in marks(answering)))  # type: ignore[misc]
    rows = [row for row in marks(answering) if row["job"] == "bert-1"]
    assert {(row["state"], row["ranks"], row["host"]) for row in rows} == {("open", 1, "h3")}
    assert [row["to_ns"] for row in rows] == sorted(row["to_ns"] for row in rows)
    ring.close()  # the hook was taken out, the process goes on with something else
    host.look()
    until(lambda: [row["job"] for row in marks(answering) if row["state"] == "ended"] == ["bert-1"])
    host.agent.close()


def test_a_watermark_that_is_refused_is_tried_again_with_what_is_true_then(
    host: Host, answering: AnsweringDouble
) -> None:
    refused = threading.Event()
    answering.answers = [(400, {}, b'{"error": {"reason": "no_table", "message": "no"}}')] * 2
    host.agent.reporter.start()
    host.look()
    until(lambda: len(answering.got) == 2)
    refused.set()
    last = host.look()
    until(lambda: host.agent.reporter._told_ns == last)
    host.agent.close()
