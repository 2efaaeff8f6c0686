"""The `rings` workload: a collectives benchmark in the manner of nccl-tests, by default one rank per host.

rings = Rings(name="rings-1", transport="rocev2", ops=("all_reduce",), cycles=1)
rings.start(cluster)
rings.wait(60)
rings.results()["results"][0]["busbw_bytes_per_s"]
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.lab.workloads.base import Lab, RankJob, job_directory
from leadline.lab.workloads.rings.algorithm import OPS
from leadline.model.errors import UsageError, WorldError

TRANSPORTS = ("tcp", "rocev2")
NAMES = tuple(op.name for op in OPS)


@dataclass(kw_only=True)
class Rings(RankJob):
    """Collectives over TCP or RoCEv2 framing. Sizes in bytes, times in seconds."""

    name: str = "rings-1"
    transport: str = "tcp"  # or rocev2
    ops: Sequence[str] = ("all_reduce",)
    channels: int = 2
    min_bytes: int = 1 << 16
    max_bytes: int = 1 << 22
    factor: float = 4.0
    iterations: int = 5
    warmup: int = 1
    cycles: int = 0  # sweeps; 0: one after the other until `seconds` are over
    seconds: float = 600.0
    pause_s: float = 0.0  # between two collectives, as if computing
    timeout_s: float = 60.0
    check: bool = True
    rails: bool = False  # channel c uses NIC c, as NCCL does; else every channel the primary NIC
    congestion: str = "cubic"  # per socket: namespaces inherit what the machine has, and may not choose
    program: str = field(default="leadline.lab.workloads.rings.rank", init=False)
    _result: Path | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        wrong = [each for each in self.ops if each not in NAMES]
        if wrong or not self.ops:
            raise UsageError(f"workload {self.name}: ops are {', '.join(NAMES)}, got {', '.join(wrong) or 'none'}")
        if self.transport not in TRANSPORTS:
            raise UsageError(
                f"workload {self.name}: transport must be {' or '.join(TRANSPORTS)}, got {self.transport!r}"
            )
        if self.min_bytes > self.max_bytes:
            raise UsageError(
                f"workload {self.name}: min_bytes must be at most max_bytes, got {self.min_bytes} and {self.max_bytes}"
            )

    def plan(self, lab: Lab) -> None:
        """Errors: UsageError where two ranks of a host would have the one port of RoCEv2."""
        if self.transport == "rocev2" and self.gpus_per_host > 1:
            raise UsageError(
                f"workload {self.name}: with transport rocev2 a host has one rank: UDP port 4791 has one owner; got "
                f"gpus_per_host {self.gpus_per_host}"
            )

    @property
    def fills_hosts(self) -> bool:
        """See `RankJob`."""
        return self.transport != "rocev2"

    def prepare(self, lab: Lab) -> None:
        """Forget the results of an earlier run."""
        self._result = job_directory(lab, self.name) / "result.json"
        self._result.unlink(missing_ok=True)

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The options of `rings.rank`."""
        host = self.members(lab)[rank][0]
        options: dict[str, object] = {
            "--ops": ",".join(self.ops),
            "--transport": self.transport,
            "--channels": self.channels,
            "-b": self.min_bytes,
            "-e": self.max_bytes,
            "-f": self.factor,
            "-n": self.iterations,
            "-w": self.warmup,
            "-c": int(self.check),
            "--cycles": self.cycles,
            "--seconds": self.seconds,
            "--pause": self.pause_s,
            "--timeout": self.timeout_s,
            "--address": ",".join(address for address, _ in self._nics(lab, host)),
        }
        if self.congestion:
            options["--congestion"] = self.congestion
        if rank == 0:
            options["--json"] = self._result
        return [str(word) for pair in options.items() for word in pair]

    def environment(self, lab: Lab, rank: int) -> dict[str, str]:
        """Where the counters of the emulated RoCE NICs are."""
        if self.transport != "rocev2":
            return {}
        host = self.members(lab)[rank][0]
        folders = [str(hw_counters_directory(lab.state, host, number)) for _, number in self._nics(lab, host)]
        return {"LEADLINE_HW_COUNTERS": os.pathsep.join(folders)}

    def results(self) -> dict[str, Any]:
        """What rank 0 measured. Errors: WorldError if it did not come to its end."""
        try:
            return dict(json.loads((self._result or Path()).read_text()))
        except (OSError, ValueError) as error:
            log = self.ranks[0].log if self.ranks else "the log of rank 0"
            raise WorldError(f"{self.name} has no results yet; {log} says how far it is") from error

    def _nics(self, lab: Lab, host: str) -> list[tuple[str, int]]:
        """(address, number) of the backend NICs that this job uses on a host."""
        primary = lab.address(host)
        ports = next(one for one in lab.topology.hosts if one.name == host).ports
        backend = [port.address for port in ports if port.role == "backend"]
        numbered = list(zip(backend, range(len(backend)), strict=True))
        return numbered if self.rails else [nic for nic in numbered if nic[0] == primary] or [(primary, 0)]


def hw_counters_directory(state: Path, host: str, number: int) -> Path:
    """Where a host's RoCE NIC `mlx5_<number>` has its hw_counters, in the lab's sysfs-like tree."""
    return state / "hosts" / host / f"sys/class/infiniband/mlx5_{number}/ports/1/hw_counters"
