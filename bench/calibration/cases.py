"""What is measured in the lab and predicted by the simulator, as data; which cases constants are fitted to, and which
only check them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leadline.simulator.fabric import Floats

Use = Literal["fit", "check"]
FRAME_BYTES = 4000  # of scheduled load
MBIT = 1_000_000
KIB = 1 << 10

# Two leaves and one spine, so that paths do not hang on the kernel's hash; four hosts with a NIC on each leaf.
CLOS4 = "name: clos4\nleaves: 2\nspines: 1\nhosts: 4\nhomes: 2\nuplink_rate_bps: 500_000_000\n"
NARROW4 = "name: narrow4\nleaves: 2\nspines: 1\nhosts: 4\nhomes: 2\nuplink_rate_bps: 250_000_000\n"
TOPOLOGIES = {"tiny": "tiny", "clos4": CLOS4, "narrow4": NARROW4}


@dataclass(frozen=True, slots=True)
class RingCase:
    """All-reduces of one size, one after the other, by every host of a topology."""

    topology: str
    rate_bps: int
    size_bytes: int
    use: Use
    op: str = "all_reduce"
    iterations: int = 11
    warmup: int = 1

    @property
    def group(self) -> str:
        """Cases that one job measures."""
        return f"{self.op} {self.topology} {self.rate_bps // MBIT}M x{self.iterations}"

    @property
    def name(self) -> str:
        return f"{self.group} {self.size_bytes // KIB}K"


@dataclass(frozen=True, slots=True)
class QueueCase:
    """A load on one switch port, and probes through it. `sources` send to `target`; `prober` is at the same leaf."""

    kind: Literal["standing", "bursts", "random"]
    rate_bps: int
    queue_bytes: int
    use: Use
    flows: int = 2  # standing: TCP flows of all sources together
    batch: int = 8  # bursts, random: frames that a source sends at once
    load: float = 0.0  # bursts, random: of the port, all sources together
    seconds: float = 5.0
    topology: str = "clos4"
    sources: tuple[str, ...] = ("h1", "h3")
    target: str = "h2"
    prober: str = "h4"
    seed: int = 7

    @property
    def name(self) -> str:
        told = f"{self.flows} flows" if self.kind == "standing" else f"{self.batch} frames at load {self.load:g}"
        return f"{self.kind} {told} {self.rate_bps // MBIT}M {self.queue_bytes // 1000}KB"


@dataclass(frozen=True, slots=True)
class BertCase:
    """Steps of `bert` with all backend ports at a rate."""

    topology: str
    rate_bps: int
    use: Use
    batch: int = 8
    steps: int = 12
    skip: int = 3

    @property
    def name(self) -> str:
        return f"bert {self.topology} {self.rate_bps // MBIT}M"


# Short collectives of more ranks than processors are left out: they measure how a busy machine schedules processes.
RINGS: tuple[RingCase, ...] = (
    RingCase("tiny", 250 * MBIT, 4 * KIB, "fit", iterations=60),
    RingCase("tiny", 250 * MBIT, 16 * KIB, "check", iterations=60),
    *(RingCase("tiny", 200 * MBIT, size * KIB, "check") for size in (64, 256, 1024, 4096)),
    *(RingCase("tiny", 100 * MBIT, size * KIB, "check") for size in (128, 512, 2048)),
    *(RingCase("clos4", 200 * MBIT, size * KIB, "fit") for size in (512, 1024, 2048)),
    *(RingCase("clos4", 250 * MBIT, size * KIB, "check") for size in (256, 1024, 4096)),
    *(RingCase("narrow4", 250 * MBIT, size * KIB, "check") for size in (512, 2048)),
)  # fmt: skip

QUEUES: tuple[QueueCase, ...] = (
    QueueCase("standing", 250 * MBIT, 250_000, "fit"),
    QueueCase("standing", 250 * MBIT, 250_000, "check", flows=4),
    QueueCase("standing", 100 * MBIT, 250_000, "check"),
    QueueCase("standing", 250 * MBIT, 500_000, "check"),
    QueueCase("bursts", 250 * MBIT, 250_000, "check", batch=25, load=0.4),
    QueueCase("bursts", 100 * MBIT, 250_000, "check", batch=20, load=0.5),
    QueueCase("random", 100 * MBIT, 500_000, "check", batch=4, load=0.9, seconds=15.0),
    QueueCase("random", 100 * MBIT, 1_000_000, "check", batch=8, load=0.85, seconds=15.0),
)

BERTS: tuple[BertCase, ...] = (
    BertCase("tiny", 250 * MBIT, "fit"),
    BertCase("tiny", 100 * MBIT, "check"),
    BertCase("tiny", 50 * MBIT, "check"),
    BertCase("clos4", 100 * MBIT, "check", steps=8),
)


def arrivals(case: QueueCase) -> list[Floats]:
    """When each source of a case sends a frame, seconds from the begin, in order; the same for lab and simulator.

    bursts: all sources at once, at a fixed period. random: each by itself, batches with exponential gaps.
    """
    per_batch = case.batch * FRAME_BYTES * 8 / case.rate_bps * len(case.sources) / case.load
    found = []
    for number, _ in enumerate(case.sources):
        if case.kind == "bursts":
            begin_B = np.arange(0.0, case.seconds, per_batch)
        else:
            rng = np.random.default_rng(case.seed + number)
            count = int(1.2 * case.seconds / per_batch) + 10
            begin_B = np.cumsum(rng.exponential(per_batch, count))
        begin_B = begin_B[begin_B < case.seconds]
        found.append(np.repeat(begin_B, case.batch))
    return found
