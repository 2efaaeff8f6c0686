"""What a user has: several ranks behind one agent, default settings, HTTP. Steps arrive, and nobody is blamed."""

from __future__ import annotations

import time
from pathlib import Path

from tests.senders.running import RunningLeadline, wait_for

from leadline.lab.agents import Agents
from leadline.lab.realise.cluster import Cluster
from leadline.lab.relay import Relay
from leadline.lab.topology import load
from leadline.lab.workloads.bert.job import Bert

RANKS = 2  # each takes seconds of CPU to start
START_S = 120.0  # they import torch beside whatever else the machine does
STEPS = 60  # of every rank: with one segment a request they came ever later
FRESH_S = 5.0  # an agent looks each 0.5 s; the rest is for a busy machine
STILL_S = 1.0  # some ten steps are made meanwhile
STORED = "SELECT rank, count() AS n, max(step) - min(step) + 1 AS span, max(end_ns) AS newest FROM step GROUP BY rank"


def test_two_ranks_a_host_are_told_in_time_and_none_is_blamed(lab_name: str, tmp_path: Path) -> None:
    with (
        RunningLeadline(tmp_path, {"LEADLINE_RUNNER__ENABLED": "true"}) as leadline,
        Cluster(load("pair2"), lab_name) as cluster,
    ):
        relay, agents = Relay(cluster, leadline.url), Agents(cluster)
        job = Bert(name="bert-1", hosts=["h1"], gpus_per_host=RANKS, hidden=32, layers=1, batch=2)
        try:
            relay.start()
            agents.start()
            job.start(cluster)
            wait_for("the first steps", lambda: len(leadline.sql(STORED)) == RANKS, START_S)
            wait_for("fresh steps of all ranks", lambda: fresh(leadline, STEPS))
            relay.pause()
            wait_for("the cut", lambda: still(leadline))
            relay.resume()
            wait_for("what was made meanwhile", lambda: fresh(leadline, STEPS))
            placed = leadline.sql(
                "SELECT DISTINCT child, parent FROM relation WHERE kind = 'runs-on' AND parent NOT LIKE 'p%'"
            )
            wait_for("a verdict on the job", lambda: leadline.sql("SELECT 1 FROM ledger WHERE job = 'bert-1' LIMIT 1"))
        finally:
            job.stop()
            agents.stop()
            relay.stop()
        rows = leadline.sql(STORED)
        assert all(each["n"] == each["span"] for each in rows), f"no step is missing: {rows}"
        gpus = cluster.topology.host("h1").gpus
        assert {(each["child"], each["parent"]) for each in placed} == {
            (f"rank:bert-1/{rank}", parent) for rank in range(RANKS) for parent in (f"gpu:{gpus[rank]}", "host:h1")
        }
        assert leadline.sql("SELECT * FROM incident") == []


def stored(leadline: RunningLeadline) -> int:
    """The number of steps that every rank has there."""
    return min(int(each["n"]) for each in leadline.sql(STORED))


def still(leadline: RunningLeadline) -> bool:
    """Whether no step comes any more; what was on its way may take a moment."""
    before = stored(leadline)
    time.sleep(STILL_S)
    return stored(leadline) == before


def fresh(leadline: RunningLeadline, steps: int) -> bool:
    """Whether each of the ranks has so many steps there, and a new one."""
    rows = leadline.sql(STORED)
    oldest_ns = min(int(each["newest"]) for each in rows)
    return (
        len(rows) == RANKS
        and min(int(each["n"]) for each in rows) >= steps
        and time.time_ns() - oldest_ns < FRESH_S * 1e9
    )
