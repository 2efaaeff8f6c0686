"""The `ray` workload: a real Ray cluster over the lab's hosts, and collectives between its actors.

A host has a raylet and, started by it, an actor; the actor is the rank, and what a fault takes hold of.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leadline.lab.workloads.base import (
    Lab,
    Process,
    RankJob,
    interface_of,
    job_directory,
    rank_environment,
    stop_all,
)
from leadline.model.errors import UsageError
from leadline.model.programs import OWN_PYTHON

PORT_ABOVE = 2000  # Ray's own port above the job's store: above those of all stores and storage servers


@dataclass(frozen=True, slots=True)
class ActorProcess:
    """The actor on a node: signals go to it; it ends with its raylet, whose control group it is in."""

    raylet: Process
    pid: int

    @property
    def popen(self) -> Any:
        """The raylet's: an actor is no child of ours."""
        return self.raylet.popen

    @property
    def name(self) -> str:
        """As the raylet is called."""
        return self.raylet.name

    @property
    def node(self) -> str:
        """Host."""
        return self.raylet.node

    @property
    def cgroup(self) -> Any:
        """Raylet and actor share it."""
        return self.raylet.cgroup


@dataclass(kw_only=True)
class Ray(RankJob):
    """All-reduce by `ray.util.collective` (gloo) between one actor a host. Sizes in bytes, times in seconds."""

    name: str = "ray-1"
    payload_bytes: int = 1 << 20
    pause_s: float = 0.2  # between two collectives, as if loading data
    seconds: float = 0.0  # 0: no limit
    driver: Process | None = field(default=None, init=False)
    program: str = field(default="leadline.lab.workloads.ray_cluster.rank", init=False)
    _steps: dict[int, Path] = field(default_factory=dict, init=False, repr=False)

    def start(self, lab: Lab) -> None:
        """Start the nodes and the driver. Errors: UsageError, see `plan`."""
        self.plan(lab)
        directory = job_directory(lab, self.name)
        for rank, _ in enumerate(self.members(lab)):
            self._steps[rank] = directory / f"rank{rank}.steps"
            self._steps[rank].unlink(missing_ok=True)  # of an earlier run under this name
        RankJob.start(self, lab)
        plan = directory / "driver.json"
        plan.write_text(json.dumps(self._plan(lab)))
        argv = [*OWN_PYTHON, "-m", "leadline.lab.workloads.ray_cluster.driver", str(plan)]
        self.driver = lab.spawn(
            self.ranks[0].host, argv, name=f"{self.name}-driver", stdout=directory / "driver.log", env=self._quiet(lab)
        )

    def plan(self, lab: Lab) -> None:
        """Errors: UsageError where Ray is not installed, or two nodes would have one address."""
        if find_spec("ray") is None:
            raise UsageError(
                f"workload {self.name} needs Ray, which is not installed here: pip install 'leadline[ray]'"
            )
        if self.gpus_per_host != 1:
            raise UsageError(
                f"workload {self.name} has one node of Ray on a host, got gpus_per_host {self.gpus_per_host}"
            )

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The options of `ray_cluster.rank`."""
        host = self.members(lab)[rank][0]
        return [
            f"--port={self._port()}",
            f"--address={lab.address(host)}",
            f"--name={host}",
            # Short: the names of its UNIX sockets have a session's long name behind it, and 107 bytes in all.
            f"--directory={lab.state / 'ray'}",
        ]

    def environment(self, lab: Lab, rank: int) -> dict[str, str]:
        """See `RankJob`."""
        return self._quiet(lab)

    def ready(self) -> bool:
        """Whether every rank has made a step; from then on a rank's process is its actor."""
        pids = {rank: _first_pid(path) for rank, path in self._steps.items()}
        if not self.ranks or not all(pids.values()):
            return False
        self.ranks = [
            one
            if isinstance(one.process, ActorProcess)
            else replace(one, process=ActorProcess(one.process, pids[one.rank]))
            for one in self.ranks
        ]
        return True

    def steps_done(self) -> list[tuple[int, int]]:
        """See `RankJob`; as the actor of rank 0 wrote them down."""
        found = []
        path = self._steps.get(0)
        for line in path.read_text().splitlines(keepends=True) if path and path.exists() else ():
            if line.endswith("\n"):
                told = json.loads(line)
                found.append((told["start_ns"], told["end_ns"]))
        return found

    def poll(self) -> dict[int, int | None]:
        """Exit codes; when the driver has ended, the job has, whatever the raylets do."""
        codes = RankJob.poll(self)
        ended = self.driver.popen.poll() if self.driver is not None else None
        return codes if ended is None else {rank: ended if code is None else code for rank, code in codes.items()}

    def stop(self) -> None:
        """The driver first: it would take the end of an actor for a failure."""
        if self.driver is not None:
            stop_all([self.driver])
            self.driver = None
        groups = [one.process.cgroup for one in self.ranks]
        for one in self.ranks:
            if isinstance(one.process, ActorProcess):
                with suppress(ProcessLookupError):
                    os.kill(one.process.pid, signal.SIGKILL)  # it may be stopped, and its raylet would wait for it
        self.ranks = [
            replace(one, process=one.process.raylet) if isinstance(one.process, ActorProcess) else one
            for one in self.ranks
        ]
        RankJob.stop(self)
        for group in groups:  # helpers of Ray that outlive their raylet
            for pid in group.processes() if group is not None else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _port(self) -> int:
        return self.store_port + PORT_ABOVE

    def _quiet(self, lab: Lab) -> dict[str, str]:
        # No telemetry home, and no exporter per node that nobody asks.
        return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}

    def _plan(self, lab: Lab) -> dict[str, Any]:
        ranks = []
        for one in self.ranks:
            environment = rank_environment(
                job=self.name,
                rank=one.rank,
                world_size=len(self.ranks),
                host=one.host,
                master=lab.address(self.ranks[0].host),
                interface=interface_of(lab, one.host),
                gpu=one.gpu,
                ring=lab.state / "hosts" / one.host / "ring",
                control=one.control,
            )
            del environment["MASTER_ADDR"], environment["MASTER_PORT"]  # Ray finds its own
            ranks.append(
                {
                    "rank": one.rank,
                    "host": one.host,
                    "steps_file": str(self._steps[one.rank]),
                    "environment": environment,
                }
            )
        return {
            "address": f"{lab.address(self.ranks[0].host)}:{self._port()}",
            "payload_bytes": self.payload_bytes,
            "pause_s": self.pause_s,
            "seconds": self.seconds,
            "ranks": ranks,
        }


def _first_pid(path: Path) -> int:
    if not path.exists():
        return 0
    line, newline, _ = path.read_text().partition("\n")
    return int(json.loads(line)["pid"]) if newline else 0
