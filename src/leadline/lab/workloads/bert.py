"""The `bert` workload: one rank per host trains over the backend fabric, storage is reached over the front end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from leadline.lab.workloads.base import Lab, Process, RankJob, stop_all, store_port
from leadline.model.errors import UsageError, WorldError

STORAGE_START_S = 10.0
FRONT_END = "fe0"
_STORAGE_PORTS_ABOVE = 1000  # above the job's store: below the ephemeral ports, too


@dataclass(kw_only=True)
class Bert(RankJob):
    """Data-parallel pre-training of a small BERT. Every job has a storage server of its own on the storage host."""

    name: str = "bert-1"
    hosts: Sequence[str] = ()
    steps: int = 0  # 0: no limit
    seconds: float = 0.0  # 0: no limit
    seed: int = 0
    batch: int = 8
    hidden: int = 192
    layers: int = 4
    evaluate_every: int = 50
    checkpoint_every: int = 50
    timeout_s: float = 12.0  # until a collective fails
    watched: bool = True  # False: without leadline.torch, to tell what it costs
    storage_host: str = ""  # "": the first of the topology
    storage: Process | None = field(default=None, init=False)
    working_word: ClassVar[str] = '"event": "step"'

    def __post_init__(self) -> None:
        self.program = "leadline.lab.workloads.bert_rank"

    def prepare(self, lab: Lab) -> None:
        """Start the storage server and wait until it listens. Errors: UsageError without a storage host, WorldError."""
        host, address = self._storage(lab), self._storage_address(lab)
        log = lab.state / "jobs" / self.name / "storage.log"
        log.unlink(missing_ok=True)  # of an earlier run under this name: it has said that it listens
        module = "leadline.lab.workloads.storage_server"
        directory = lab.state / "jobs" / self.name / "storage"
        argv = [
            sys.executable,
            "-m",
            module,
            "--listen",
            address,
            "--directory",
            str(directory),
            "--seed",
            str(self.seed),
        ]
        self.storage = lab.spawn(host, argv, name=f"{self.name}-storage", stdout=log)
        wait_until_told(log, "listening", self.storage, STORAGE_START_S)

    def finish(self) -> None:
        """Stop the storage server."""
        if self.storage is not None:
            stop_all([self.storage])
            self.storage = None

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The command line of bert_rank."""
        options: dict[str, object] = {
            "storage": self._storage_address(lab),
            "steps": self.steps,
            "seconds": self.seconds,
            "seed": self.seed,
            "batch": self.batch,
            "hidden": self.hidden,
            "layers": self.layers,
            "evaluate-every": self.evaluate_every,
            "checkpoint-every": self.checkpoint_every,
            "timeout": self.timeout_s,
        }
        return [f"--{name}={value}" for name, value in options.items()] + ([] if self.watched else ["--no-watch"])

    def steps_done(self) -> list[tuple[int, int]]:
        """See `RankJob`; read off rank 0's log."""
        found = []
        for line in self.ranks[0].log.read_text(errors="replace").splitlines(keepends=True) if self.ranks else ():
            # A rank that was killed may have left half a line.
            if line.startswith("{") and line.endswith("}\n") and self.working_word in line:
                told = json.loads(line)
                found.append((told["end_ns"] - round(told["seconds"] * 1e9), told["end_ns"]))
        return found

    def _storage(self, lab: Lab) -> str:
        hosts = [host.name for host in lab.topology.storage]
        if not hosts or (self.storage_host and self.storage_host not in hosts):
            raise UsageError(
                f"bert needs storage host {self.storage_host or '(any)'}; topology {lab.topology.name} has "
                f"{', '.join(hosts) or 'none'}"
            )
        return self.storage_host or str(hosts[0])

    def _storage_address(self, lab: Lab) -> str:
        return f"{lab.address(self._storage(lab), FRONT_END)}:{store_port(self.name) + _STORAGE_PORTS_ABOVE}"


def wait_until_told(log: Path, word: str, process: Process, timeout_s: float) -> None:
    """Wait until a program has written `word` into its log. Errors: WorldError if it ends or does not in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace") if log.exists() else ""
        if word in text:
            return
        if process.popen.poll() is not None:
            raise WorldError(f"{process.name} on {process.node} ended with {process.popen.returncode}: {text[-500:]}")
        time.sleep(0.05)
    raise WorldError(f"{process.name} on {process.node} did not start within {timeout_s:.0f} s; see {log}")
