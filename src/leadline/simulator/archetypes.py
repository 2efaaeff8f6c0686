# ruff: noqa: E501 (a flat table reads better with one row per line)
"""Kinds of jobs: how large, how long, and what a step of them costs. Figures are of the order of public reports.

Sources: Llama 3 (Meta 2024, section 3.3: TP 8, 16 Ki GPUs, some seconds a step); Kokolis et al., HPCA'25 (sizes of
jobs: nine in ten under a host or two, most GPU time in the largest); DLRM and MoE papers for the all-to-all shares.
Compute times are round numbers: nothing here predicts a product's speed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Archetype:
    """One kind of job. Sizes in hosts, heavy-tailed between the bounds with `tail` (Pareto; smaller: heavier)."""

    name: str
    weight: float  # share of the submissions
    hosts_min: int
    hosts_max: int
    tail: float
    hours_median: float
    hours_sigma: float  # of the logarithm
    compute_s: float
    compute_cv: float
    data_s: float
    optimizer_s: float
    payload_bytes: float  # of one rank and step, over the network
    collectives: int
    op: str
    algorithm: str
    tensor_parallel: int  # ranks of one replica on a host: their communicators are across hosts
    checkpoint_s: float  # between checkpoints; 0: none
    checkpoint_write_s: float
    tokens: float  # of one rank and step; 0: not told
    samples: float
    loss: tuple[float, float, float]  # from, to, and the steps in which two thirds of it are gone
    trains: bool = True

    def groups(self, hosts: int, ranks: int) -> int:
        """Communicators across hosts that a job of this size has: one per place in the replica; ranks fall to them in
        turn."""
        split = min(self.tensor_parallel, ranks // hosts)  # over the GPUs of one host at most
        return split if hosts > 1 and ranks % split == 0 else 1


ARCHETYPES: tuple[Archetype, ...] = (
    Archetype("llm", 0.06, 4, 2048, 0.5, 200, 1.2, 5.0, 0.01, 0.01, 0.12, 2.4e9, 4, "all_reduce", "ring", 8, 1800, 12, 8192, 4, (11.0, 1.9, 20_000)),
    Archetype("moe", 0.04, 4, 1024, 0.6, 150, 1.2, 3.6, 0.02, 0.01, 0.1, 1.2e9, 6, "all_to_all", "all_to_all", 1, 1800, 15, 8192, 4, (11.0, 2.1, 20_000)),
    Archetype("vision", 0.2, 1, 16, 1.1, 8, 1.0, 0.9, 0.03, 0.02, 0.03, 1.8e8, 2, "all_reduce", "ring", 1, 3600, 2, 0, 256, (6.9, 1.2, 5_000)),
    Archetype("recommendation", 0.12, 2, 32, 1.0, 12, 1.0, 0.7, 0.05, 0.04, 0.02, 2.4e8, 3, "all_to_all", "all_to_all", 1, 3600, 6, 0, 4096, (0.69, 0.44, 3_000)),
    Archetype("finetune", 0.36, 1, 8, 1.3, 0.6, 0.8, 1.4, 0.03, 0.02, 0.05, 6.0e8, 2, "all_reduce", "ring", 1, 900, 3, 4096, 8, (2.4, 1.1, 400)),
    Archetype("serve", 0.14, 1, 8, 1.2, 72, 0.8, 1.0, 0.0, 0.0, 0.0, 0.0, 0, "", "", 1, 0, 0, 24_000, 64, (0.0, 0.0, 1), False),
    Archetype("shuffle", 0.08, 2, 32, 1.0, 0.5, 0.6, 5.0, 0.1, 0.0, 0.0, 8.0e9, 1, "all_to_all", "all_to_all", 1, 0, 0, 0, 0, (0.0, 0.0, 1), False),
)  # fmt: skip
BY_NAME = {each.name: each for each in ARCHETYPES}
