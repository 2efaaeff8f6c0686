"""What every workload of the lab is: a named job of rank processes that can be waited for and stopped.

    workload = Bert(steps=20)
    workload.start(cluster)              # one process per host (or GPU of it), by cluster.spawn
    workload.ranks[3].process.pid        # what a fault takes hold of
    workload.tell(3, data_delay_s=0.3)   # ... or the control file that the rank reads once per step
    codes = workload.wait(timeout_s=120) # {0: 0, 1: 0, ...}; None: still running
    workload.stop()

`Lab` says what a workload needs of the realised cluster, so that it can also run on plain loopback in a test.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from leadline.lab.workloads.control import write_control
from leadline.model.errors import UsageError, WorldError
from leadline.model.programs import OWN_PYTHON

HEADS = 4  # of attention, in every transformer here
STOP_GRACE_S = 5.0  # between SIGTERM and SIGKILL: a rank writes its last records and leaves its group
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of a job: part of paths, of control groups, of entities' ids
_PORT_FIRST, _PORTS = 29500, 1000  # stores of jobs listen here: below the ephemeral ports, so no flow takes one


class Process(Protocol):
    """One process on one node, as `Cluster.spawn` returns it."""

    @property
    def pid(self) -> int: ...
    @property
    def popen(self) -> subprocess.Popen[bytes]: ...
    @property
    def name(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def cgroup(self) -> Any: ...  # its control group, see lab/realise/cgroups.py


class Lab(Protocol):
    """What a workload needs of a realised cluster (`leadline.lab.realise.cluster.Cluster`)."""

    @property
    def state(self) -> Path: ...
    @property
    def topology(self) -> Any: ...
    def address(self, host: str, port: str = "primary") -> str: ...
    def spawn(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] = ...,
        stdout: Path | None = None,
        cgroup: str | None = None,
        nice: int = 0,
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank of a job: where it runs, on which (emulated) GPU, and the process itself."""

    rank: int
    host: str
    process: Process
    gpu: str  # GPU-<uuid>
    control: Path  # the small JSON file that faults write, see `control`
    log: Path


class Workload(Protocol):
    """What scenarios and faults know of a workload."""

    name: str
    ranks: list[RankProcess]

    def start(self, lab: Lab) -> None: ...
    def ready(self) -> bool: ...
    def steps_done(self) -> list[tuple[int, int]]: ...
    def poll(self) -> dict[int, int | None]: ...
    def wait(self, timeout_s: float) -> dict[int, int | None]: ...
    def stop(self) -> None: ...


