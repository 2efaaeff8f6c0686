"""One source that does not answer: the others go on, it is told, and the process ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.host.agent import Agent
from leadline.host.found import Found, Sample, Stream
from leadline.host.sources.ring import Ring
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source

from .conftest import site_with
from .test_kmsg_and_ring import make_ring, write


class Reads(Source):
    """Reads what hangs as long as `goes_on` is not set."""

    name = "reads"
    goes_on = threading.Event()
    opens = threading.Event()

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.opens.wait(60)

    def poll(self, now_ns: int) -> Found:
        self.goes_on.wait(60)
        return Found(samples=[Sample(Stream("read", (), False, "1", True), now_ns, 1.0)])


class Works(Source):
    name = "works"
    polls = 0

    def poll(self, now_ns: int) -> Found:
        type(self).polls += 1
        return Found()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr("leadline.host.agent.ANSWER_S", 0.2)
    monkeypatch.setattr("leadline.host.agent.OPEN_S", 0.2)
    Reads.goes_on.clear()
    Reads.opens.set()
    site = site_with(ring_dir=tmp_path / "ring", spool=tmp_path / "spool", server="http://127.0.0.1:1", stop_s_max=0.1)
    agent = Agent(site.config, site)
    yield agent
    Reads.goes_on.set()
    Reads.opens.set()
    agent.close()


def up(agent: Agent) -> dict[str, float]:
    return {
        dict(each.stream.labels)["source"]: each.value
        for each in agent.own_samples(5)
        if each.stream.name == "leadline_agent_source_up"
    }


def test_one_that_hangs_is_down_and_the_others_go_on(agent: Agent) -> None:
    agent.open([Reads, Works, Ring])
    write(make_ring(agent.config.ring_dir / "a.ring", os.getpid()), 0, 3)
    looks: list[int] = []
    agent.reporter.looked = lambda jobs, seen_ns: looks.append(seen_ns)  # type: ignore[method-assign]
    before = Works.polls
    for at in (10, 20, 30):
        agent._poll_due(at, everything=True)
    assert Works.polls == before + 3
    assert looks == [10, 20, 30]  # the watermark goes on
    assert agent.lanes["ring"].spool.waiting()[1] == 3
    assert up(agent) == {"reads": 0, "works": 1, "ring": 1}
    assert agent.site.counts.all()["agent_source_failed", "hangs"] == 1  # it was not asked again
    Reads.goes_on.set()
    agent._running[0].due = agent._running[1].due = agent._running[2].due = agent._due = time.monotonic() + 60
    began = time.monotonic()
    agent._wait()  # it is woken by the answer, not by the next source that is due
    assert time.monotonic() - began < 30
    assert [each.stream.name for each in agent._samples] == ["read"]
    assert up(agent)["reads"] == 1


def test_one_that_hangs_when_it_opens_is_taken_when_it_has(agent: Agent) -> None:
    Reads.opens.clear()
    Reads.goes_on.set()
    agent.open([Reads, Works])
    assert up(agent) == {"reads": 0}  # the other was not asked yet
    (opening,) = agent._opening
    Reads.opens.set()
    assert opening.asked is not None
    assert opening.asked.wait(60)
    agent._take_late()
    agent._poll_due(5, everything=True)
    assert up(agent) == {"reads": 1, "works": 1}


HANGS = """
import os, sys
from leadline.host import main
from leadline.host.found import Found
from leadline.host.sources.source import Source
class Hangs(Source):
    name = "hangs"
    def poll(self, now_ns):
        print("asked", flush=True)
        os.read(os.pipe()[0], 1)
class Writes(Source):
    name = "writes"
    def poll(self, now_ns):
        return Found(samples=[object()]) if sys.argv[1] == "disk" else Found()
if sys.argv[1] == "disk":  # what the main thread does with what was found never ends, in the kernel
    main.Agent.keep = lambda *_: (print("asked", flush=True), os.read(os.pipe()[0], 1))
    main.SOURCES = (Writes,)
else:
    main.SOURCES = (Hangs, Writes)
sys.exit(main.main(sys.argv[2:]))
"""


@pytest.mark.parametrize(("what", "code"), [("source", 0), ("disk", 3)])
def test_sigterm_is_obeyed_whatever_hangs(tmp_path: Path, what: str, code: int) -> None:
    environ = {**os.environ, "LEADLINE_AGENT__STOP_S_MAX": "0.5"}
    flags = ["--server", "http://127.0.0.1:1", "--spool", str(tmp_path / "spool"), "--ring-dir", str(tmp_path / "ring")]
    process = subprocess.Popen([sys.executable, "-c", HANGS, what, *flags], stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == code
