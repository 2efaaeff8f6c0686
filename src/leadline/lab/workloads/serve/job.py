"""The `serve` workload: batched inference over the backend fabric, with the tail latency that its clients see.

serve = Serve(servers=1, rate_per_s=100)       # rank 0 serves, the other hosts ask, 100 requests a second together
serve.start(cluster)
serve.windows()[1][-1]["latency_ms_p99"]       # of rank 1, in its last second
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.lab.workloads.base import Lab, RankJob
from leadline.lab.workloads.pipeline.job import events_in, tail
from leadline.lab.workloads.serve.client import RATE_MAX
from leadline.lab.workloads.serve.wire import PAYLOAD_MAX
from leadline.model.errors import UsageError

SERVES_LONGER_S = 3.0  # a server with a time limit ends after its clients


@dataclass(kw_only=True)
class Serve(RankJob):
    """The first `servers` ranks serve, each other one asks all of them in turn. Open loop: the load does not yield."""

    name: str = "serve-1"
    hosts: Sequence[str] = ()
    servers: int = 1
    rate_per_s: float = 40.0  # requests, of all clients together: Poisson arrivals from the seed
    batch_max: int = 8
    batch_wait_ms: float = 5.0
    queue_max: int = 64  # requests that wait at a server; one more is shed
    device_ms: float = 10.0  # least time of a batch: at most batch_max / device_ms requests per ms
    request_bytes: int = 4096
    response_bytes: int = 1024
    hidden: int = 256
    timeout_s: float = 5.0  # until a client gives a request up
    seconds: float = 0.0  # 0: no limit
    seed: int = 0
    program: str = field(default="leadline.lab.workloads.serve.rank", init=False)
    working_word: ClassVar[str] = '"event": "window"'

    def __post_init__(self) -> None:
        if not 0 < self.batch_max <= self.queue_max:
            raise UsageError(
                f"workload {self.name}: batch_max must be 1 to queue_max, got {self.batch_max} and {self.queue_max}"
            )
        for what in ("request_bytes", "response_bytes"):
            if not 0 < getattr(self, what) <= PAYLOAD_MAX:
                raise UsageError(f"workload {self.name}: {what} must be 1 to {PAYLOAD_MAX}, got {getattr(self, what)}")

    def plan(self, lab: Lab) -> None:
        """Servers first, then clients. Errors: UsageError if there is nobody to ask, or too much to ask."""
        clients = len(self.members(lab)) - self.servers
        if self.servers < 1 or clients < 1:
            raise UsageError(
                f"workload {self.name} needs a server and a client at least; {self.servers} servers leave {clients} "
                "of its ranks to ask"
            )
        if not 0 < self.rate_per_s / clients <= RATE_MAX:
            raise UsageError(
                f"workload {self.name}: a client asks more than 0 and at most {RATE_MAX:g} times a second, got "
                f"{self.rate_per_s:g} for {clients} clients"
            )

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The command line of serve_rank."""
        members = self.members(lab)
        serving = [f"{lab.address(host)}:{self.store_port + at}" for at, (host, _) in enumerate(members)]
        options: dict[str, object] = {"request-bytes": self.request_bytes, "seed": self.seed}
        if rank < self.servers:
            role = "server"
            options |= {
                "listen": serving[rank],
                "batch-max": self.batch_max,
                "batch-wait-ms": self.batch_wait_ms,
                "queue-max": self.queue_max,
                "device-ms": self.device_ms,
                "response-bytes": self.response_bytes,
                "hidden": self.hidden,
                "seconds": self.seconds and self.seconds + SERVES_LONGER_S,
            }
        else:
            role = "client"
            options |= {
                "servers": ",".join(serving[: self.servers]),
                "rate": self.rate_per_s / (len(members) - self.servers),
                "timeout": self.timeout_s,
                "seconds": self.seconds,
            }
        return [role, *(f"--{name}={value}" for name, value in options.items())]

    def steps_done(self) -> list[tuple[int, int]]:
        """Windows of a second, as the first client wrote them down: equally long whatever happens in them."""
        if len(self.ranks) <= self.servers:
            return []
        told = events_in(self.ranks[self.servers].log.read_text(errors="replace"), "window")
        return [(each["end_ns"] - round(each["seconds"] * 1e9), each["end_ns"]) for each in told]

    def windows(self) -> dict[int, list[dict[str, Any]]]:
        """By rank its last windows: number, answered, latency_ms_p50, latency_ms_p99, and what was lost by reason.

        As each wrote them down itself. For the lab's truth: not by way of any telemetry.
        """
        return {one.rank: list(events_in(tail(one.log), "window")) for one in self.ranks}

    def totals(self) -> dict[int, dict[str, Any]]:
        """By rank what it said at its end: answered, latencies of the whole run, what was lost; {} before."""
        ends = {one.rank: list(events_in(tail(one.log), "end")) for one in self.ranks}
        return {rank: told[-1] if told else {} for rank, told in ends.items()}