@dataclass(kw_only=True)
class RankJob:
    """A job of rank processes, `gpus_per_host` on each host: the shared part of `bert`, `rings` and `bulk`.

    A subclass says which program a rank runs (`program`) and with which arguments (`arguments`); it may prepare
    the lab before the ranks start (`prepare`) and tidy up after they ended (`finish`).
    """

    name: str  # the job's name, as in `job:bert-1`
    hosts: Sequence[str] = ()  # in rank order; () means every host of the topology
    gpus_per_host: int = 1  # ranks on each host, each with a GPU of its own; a scenario leaves it to the topology
    placement: str = ""  # "random": hosts as a cloud draws them; "chosen" (or ""): `hosts`, in their order
    world_size: int = 0  # how many ranks; 0: as many as the hosts hold
    ranks: list[RankProcess] = field(default_factory=list, init=False)
    store: int = field(default=0, init=False)  # port of its store; 0: by its name. See `lab.placement`, which knows all
    program: str = field(default="", init=False)  # module, as in `python -m`
    working_word: ClassVar[str] = ""  # what rank 0 writes into its log once set-up is behind it

    def start(self, lab: Lab) -> None:
        """Spawn all ranks. Errors: UsageError if it runs already, or for a host that the topology has not."""
        if self.ranks:
            raise UsageError(f"workload {self.name} runs already; stop() it, or give the second one another name")
        self.plan(lab)
        members = self.members(lab)
        directory = job_directory(lab, self.name)
        self.prepare(lab)
        try:
            for rank, (host, gpu) in enumerate(members):
                local_rank = rank % self.gpus_per_host
                self.ranks.append(self._spawn(lab, directory, rank, host, gpu, members[0][0], len(members), local_rank))
        except BaseException:
            self.stop()
            raise

    def plan(self, lab: Lab) -> None:
        """Fix what depends on the topology; asked before anything is started, also without a cluster. May be called
        again. Errors: UsageError for a job that this topology cannot hold."""

    def members(self, lab: Lab) -> list[tuple[str, str]]:
        """(host, GPU) by rank; ranks of one host follow each other. Errors: UsageError for what is not there."""
        if self.placement == "random" and not self.hosts:
            raise UsageError(f"workload {self.name}: its hosts are not drawn yet, see lab.placement")
        found = members_of(lab, self.hosts, self.gpus_per_host)
        if self.world_size > len(found):
            raise UsageError(
                f"workload {self.name} wants {self.world_size} ranks; its hosts hold {len(found)}, with "
                f"{self.gpus_per_host} on each"
            )
        return found[: self.world_size or None]

    def prepare(self, lab: Lab) -> None:
        """Start what the ranks need, before them."""

    def finish(self) -> None:
        """Stop what `prepare` started. Also called when nothing was started."""

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """Arguments of the rank's program."""
        return []

    def environment(self, lab: Lab, rank: int) -> dict[str, str]:
        """Variables beyond those that every rank gets."""
        return {}

    @property
    def store_port(self) -> int:
        """Where its store is, at rank 0."""
        return self.store or store_port(self.name)

    @property
    def fills_hosts(self) -> bool:
        """Whether it puts as many ranks on a host as the topology says, where its scenario does not say how many."""
        return False

    @property
    def goes_on(self) -> bool:
        """Whether this start goes on with an earlier run."""
        return False

    def tell(self, rank: int, **settings: Any) -> None:
        """Write the control file of one rank: it obeys from its next step on. No settings: back to normal."""
        write_control(self.ranks[rank].control, settings)

    def ready(self) -> bool:
        """Whether it is at work: rank 0 has written `working_word` into its log ("": as soon as it runs)."""
        log = self.ranks[0].log if self.ranks else None
        return log is not None and (not self.working_word or self.working_word in log.read_text(errors="replace"))

    def steps_done(self) -> list[tuple[int, int]]:
        """Training steps so far as (start_ns, end_ns), as rank 0 itself wrote them down; empty for what does not train.

        For the lab's truth: not by way of any telemetry.
        """
        return []

    def poll(self) -> dict[int, int | None]:
        """Exit code by rank, as `Popen` tells it (negative: killed by that signal); None while it runs."""
        return {one.rank: one.process.popen.poll() for one in self.ranks}

    def wait(self, timeout_s: float) -> dict[int, int | None]:
        """Wait until all ranks ended, at most `timeout_s`. Returns exit codes by rank; None: still running."""
        wait_for([one.process for one in self.ranks], timeout_s)
        codes = self.poll()
        if all(code is not None for code in codes.values()):
            self.finish()
        return codes

    def stop(self) -> None:
        """SIGTERM, SIGKILL after a grace, then tidy up. Harmless when nothing runs; start() works again after it."""
        stop_all([one.process for one in self.ranks])
        self.finish()
        self.ranks = []

    def _spawn(
        self,
        lab: Lab,
        directory: Path,
        rank: int,
        host: str,
        gpu: str,
        first_host: str,
        world_size: int,
        local_rank: int = 0,
    ) -> RankProcess:
        control, log = directory / f"rank{rank}.json", directory / f"rank{rank}.log"
        if not (self.goes_on and control.exists()):  # what faults hold of a job, they hold when it goes on, too
            write_control(control, {})
        log.unlink(missing_ok=True)  # of an earlier run under this name: `ready` reads it
        ring = lab.state / "hosts" / host / "ring"
        ring.mkdir(parents=True, exist_ok=True)
        variables = rank_environment(
            job=self.name,
            rank=rank,
            world_size=world_size,
            host=host,
            master=lab.address(first_host),
            interface=interface_of(lab, host),
            gpu=gpu,
            ring=ring,
            control=control,
            local_rank=local_rank,
            local_size=min(self.gpus_per_host, world_size - rank + local_rank),
            port=self.store_port,
        )
        process = lab.spawn(
            host,
            [*OWN_PYTHON, "-m", self.program, *self.arguments(lab, rank)],
            name=f"{self.name}-rank{rank}",
            env=variables | self.environment(lab, rank),
            stdout=log,
            cgroup=f"{self.name}-rank{rank}",
        )
        return RankProcess(rank, host, process, gpu, control, log)


