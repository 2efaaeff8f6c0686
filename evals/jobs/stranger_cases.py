"""What befalls the jobs of `evals.stranger`, and which cause is right for it: drawn from a seed, written down before.

Right is an incident of the job whose first cause is one of `right`: entity and rule must both fit. `{rank}` stands for
the rank that it befell, `{host}` for its host.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

LATE = ("{rank}", "straggler")
CONTENDED = ("{host}", "cpu-contended")
THROTTLED = ("{host}", "cpu-throttled")


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that can go wrong. `by`: the program itself does it, or somebody does it to its process."""

    name: str
    by: str  # program, process
    right: tuple[tuple[str, str], ...]
    marked: tuple[bool, ...] = (True, False)  # with which hooks it can be seen
    ranks: tuple[int, ...] = (2, 4, 8)
    steps_s: tuple[float, ...] = (0.1, 0.25, 0.5)
    busy: float = 0.0
    options: tuple[str, ...] = ()


# A rank that is only late by its own word is right as a late rank; where its host explains it, the host is right, too:
# it has one host for all its ranks, as a user's machine has.
KINDS: tuple[Kind, ...] = (
    Kind("slow-step", "program", (LATE,)),
    Kind("slow-loader", "program", (("{rank}", "slow-input"),), marked=(True,)),
    Kind("slow-loader-unmarked", "program", (("{rank}", "slow-input"), LATE), marked=(False,)),
    Kind("slow-checkpoint", "program", (LATE,), marked=(True,), steps_s=(0.25, 0.5),
         options=("--checkpoint-every", "20", "--checkpoint-s", "0.5")),
    Kind("raised", "program", (("{rank}", "program-failed"),)),
    Kind("hung", "program", (("{rank}", "never-came"),)),
    Kind("diverged", "program", (("{rank}", "program-diverged"),)),
    Kind("stopped", "process", (("{rank}", "process-stopped"),)),
    Kind("killed", "process", (("{rank}", "killed"),)),
    Kind("burner", "process", (LATE, CONTENDED), ranks=(2,), steps_s=(0.25, 0.5), busy=0.4, options=("--pin",)),
    Kind("niced", "process", (LATE, CONTENDED), ranks=(2,), steps_s=(0.25, 0.5), busy=0.4, options=("--pin",)),
    Kind("limited", "process", (LATE, THROTTLED), ranks=(2, 4), steps_s=(0.25, 0.5), busy=0.15),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Befall:
    """One job, and what befalls which of its ranks, so many seconds after its first step."""

    job: str
    kind: Kind
    rank: int
    ranks: int
    step_s: float
    marked: bool
    at_s: float

    @property
    def program(self) -> str:
        """What the program is told; a loader is slow in the same way however it is watched."""
        return f"{self.kind.name.removesuffix('-unmarked')}:{self.rank}" if self.kind.by == "program" else ""

    def right(self, host: str) -> list[tuple[str, str]]:
        """Entities and rules that are right."""
        words = {"rank": f"rank:{self.job}/{self.rank}", "host": f"host:{host}"}
        return [(entity.format(**words), rule) for entity, rule in self.kind.right]

    def truth(self, host: str) -> dict[str, Any]:
        """What is written before it runs."""
        return {
            "job": self.job, "kind": self.kind.name, "rank": self.rank, "ranks": self.ranks, "step_s": self.step_s,
            "marked": self.marked, "right": self.right(host),
        }  # fmt: skip


def befalls(count: int, seed: int, only: str = "") -> list[Befall]:
    """So many cases: every kind once, in an order from the seed, before one comes again."""
    kinds = [kind for kind in KINDS if only in kind.name]
    if not kinds:
        return []
    rng = random.Random(seed)
    return [_drawn(kind, number, rng) for number, kind in zip(range(count), _endless(kinds, rng), strict=False)]


def _endless(kinds: Sequence[Kind], rng: random.Random) -> Iterator[Kind]:
    while True:
        yield from rng.sample(kinds, len(kinds))


def _drawn(kind: Kind, number: int, rng: random.Random) -> Befall:
    ranks = rng.choice(kind.ranks)
    return Befall(
        f"trial-{number + 1}-{kind.name}", kind, rng.randrange(ranks), ranks, rng.choice(kind.steps_s),
        rng.choice(kind.marked), rng.uniform(20.0, 35.0),
    )  # fmt: skip
