"""`leadline agent` on each host of a lab: the real one, with what the host emulates in place of /sys and /dev/kmsg."""

from __future__ import annotations

import sys

from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.process import Process
from leadline.lab.telemetry.lldp import control_socket
from leadline.lab.topology import Host
from leadline.lab.workloads.base import stop_all

# Eight agents share two cores with the training: at 2 s they took 110 ms of CPU a second together.
INTERVAL_S = 5.0
RING_INTERVAL_S = 3.0  # a rank has some three rings, and each answer waits for the append: less often than they take


class Agents:
    """One agent a host. Built inert."""

    def __init__(self, cluster: Cluster, server: str) -> None:
        self._cluster = cluster
        self._server = server
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
        argv = [sys.executable, "-m", "leadline.host.main"]
        self._processes.append(self._cluster.spawn(host.name, argv, name="agent", env=self._settings(host), nice=10))

    def _settings(self, host: Host) -> dict[str, str]:
        directory = self._cluster.state / "hosts" / host.name
        settings = {
            "server": self._server,
            "host": host.name,
            "interval_s": str(INTERVAL_S),
            "ring_interval_s": str(RING_INTERVAL_S),
            "spool": str(directory / "spool"),
            "ring_dir": str(directory / "ring"),
            "sys_root": str(directory / "sys"),
            "kmsg": str(directory / "kmsg"),
            "lldp_socket": str(control_socket(self._cluster.state, host.name)),
            "gpus": ",".join(host.gpus),
            "labels": f"rack={host.rack},pod={host.pod}",
        }
        return {f"LEADLINE_AGENT__{name.upper()}": value for name, value in settings.items()}
