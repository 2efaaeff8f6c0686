"""A rented cluster: what hosts of one machine share is really shared, several ranks on a host, partial fabrics."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from bench.lab_realise import traces

from leadline.lab import state
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.plan import burst_bytes
from leadline.lab.run import ScenarioRun
from leadline.lab.scenarios.spec import parse
from leadline.lab.topology import load
from leadline.lab.truth import TruthFile, read_truth
from leadline.lab.workloads.bulk.job import Bulk, Transfer
from leadline.lab.workloads.rings.job import Rings

RATE = 20_000_000
SHARING = f"""
name: share
hosts: 3
hosts_per_machine: 2
host_rate_bps: 200_000_000
machine_rate_bps: {RATE}
queue_bytes: 30_000
storage: 0
"""
TWO_GPUS = (
    "name: pair\nleaves: 2\nspines: 2\nhosts: 2\ngpus: 2\nlinks_down: [leaf1~spine1]\nhost_rate_bps: 100_000_000\n"
)
SECONDS = 2.0


@pytest.mark.parametrize("into", [True, False])
def test_hosts_of_a_machine_get_its_uplink_together_and_not_each(lab_name: str, into: bool) -> None:
    with Cluster(load(SHARING), lab_name) as cluster:
        ends = [("h3", host) if into else (host, "h3") for host in ("h1", "h2")]
        bulk = Bulk(name="b", transfers=[Transfer(*each, seconds=SECONDS) for each in ends])
        before, began = _passed(cluster, into), time.monotonic()
        bulk.start(cluster)
        bulk.wait(30)
        passed, took_s = _passed(cluster, into) - before, time.monotonic() - began
        sent = bulk.carried_bytes()
        bulk.stop()
        assert all(each > 0 for each in sent), "both had a part"
        # One port alone would have carried ten times as much.
        assert passed <= RATE / 8 * took_s + burst_bytes(RATE)
        assert passed >= 0.8 * sum(sent) - 2 * 4_000_000, "all of it went through what they share"


def _passed(cluster: Cluster, into: bool) -> int:
    told = cluster.command("leaf1", ["tc", "-s", "-j", "qdisc", "show", "dev", "m1-out" if into else "m1-in"])
    return sum(each["bytes"] for each in json.loads(told) if each["kind"] == "htb")


def test_two_ranks_on_a_host_over_a_fabric_with_a_link_missing(lab_name: str, tmp_path: Path) -> None:
    topology = load(TWO_GPUS)
    with Cluster(topology, lab_name) as cluster:
        rings = Rings(name="r", gpus_per_host=2, cycles=1, iterations=1, max_bytes=1 << 16, seconds=60.0)
        rings.start(cluster)
        codes = rings.wait(90)
        assert codes == {0: 0, 1: 0, 2: 0, 3: 0}, [each.log.read_text()[-500:] for each in rings.ranks]
        assert [each.host for each in rings.ranks] == ["h1", "h1", "h2", "h2"]
        assert [each.gpu for each in rings.ranks] == [gpu for host in topology.hosts for gpu in host.gpus]
        rings.stop()
        # leaf1 has one way up, and it is used.
        assert re.findall(r"via (\S+)", cluster.command("leaf1", ["ip", "route", "show", "10.2.0.0/16"])) == [
            "10.202.1.0"
        ]
    assert traces(lab_name, state.state_root()) == []


SCENARIO = """
name: rented
topology: tiny
duration_s: 3
workloads:
  - {workload: rings, name: r, cycles: 1, iterations: 1, max_bytes: 65536, placement: random, world_size: 2}
faults:
  - {fault: blackhole, at_s: 1, for_s: 1, switch: spine1, host: h1}
"""


def test_a_run_places_its_job_tells_the_truth_and_minds_no_job_that_is_done(lab_name: str, tmp_path: Path) -> None:
    scenario = parse(
        SCENARIO.replace("at_s: 20, host: h1", "at_s: 1, for_s: 1, switch: spine1, host: h1"), "rented.yaml"
    )
    said: list[str] = []
    run = ScenarioRun(
        scenario,
        load("name: rent\nhosts: 4\nleaves: 2\nspines: 1\nhosts_per_machine: 2\nmachine_order: 1\n"),
        lab_name,
        3,
        TruthFile(tmp_path / "x.truth.json", "rented", 3),
        None,
        tell=lambda happening: said.append(happening.text),
        telemetry=None,
    )
    run.run()
    assert "r has ended (all ranks with 0)" in said
    told = json.loads((tmp_path / "x.truth.json").read_text())
    assert len(told["placement"]["r"]) == 2
    assert sorted(host for hosts in told["machines"].values() for host in hosts) == ["h1", "h2", "h3", "h4"]
    [entry] = read_truth(tmp_path / "x.truth.json")[0]
    assert entry.fault == "blackhole"
    assert entry.end_ns is not None
    assert traces(lab_name, state.state_root()) == []