def rank_environment(
    *,
    job: str,
    rank: int,
    world_size: int,
    host: str,
    master: str,
    interface: str,
    gpu: str,
    ring: Path,
    control: Path,
    local_rank: int = 0,
    local_size: int = 1,
    port: int = 0,
) -> dict[str, str]:
    """The variables of one rank process: torchrun's, gloo's, Leadline's and the emulated GPU. `port`: of the store."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port or store_port(job)),
        "GLOO_SOCKET_IFNAME": interface,
        "CUDA_VISIBLE_DEVICES": gpu,
        "LEADLINE_JOB": job,
        "LEADLINE_HOST": host,
        "LEADLINE_RING_DIR": str(ring),
        "LEADLINE_CONTROL": str(control),
        "OMP_NUM_THREADS": "1",  # ranks share few cores: more threads only fight each other
        "PYTHONUNBUFFERED": "1",
    }


def true_end_ns(told: Mapping[str, Any]) -> int:
    """When a step ended that a rank wrote into its log, on the true clock: a fault may have set the rank's wrong.

    Monotonic time is one for all processes of this machine, and no fault of the lab touches it.
    """
    monotonic_ns = told.get("monotonic_ns")
    return int(told["end_ns"] if monotonic_ns is None else monotonic_ns + time.time_ns() - time.monotonic_ns())


def store_port(job: str) -> int:
    """TCP port of a job's store at rank 0; jobs of different names rarely share one, see `free_store_port`."""
    return _PORT_FIRST + zlib.crc32(job.encode()) % _PORTS


def free_store_port(job: str, taken: Collection[int]) -> int:
    """The next one that none of the jobs has that run at the same time. Errors: UsageError if there is none."""
    usual = store_port(job) - _PORT_FIRST
    for turn in range(_PORTS):
        port = _PORT_FIRST + (usual + turn) % _PORTS
        if port not in taken:
            return port
    raise UsageError(f"workload {job}: more than {_PORTS} jobs run at the same time")


def members_of(lab: Lab, hosts: Sequence[str], gpus_per_host: int = 1) -> list[tuple[str, str]]:
    """(host, GPU) by rank. Errors: UsageError for a host that the topology has not, or with too few GPUs."""
    known = {host.name: host for host in lab.topology.hosts}
    for at, name in enumerate(hosts):
        if name in hosts[:at]:
            raise UsageError(f"host {name} stands twice among the hosts; for more ranks on each take `gpus_per_host`")
        if name not in known:
            raise UsageError(f"no host {name!r} in topology {lab.topology.name}; it has {', '.join(known)}")
    chosen = [known[name] for name in hosts] if hosts else list(known.values())
    for host in chosen:
        if not host.gpus:
            raise UsageError(f"host {host.name} of topology {lab.topology.name} has no GPU; a rank needs one")
        if len(host.gpus) < gpus_per_host:
            raise UsageError(
                f"host {host.name} of topology {lab.topology.name} has {len(host.gpus)} GPU; {gpus_per_host} ranks on "
                "a host need one each"
            )
    return [(host.name, gpu) for host in chosen for gpu in host.gpus[:gpus_per_host]]


def interface_of(lab: Lab, host: str) -> str:
    """Name of the host's primary NIC: the port that carries its primary address."""
    address = lab.address(host)
    ports = next(one for one in lab.topology.hosts if one.name == host).ports
    for port in ports:
        if port.address == address:
            return str(port.name)
    raise WorldError(f"host {host}: no port has its primary address {address}")


def job_directory(lab: Lab, job: str) -> Path:
    """`<state>/jobs/<job>`, made if it is not there: logs and control files of a job."""
    directory = lab.state / "jobs" / job
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def wait_for(processes: Iterable[Process], timeout_s: float) -> None:
    """Wait until all ended, at most `timeout_s` together."""
    deadline = time.monotonic() + timeout_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(max(0.0, deadline - time.monotonic()))


def stop_all(processes: Sequence[Process], grace_s: float = STOP_GRACE_S) -> None:
    """SIGTERM to all (and SIGCONT: a stopped process hears nothing), SIGKILL to what is left after `grace_s`."""
    for process in processes:
        signal_process(process, signal.SIGTERM)
        signal_process(process, signal.SIGCONT)
    wait_for(processes, grace_s)
    for process in processes:
        signal_process(process, signal.SIGKILL)
    wait_for(processes, grace_s)


def signal_process(process: Process, number: signal.Signals) -> None:
    """Send a signal if the process still runs."""
    # poll() first: it reaps, and a reaped process id may already be somebody else's.
    if process.popen.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
