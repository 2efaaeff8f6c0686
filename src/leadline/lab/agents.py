"""`leadline agent` on each host of a lab: the real one with its default settings, at its default address.

Only what describes the emulated host is set: its name, its /sys and /dev/kmsg, its GPUs, where its files are, where it
can be probed (the server is at its loopback, which tells no address), and the clock of its oscillator. How often an
agent looks and when it sends is what every user gets, so that the lab sees what a user sees; but for whom hosts
probe and how often, as all of a lab's share one machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from leadline.lab.oscillators import Injected
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.process import Process
from leadline.lab.relay import SERVER
from leadline.lab.telemetry.lldp import control_socket
from leadline.lab.topology import Host
from leadline.lab.workloads.base import stop_all
from leadline.model.programs import OWN_PYTHON

# Pairs of probes a second for each processor that a lab sends in all, as its hosts share one machine; and to a
# neighbour at most and at least (`agent.mesh_rate`; 2 paths of 30 points in 2 s). Source: on two processors the job of
# `make up` did 39 steps without probes, 31 with 450 pairs in all, 25 with 1,400 (docs/log.md, 2026-11-28).
PAIRS_S, RATE_MAX, RATE_MIN = 100.0, 50.0, 16.0
# Hosts to a processor beyond which none probes, however seldom: the server and the job need it. Source: `make up` on
# two processors at half their usual speed, two neighbours 25 times a second: verdicts after 52 and 75 s, not 6 and 14.
HOSTS_MAX = 3.0
NEIGHBOURS = (10, 8, 6, 4, 2)  # that an agent may want (`agent.mesh_neighbours`); the first unless that is too many


class Probing(NamedTuple):
    """How hosts of a lab probe each other: whom at most, and how many pairs a second to each."""

    neighbours: int
    rate: float


def probing(hosts: int, processors: int | None = None) -> Probing | None:
    """With as many neighbours as leave enough probes to each, where so many hosts share the processors (None: of this
    machine); None where they are too many for any."""
    shared = len(os.sched_getaffinity(0)) if processors is None else processors
    if hosts > HOSTS_MAX * shared:
        return None
    budget = PAIRS_S * shared
    for neighbours in NEIGHBOURS:
        rate = budget / max(1.0, hosts * min(neighbours, hosts - 1) / 2)
        if rate >= RATE_MIN:
            return Probing(neighbours, min(rate, RATE_MAX))
    return None


class Agents:
    """One agent a host, which speaks to `relay.SERVER`. Built inert.

    `mesh`: they probe each other, unless they are too many. `clocks`: of the hosts whose stamps are bent; the others
    show this machine's own.
    """

    def __init__(self, cluster: Cluster, *, mesh: bool = True, clocks: Mapping[str, Injected] | None = None) -> None:
        self._cluster = cluster
        self._probing = probing(len(cluster.topology.hosts)) if mesh else None
        self._clocks = clocks or {}
        self._processes: list[Process] = []

    def start(self) -> None:
        """Start one on every host. Errors: WorldError."""
        for host in self._cluster.topology.hosts:
            self._start(host)

    def ended(self) -> list[str]:
        """Hosts whose agent has ended by itself: what it would tell is missing from then on."""
        return [each.node for each in self._processes if each.popen.poll() is not None]

    def pids(self) -> dict[str, int]:
        """The process of each host's agent."""
        return {each.node: each.pid for each in self._processes}

    def restart(self, name: str) -> None:
        """End a host's agent, which delivers what it has first, and start it again. Errors: WorldError."""
        host = self._cluster.topology.host(name)
        ended = [each for each in self._processes if each.node == name]
        # First it is none of ours any more: whoever asks meanwhile, in another thread, shall not take it for dead.
        self._processes = [each for each in self._processes if each.node != name]
        stop_all(ended)
        self._start(host)

    def stop(self) -> None:
        """Let them deliver what they have, then end them."""
        stop_all(self._processes)
        self._processes = []

    def _start(self, host: Host) -> None:
        argv = [*OWN_PYTHON, "-m", "leadline.host.main"]
        self._processes.append(self._cluster.spawn(host.name, argv, name="agent", env=self._settings(host)))

    def _settings(self, host: Host) -> dict[str, str]:
        directory = self._cluster.state / "hosts" / host.name
        settings = {
            "server": SERVER,  # whatever LEADLINE_SERVER says to the verbs of whoever runs the lab
            "host": host.name,
            "spool": str(directory / "spool"),
            "ring_dir": str(directory / "ring"),
            "sys_root": str(directory / "sys"),
            "kmsg": str(directory / "kmsg"),
            "lldp_socket": str(control_socket(self._cluster.state, host.name)),
            "gpus": ",".join(host.gpus),
            "labels": f"rack={host.rack},pod={host.pod}",
        }
        settings |= {"mesh": "true" if self._probing else "false", "mesh_address": self._cluster.address(host.name)}
        if self._probing:
            settings |= {"mesh_rate": str(self._probing.rate), "mesh_neighbours": str(self._probing.neighbours)}
        found = {f"LEADLINE_AGENT__{name.upper()}": value for name, value in settings.items()}
        if clock := self._clocks.get(host.name):
            found["LEADLINE_PROBER_CLOCK"] = clock.words
        return found
