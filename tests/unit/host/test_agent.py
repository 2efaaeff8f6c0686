"""The whole agent in this process, with sources of a test and a double of the server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from leadline.host.agent import Agent
from leadline.host.found import Edge, Event, Found, Sample, Segment, Stream
from leadline.host.sources import SOURCES
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError

from .conftest import AnsweringDouble, Site, site_with


class Steady(Source):
    """Tells a sample, an edge and a segment with each reading."""

    name = "steady"

    def poll(self, now_ns: int) -> Found:
        segment = Segment(b"segment", 4, "ring/a", 7)
        sample = Sample(Stream("node_load1"), now_ns, 0.5)
        return Found([sample], edges=[Edge("port:h3/eth0", "host:h3", "in")], segments=[segment])


class Sudden(Source):
    """Tells an event when its pipe is written to."""

    name = "sudden"
    pipes: ClassVar[list[tuple[int, int]]] = []

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.read_end, self.write_end = os.pipe()
        self.pipes.append((self.read_end, self.write_end))

    @property
    def every_s(self) -> float:
        return 3600.0

    def watched(self) -> Sequence[int]:
        return (self.read_end,)

    def ready(self, handle: int, now_ns: int) -> Found:
        assert handle == self.read_end
        text = os.read(handle, 100).decode()
        return Found(events=[Event(now_ns, "host:h3", "sudden", "info", text, {}, "test")], mark=("kmsg/b", text))

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self.write_end)


class Broken(Source):
    """Fails at each reading."""

    name = "broken"

    def poll(self, now_ns: int) -> Found:
        raise OSError("no such thing")


class Unreadable(Sudden):
    """Has something, and fails each time it is asked for it."""

    name = "unreadable"
    asked: ClassVar[int] = 0

    def ready(self, handle: int, now_ns: int) -> Found:
        Unreadable.asked += 1
        raise OSError("no")


class Odd(Source):
    """Tells what cannot be kept."""

    name = "odd"

    def poll(self, now_ns: int) -> Found:
        return Found(events=[Event(now_ns, "no entity id", "odd", "info", "", {}, "test")])


class Tired(Source):
    """Works once."""

    name = "tired"
    asked = 0

    def poll(self, now_ns: int) -> Found:
        self.asked += 1
        if self.asked > 1:
            raise OSError("no more")
        return Found()


class Absent(Source):
    """Is not to be had here."""

    name = "absent"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        raise WorldError("nowhere")


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def agent_for(url: str, spool: Path, **settings: object) -> Agent:
    site = site_with(server=url, spool=spool, interval_s=0.1, retry_s_max=0.1, **settings)
    return Agent(site.config, site)


def own_metrics(answering: AnsweringDouble) -> dict[str, float]:
    found = {}
    for path, _, body in answering.got:
        if path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in resource.scope_metrics[0].metrics:
                    for point in (metric.gauge if metric.HasField("gauge") else metric.sum).data_points:
                        label = "".join(f" {each.value.string_value}" for each in point.attributes)
                        found[metric.name + label] = point.as_double
    return found


def test_everything_arrives_where_it_belongs(answering: AnsweringDouble, tmp_path: Path) -> None:
    agent = agent_for(answering.url, tmp_path, labels={"rack": "r1"})
    agent.open((Steady, Sudden, Broken, Absent))
    agent.start()
    thread = threading.Thread(target=agent.run)
    thread.start()
    os.write(Sudden.pipes[-1][1], b"now")
    until(lambda: sum(path == "/v1/metrics" for path, *_ in answering.got) >= 3)
    until(lambda: any(path.endswith("/event") for path, *_ in answering.got))
    agent.stop()
    thread.join()
    agent.close()
    paths = {path for path, *_ in answering.got} - {"/api/v1/rows/watermark"}
    assert paths == {"/v1/metrics", "/api/v1/ring", "/api/v1/rows/event", "/api/v1/rows/relation"}
    relations = [json.loads(body) for path, _, body in answering.got if path.endswith("relation")]
    assert [(r["child"], r["parent"], r["to_ns"], r["source"]) for r in relations] == [
        ("port:h3/eth0", "host:h3", None, "agent/steady")
    ]
    (event,) = [json.loads(body) for path, _, body in answering.got if path.endswith("event")]
    assert (event["kind"], event["host"], event["clock"], event["message"]) == ("sudden", "h3", "h3/7f3a90b1", "now")
    own = own_metrics(answering)
    assert own["leadline_agent_source_up steady"] == 1
    # Neither ever worked: this host does not have them, which is nothing to wake anybody for.
    assert own["leadline_agent_source_missing broken"] == own["leadline_agent_source_missing absent"] == 1
    assert not {"leadline_agent_source_up broken", "leadline_agent_source_up absent"} & own.keys()
    assert own["leadline_agent_source_failed_total read"] >= 2
    assert own["leadline_agent_delivered_total metrics"] > 0
    assert any(name.startswith("leadline_agent_info r1") for name in own)
    assert agent.lanes["metrics"].spool is not None
    again = agent_for(answering.url, tmp_path)  # a later agent knows what this one told
    again.open((Steady,))
    again.keep("steady", Steady(again.site).poll(5))
    assert again.lanes["urgent"].spool.waiting()[1] == 0
    assert again.site.mark("kmsg/b") == "now"
    assert again.site.mark("ring/a") == "7"
    again.close()


def test_a_source_that_fails_or_tells_nonsense_stops_nobody(answering: AnsweringDouble, tmp_path: Path) -> None:
    Unreadable.asked = 0
    agent = agent_for(answering.url, tmp_path)
    agent.open((Unreadable, Odd, Steady, Tired))
    os.write(Sudden.pipes[-1][1], b"now")
    agent.start()
    thread = threading.Thread(target=agent.run)
    thread.start()
    until(lambda: sum(path == "/v1/metrics" for path, *_ in answering.got) >= 3)
    agent.stop()
    thread.join()
    agent.close()
    agent.stop()  # a second signal at the end
    assert Unreadable.asked <= 2  # its file is readable all the time; it is asked again only after a `poll`
    own = own_metrics(answering)
    assert own["leadline_agent_source_missing odd"] == 1
    assert own["leadline_agent_source_up tired"] == 0
    assert own["leadline_agent_source_up steady"] == 1


def test_what_the_server_refuses_is_counted_and_told_as_an_event(answering: AnsweringDouble, tmp_path: Path) -> None:
    answering.answers = [(400, {}, b'{"error": {"reason": "malformed", "message": "no segment"}}')]
    agent = agent_for(answering.url, tmp_path)
    agent.lanes["ring"].start()
    agent.keep("ring", Found(segments=[Segment(b"x", 4, "ring/a", 7)]))
    until(lambda: agent.lanes["urgent"].spool.waiting()[1] == 1)
    agent.lanes["urgent"].start()
    until(lambda: len(answering.got) == 2)
    event = json.loads(answering.got[1][2])
    assert event["kind"] == "agent-refused"
    assert "4 rows for /api/v1/ring: 400 malformed: no segment" in event["message"]
    assert agent.site.counts.all() == {("agent_dropped", "poison"): 4}
    agent.lanes["metrics"].start()
    agent.close()


def test_names_of_sources_are_unique_and_each_says_what_it_is() -> None:
    names = [source.name for source in SOURCES]
    assert len(set(names)) == len(names)
    assert all(names)
    assert all(source.__doc__ for source in SOURCES)


ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}


def run_main(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leadline.host.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, env=ENVIRON, timeout=60, check=False)


def test_one_reading_as_json(tmp_path: Path) -> None:
    ended = run_main(tmp_path, "--once", "--host", "h3", "--ring-dir", str(tmp_path / "none"))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    names = {sample["name"] for sample in found["samples"]}
    assert {"node_cpu_seconds_total", "node_netstat_Tcp_RetransSegs", "leadline_agent_resident_bytes"} <= names
    assert found["host"] == "h3"
    assert found["clock"].startswith("h3/")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--server", "ftp://x", "--spool", "s"), 2, "expected http://HOST:PORT"),
        (("--config", "none.yaml"), 2, "cannot be read"),
        (("--spool", "/proc/none"), 3, "name another with --spool"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    ended = run_main(tmp_path, *arguments)
    assert ended.returncode == code
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_sigterm_delivers_what_is_left_and_ends(answering: AnsweringDouble, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leadline.host.main", "--server", answering.url, "--spool", "spool",
               "--host", "h3", "--sources", "proc", "--interval", "3000"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: any(path == "/v1/metrics" for path, *_ in answering.got))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert f"h3 sends to {answering.url}" in process.stderr.read()
    assert sum(path == "/v1/metrics" for path, *_ in answering.got) == 2  # a last reading


def test_the_host_is_what_the_system_calls_itself(tmp_path: Path) -> None:
    found = json.loads(run_main(tmp_path, "--once", "--sources", "graph").stdout)
    assert found["host"] == socket.gethostname()


def test_the_verb_becomes_the_agents_own_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leadline.cli.main", "agent", "--once", "--sources", "graph", "--host", "h9"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRON, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["host"] == "h9"
