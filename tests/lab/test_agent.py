"""The agent on hosts of a lab, against a running Leadline: real links, processes, an OOM kill, lldpd."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.senders.running import RunningLeadline, wait_for

from leadline.host.sources.links import all_links
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.process import Process
from leadline.lab.telemetry import lldp
from leadline.lab.topology import load

RANK = Path(__file__).with_name("agent_rank.py")


@pytest.fixture
def leadline(tmp_path: Path) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path, {"LEADLINE_SERVER__SOCKET": str(tmp_path / "socket")}) as running:
        yield running


@pytest.fixture
def cluster(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as made:
        yield made


def start_agent(cluster: Cluster, leadline: RunningLeadline, host: str, sources: str = "") -> Process:
    directory = cluster.state / "hosts" / host
    settings = {
        "server": f"unix:{leadline.directory / 'socket'}", "host": host, "interval_s": "1", "retry_s_max": "1",
        "spool": str(directory / "spool"), "ring_dir": str(directory / "ring"), "kmsg": str(directory / "kmsg"),
        "sys_root": str(directory / "sys"), "lldp_socket": str(lldp.control_socket(cluster.state, host)),
        "sources": sources,
    }  # fmt: skip
    env = {f"LEADLINE_AGENT__{name.upper()}": value for name, value in settings.items()}
    return cluster.spawn(host, [sys.executable, "-m", "leadline.host.main"], name="agent", env=env)


@contextmanager
def agent_on(cluster: Cluster, leadline: RunningLeadline, host: str, sources: str = "") -> Iterator[Process]:
    agent = start_agent(cluster, leadline, host, sources)
    try:
        yield agent
    finally:
        agent.popen.terminate()
        agent.popen.wait(20)


def has_begun(leadline: RunningLeadline, host: str) -> None:
    query = f"SELECT count() AS n FROM relation WHERE child = 'port:{host}/eth0' AND kind = 'in'"
    wait_for("the agent's first word", lambda: leadline.sql(query)[0]["n"])


def link_events(leadline: RunningLeadline, port: str) -> list[tuple[str, int, int]]:
    """(kind, the kernel's count of changes after it, changes before it without an event of their own)."""
    rows = leadline.sql(f"SELECT kind, attributes, clock FROM event WHERE entity = '{port}'")
    assert all(row["clock"].startswith("h1/") for row in rows)
    told = ((row["kind"], row["attributes"]) for row in rows)
    return sorted(((k, int(a["carrier_changes"]), int(a.get("missed", 0))) for k, a in told), key=lambda each: each[1])


def changes_of(cluster: Cluster, host: str, interface: str) -> int:
    """The kernel's own count of carrier changes."""
    found = next(link for link in cluster.call_in(host, all_links) if link.name == interface)
    assert found.carrier_changes is not None
    return found.carrier_changes


def test_flaps_arrive_through_deaths_of_server_and_agent_once_each(cluster: Cluster, leadline: RunningLeadline) -> None:
    link, port = cluster.topology.link("h1/eth0").id, "port:h1/eth0"
    agent = start_agent(cluster, leadline, "h1", "link,nic,graph")
    has_begun(leadline, "h1")
    first = changes_of(cluster, "h1", "eth0")

    def flap() -> None:
        for change in (lambda: cluster.link_down(link, converge=False), lambda: cluster.link_up(link)):
            change()
            time.sleep(0.2)  # much closer, and the kernel tells changes together

    flap()
    wait_for("the first flap", lambda: link_events(leadline, port)[-1:] == [("link-up", first + 2, 0)])
    assert leadline.process is not None
    for process in (leadline.process, *leadline.children()):
        os.kill(process.pid, signal.SIGKILL)
    leadline.process.wait(20)
    for _ in range(3):
        flap()
    spool = cluster.state / "hosts" / "h1" / "spool" / "urgent"
    last = f'"carrier_changes":"{first + 8}"'.encode()
    wait_for("the flaps on disk", lambda: any(last in file.read_bytes() for file in spool.glob("*.spool")))
    agent.popen.kill()  # what it has kept is on disk
    agent.popen.wait(20)
    with agent_on(cluster, leadline, "h1", "link,nic,graph"):
        leadline.start()
        flap()
        wait_for("the last flap", lambda: link_events(leadline, port)[-1][1] == first + 10)
    assert changes_of(cluster, "h1", "eth0") == first + 10
    events = link_events(leadline, port)
    expected = first
    for kind, count, missed in events:
        expected += missed + 1
        assert count == expected, f"each change once, told or counted as missed: {events}"
        assert kind == ("link-down" if (count - first) % 2 else "link-up")
    query = f"SELECT count() AS n FROM relation WHERE child = '{port}' AND kind = 'in'"
    assert leadline.sql(query)[0]["n"] == 1  # the edge is the same one after the restart
    assert leadline.refused() == {}


def test_ranks_their_relations_their_records_and_their_ends(cluster: Cluster, leadline: RunningLeadline) -> None:
    ring_dir = cluster.state / "hosts" / "h1" / "ring"
    with agent_on(cluster, leadline, "h1"):
        ranks = [
            cluster.spawn(
                "h1", [sys.executable, str(RANK), how], name=f"rank{rank}",
                env={"LEADLINE_RING_DIR": str(ring_dir), "LEADLINE_JOB": "bert-1", "RANK": str(rank)},
            )
            for rank, how in enumerate(("sleep", "eat"))
        ]  # fmt: skip
        ranks[1].cgroup.set_memory_limit(64 * 2**20)
        seen = "SELECT child, to_ns FROM relation WHERE parent = 'host:h1' AND kind = 'runs-on'"
        wait_for("both ranks", lambda: len(leadline.sql(seen)) >= 2)
        (ring_dir / "go").touch()
        query = "SELECT entity, code, severity, attributes FROM event WHERE kind = 'process-exit' ORDER BY entity"
        wait_for("the end of the one that eats", lambda: len(leadline.sql(query)) == 1)
        ranks[0].popen.send_signal(signal.SIGSEGV)
        for rank in ranks:
            rank.popen.wait(20)
        wait_for("both ends", lambda: len(leadline.sql(query)) == 2)
        slept, ate = leadline.sql(query)
        records = "SELECT rank, count() AS n, uniq(seq) AS seqs FROM collective GROUP BY rank ORDER BY rank"
        wait_for("all records", lambda: [row["n"] for row in leadline.sql(records)] == [500, 500])
        wait_for("rings to be removed", lambda: not list(ring_dir.glob("*.ring")))
        wait_for("the relations' end", lambda: all(row["to_ns"] for row in leadline.sql(seen)))
    assert [row["seqs"] for row in leadline.sql(records)] == [500, 500]
    assert (slept["entity"], slept["code"]) == ("rank:bert-1/0", "signal/SIGSEGV")
    assert (ate["entity"], ate["code"], ate["attributes"]["reason"]) == ("rank:bert-1/1", "signal/SIGKILL", "oom-kill")
    (kill,) = leadline.sql("SELECT entity, attributes FROM event WHERE kind = 'oom-kill' AND source = 'agent/cgroup'")
    assert kill["entity"] == "host:h1"
    assert ranks[1].cgroup.oom_kills() == int(kill["attributes"]["kills"])
    told = leadline.sql("SELECT DISTINCT entity FROM series WHERE name = 'process.cpu.time' ORDER BY entity")
    assert [row["entity"] for row in told] == sorted(f"process:h1/{rank.pid}" for rank in ranks)


@pytest.mark.senders
@pytest.mark.skipif(shutil.which("lldpd", path="/usr/sbin:/sbin") is None, reason="needs lldpd (Debian: lldpd)")
def test_neighbours_are_told_and_their_going_too(cluster: Cluster, leadline: RunningLeadline) -> None:
    daemons = lldp.start(cluster, every_s=1, nice=0)
    query = "SELECT parent, from_ns, to_ns FROM relation WHERE child = 'port:h1/eth0' AND kind = 'linked'"
    end = cluster.topology.link("h1/eth0")
    far = end.a if end.b.node == "h1" else end.b
    with agent_on(cluster, leadline, "h1", "lldp"):
        wait_for("the neighbour", lambda: leadline.sql(query))
        assert [(row["parent"], row["to_ns"]) for row in leadline.sql(query)] == [
            (f"swport:{far.node}/{far.name}", None)
        ]
        daemons.processes[far.node].popen.terminate()  # it says goodbye
        wait_for("its going", lambda: leadline.sql(query)[0]["to_ns"], 60)
