"""Checkpoint storm: all ranks write to the storage host every step, and its port is the bottleneck."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.application.loop_bug import jobs_of
from leadline.lab.faults.base import TRAINING, JobFault
from leadline.lab.faults.measured import step_s
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.storage.log import requests
from leadline.model.errors import UsageError

BURST = "burst-"  # what ranks write for it begins so, see lab/workloads/training/control.py


@dataclass(frozen=True, slots=True)
class CheckpointStorm(JobFault):
    """Somebody set the checkpoint interval to one step; every rank writes its part, and all at once."""

    name = "checkpoint-storm"
    layer = "storage"
    fault_class = "gray"
    workloads = TRAINING
    signal = "burst_bytes"
    magnitudes: ClassVar = {"small": {"mb_per_step": 1.0}, "large": {"mb_per_step": 12.0, "every_job": True}}

    mb_per_step: float = 4.0  # of each rank
    every_job: bool = False

    def check(self, topology: Topology) -> None:
        JobFault.check(self, topology)
        if not topology.storage:
            raise UsageError(f"checkpoint-storm: topology {topology.name} has no storage host; give it `storage: 1`")
        if self.mb_per_step <= 0:
            raise UsageError(f"checkpoint-storm: mb_per_step must be > 0, got {self.mb_per_step}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        jobs = [f"job:{name}" for name in jobs_of(self, lab, self.every_job)]
        return (*jobs, f"storage:{self._storage(lab)}")

    def start(self, lab: RunningLab) -> None:
        for name in jobs_of(self, lab, self.every_job):
            for one in lab.ranks(name):
                lab.hold(lab.control(name, one.rank), self, {"checkpoint_mb_per_step": self.mb_per_step})

    def stop(self, lab: RunningLab) -> None:
        for name in jobs_of(self, lab, self.every_job):
            for one in lab.ranks(name):
                lab.release(lab.control(name, one.rank), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        stored = requests(lab.state / "jobs" / (self.job or "") / "storage.log")
        bursts = [each for each in stored if each.object.startswith(BURST)]
        return {
            "burst_bytes": sum(each.bytes for each in bursts),
            "storage_port": to_storage(lab, self._storage(lab)),
            "step_s": step_s(lab.job(self.job)),
        }

    def _storage(self, lab: RunningLab) -> str:
        server = getattr(lab.job(self.job), "storage", None)
        return str(server.node) if server is not None else lab.cluster.topology.storage[0].name


def to_storage(lab: RunningLab, host: str) -> dict[str, int]:
    """What the switch has sent to a storage host, and dropped before it, since the lab is up."""
    port = lab.cluster.topology.neighbour(lab.cluster.topology.host(host).ports[0])
    told = lab.cluster.command(port.node, ["ip", "-json", "-s", "link", "show", "dev", port.name])
    queues = json.loads(lab.cluster.command(port.node, ["tc", "-json", "-s", "qdisc", "show", "dev", port.name]))
    return {
        "tx_bytes": int(json.loads(told)[0]["stats64"]["tx"]["bytes"]),
        "queue_drops": sum(int(each["drops"]) for each in queues if each.get("root")),
    }
