"""The `pipeline` workload: pipeline-parallel training, a stage per host, with sends and receives between neighbours.

pipeline = Pipeline(stages=4, micro_batches=8)     # on the first four hosts
pipeline = Pipeline(replicas=2)                    # all hosts: two pipelines of half of them each
pipeline.start(cluster)
pipeline.stage_steps()[1][-1].waiting_s            # what rank 1 waited in its last step
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from leadline.lab.workloads.base import HEADS, Lab, RankJob, true_end_ns
from leadline.model.errors import UsageError

TAIL_BYTES = 65_536  # of a log that is read while the job runs: some 300 steps


class StageStep(NamedTuple):
    """One step of one rank, as it wrote it down itself."""

    number: int
    stage: int
    replica: int
    seconds: float
    compute_s: float
    waiting_s: float  # for other stages, at receives, at sends and at the step's end: the bubble
    end_ns: int


@dataclass(kw_only=True)
class Pipeline(RankJob):
    """1F1B over stages x replicas ranks. A rank is `replica * stages + stage`."""

    name: str = "pipeline-1"
    hosts: Sequence[str] = ()
    stages: int = 0  # 0: the hosts divided by the replicas
    replicas: int = 1  # pipelines side by side, each stage's gradients reduced over them
    micro_batches: int = 8
    device_ms: float = 10.0  # least time of a forward pass, see pipeline_rank
    steps: int = 0  # 0: no limit
    seconds: float = 0.0  # 0: no limit
    seed: int = 0
    batch: int = 4
    hidden: int = 96
    layers: int = 0  # 0: one a stage
    checkpoint_every: int = 0
    timeout_s: float = 12.0  # until a send, receive or reduction fails
    watched: bool = True
    program: str = field(default="leadline.lab.workloads.pipeline.rank", init=False)
    working_word: ClassVar[str] = '"event": "step"'

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.stages < 0 or self.micro_batches < 1:
            raise UsageError(
                f"workload {self.name} needs replicas and micro_batches of at least 1, stages of at least 0; got "
                f"{self.replicas}, {self.micro_batches}, {self.stages}"
            )

    def plan(self, lab: Lab) -> None:
        """A rank per stage and replica. Errors: UsageError if the hosts cannot be divided so."""
        if self.hidden % HEADS:
            raise UsageError(f"workload {self.name}: hidden must be a multiple of {HEADS} (heads), got {self.hidden}")
        hosts = list(self.hosts) or [host.name for host in lab.topology.hosts]
        wanted = self.stages * self.replicas
        if wanted and not self.hosts:
            hosts = hosts[: math.ceil(wanted / self.gpus_per_host)]
        ranks = self.world_size or wanted or len(hosts) * self.gpus_per_host
        stages = self.stages or ranks // self.replicas
        if (
            not stages
            or stages * self.replicas != ranks
            or not ranks <= len(hosts) * self.gpus_per_host < (ranks + self.gpus_per_host)
        ):
            raise UsageError(
                f"workload {self.name}: {len(hosts)} hosts"
                f"{f' with {self.gpus_per_host} ranks on each' if self.gpus_per_host > 1 else ''} are not "
                f"{self.stages or 'some'} stages x {self.replicas} replicas"
                f"{f' in a world_size of {self.world_size}' if self.world_size else ''}; give hosts, stages or "
                "replicas that multiply up"
            )
        self.hosts, self.stages, self.world_size = hosts, stages, ranks

    @property
    def fills_hosts(self) -> bool:
        """See `RankJob`."""
        return True

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The command line of pipeline_rank."""
        options: dict[str, object] = {
            "stages": self.stages,
            "replicas": self.replicas,
            "micro-batches": self.micro_batches,
            "device-ms": self.device_ms,
            "steps": self.steps,
            "seconds": self.seconds,
            "seed": self.seed,
            "batch": self.batch,
            "hidden": self.hidden,
            "layers": self.layers,
            "checkpoint-every": self.checkpoint_every,
            "directory": lab.state / "jobs" / self.name / "checkpoint",
            "timeout": self.timeout_s,
        }
        return [f"--{name}={value}" for name, value in options.items()] + ([] if self.watched else ["--no-watch"])

    def steps_done(self) -> list[tuple[int, int]]:
        """See `RankJob`; read off rank 0's log."""
        if not self.ranks:
            return []
        told = steps_in(self.ranks[0].log.read_text(errors="replace"))
        return [(each.end_ns - round(each.seconds * 1e9), each.end_ns) for each in told]

    def stage_steps(self) -> dict[int, list[StageStep]]:
        """By rank: its last steps, as it wrote them down itself. For the lab's truth: not by way of any telemetry."""
        return {one.rank: steps_in(tail(one.log)) for one in self.ranks}


def steps_in(text: str) -> list[StageStep]:
    """The steps in the text of a rank's log; half a line, as a killed rank or a cut leaves it, is passed over."""
    return [
        StageStep(
            told["number"],
            told["stage"],
            told["replica"],
            told["seconds"],
            told["compute_seconds"],
            told["waiting_seconds"],
            true_end_ns(told),
        )
        for told in events_in(text, "step")
    ]


def events_in(text: str, event: str) -> Iterator[dict[str, Any]]:
    """The whole lines of a rank's log that tell of such an event."""
    word = f'"event": "{event}"'
    for line in text.splitlines(keepends=True):
        if line.startswith("{") and line.endswith("}\n") and word in line:
            yield json.loads(line)


def tail(log: Path, most: int = TAIL_BYTES) -> str:
    """The end of a log; "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
