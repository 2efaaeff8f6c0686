"""What every training workload is to the lab: ranks that train over the backend, a storage host over the front end."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from leadline.lab.workloads.base import (
    HEADS,
    Lab,
    Process,
    RankJob,
    job_directory,
    signal_process,
    stop_all,
    true_end_ns,
    wait_for,
)
from leadline.model.errors import UsageError, WorldError
from leadline.model.programs import OWN_PYTHON

STORAGE_START_S = 10.0
PREEMPT_GRACE_S = 30.0  # a checkpoint of 23 MB takes a second, a step under a fault some more
FRONT_END = "fe0"
_STORAGE_PORTS_ABOVE = 1000  # above the job's store: below the ephemeral ports, too
_ATTEMPT = re.compile(r"rank0\.attempt(\d+)\.log")


@dataclass(kw_only=True)
class TrainingJob(RankJob):
    """Data-parallel training. Every job has a storage server of its own on the storage host."""

    steps: int = 0  # 0: no limit
    seconds: float = 0.0  # 0: no limit
    seed: int = 0
    batch: int = 8  # samples of a rank per step
    evaluate_every: int = 50
    checkpoint_every: int = 50
    checkpoint_at_end: bool = False  # also when told to stop
    resume: bool = False  # go on from the newest checkpoint, if there is one
    timeout_s: float = 12.0  # until a collective fails
    watched: bool = True  # False: without leadline.torch, to tell what it costs
    storage_host: str = ""  # "": the first of the topology
    storage: Process | None = field(default=None, init=False)
    attempt: int = field(default=0, init=False)  # how often it was resumed
    working_word: ClassVar[str] = '"event": "step"'

    def plan(self, lab: Lab) -> None:
        """Errors: UsageError where the topology has not the storage host, or the model cannot be."""
        self._storage(lab)
        hidden = self.task_options().get("hidden")
        if isinstance(hidden, int) and hidden % HEADS:
            raise UsageError(f"workload {self.name}: hidden must be a multiple of {HEADS} (heads), got {hidden}")

    def prepare(self, lab: Lab) -> None:
        """Start the storage server and wait until it listens. Errors: UsageError without a storage host, WorldError."""
        host, address = self._storage(lab), self._storage_address(lab)
        self._keep_logs(job_directory(lab, self.name))
        log = job_directory(lab, self.name) / "storage.log"
        log.unlink(missing_ok=True)  # of an earlier run under this name: it has said that it listens
        module = "leadline.lab.workloads.storage.server"
        options = {"listen": address, "directory": self.storage_directory(lab), "seed": self.seed}
        argv = [
            *OWN_PYTHON,
            "-m",
            module,
            *(word for name, value in options.items() for word in _option(name, value)),
        ]
        self.storage = lab.spawn(host, argv, name=f"{self.name}-storage", stdout=log)
        wait_until_told(log, "listening", self.storage, STORAGE_START_S)

    def storage_directory(self, lab: Lab) -> Path:
        """Where the storage server keeps its objects."""
        return lab.state / "jobs" / self.name / "storage"

    def finish(self) -> None:
        """Stop the storage server."""
        if self.storage is not None:
            stop_all([self.storage])
            self.storage = None

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The command line of the rank's program."""
        options: dict[str, object] = {
            "storage": self._storage_address(lab),
            "steps": self.steps,
            "seconds": self.seconds,
            "seed": self.seed,
            "batch": self.batch,
            **self.task_options(),
            "evaluate-every": self.evaluate_every,
            "checkpoint-every": self.checkpoint_every,
            "timeout": self.timeout_s,
        }
        flags = {
            "no-watch": not self.watched,
            "resume": self.resume,
            "checkpoint-at-end": self.checkpoint_at_end,
        }
        return [f"--{name}={value}" for name, value in options.items()] + [f"--{name}" for name in flags if flags[name]]

    def task_options(self) -> dict[str, object]:
        """Options that only this kind of training has."""
        return {}

    def environment(self, lab: Lab, rank: int) -> dict[str, str]:
        """As a launcher says it: the communicators of two attempts are not the same."""
        return {"LEADLINE_ATTEMPT": str(self.attempt)}

    def preempt(self, grace_s: float = PREEMPT_GRACE_S) -> dict[int, int | None]:
        """As a scheduler takes the hosts away: a signal (SIGUSR1), on which all ranks end after the same step and a
        checkpoint of it. `start()` then goes on from there.

        Returns the exit codes by rank.
        """
        processes = [one.process for one in self.ranks]
        for process in processes:
            signal_process(process, signal.SIGUSR1)
        wait_for(processes, grace_s)
        codes = self.poll()
        self.stop()
        self.resume = True
        return codes

    @property
    def fills_hosts(self) -> bool:
        """See `RankJob`."""
        return True

    @property
    def goes_on(self) -> bool:
        """Whether this start goes on with an earlier run."""
        return self.attempt > 0

    def steps_done(self) -> list[tuple[int, int]]:
        """See `RankJob`; read off rank 0's logs, those of earlier attempts first."""
        if not self.ranks:
            return []
        log = self.ranks[0].log
        return [step for path in [*_earlier_logs(log.parent), log] for step in _steps_of(path, self.working_word)]

    def _keep_logs(self, directory: Path) -> None:
        """A job that goes on keeps the logs of its attempts; one that begins anew forgets them."""
        earlier = list(directory.glob("rank*.attempt*.log"))
        if not self.resume:
            self.attempt = 0
            for path in earlier:
                path.unlink()
            return
        last = len(_earlier_logs(directory))
        self.attempt = last + 1
        for path in directory.glob("rank*.log"):
            if path not in earlier:
                path.rename(path.with_suffix(f".attempt{last}.log"))

    def _storage(self, lab: Lab) -> str:
        hosts = [host.name for host in lab.topology.storage]
        if not hosts or (self.storage_host and self.storage_host not in hosts):
            raise UsageError(
                f"{self.name} needs storage host {self.storage_host or '(any)'}; topology {lab.topology.name} has "
                f"{', '.join(hosts) or 'none'}"
            )
        return self.storage_host or str(hosts[0])

    def _storage_address(self, lab: Lab) -> str:
        return f"{lab.address(self._storage(lab), FRONT_END)}:{self.store_port + _STORAGE_PORTS_ABOVE}"


def _option(name: str, value: object) -> Iterable[str]:
    return f"--{name}", str(value)


def _earlier_logs(directory: Path) -> list[Path]:
    """Rank 0's logs of earlier attempts, in order."""
    found = {int(match[1]): path for path in directory.iterdir() if (match := _ATTEMPT.fullmatch(path.name))}
    return [found[number] for number in sorted(found)]


def _steps_of(log: Path, word: str) -> list[tuple[int, int]]:
    """(start_ns, end_ns) of the steps that a log tells."""
    found = []
    for line in log.read_text(errors="replace").splitlines(keepends=True):
        # A rank that was killed may have left half a line.
        if line.startswith("{") and line.endswith("}\n") and word in line:
            told = json.loads(line)
            end_ns = true_end_ns(told)
            found.append((end_ns - round(told["seconds"] * 1e9), end_ns))
    return found


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
