"""Who computes what, in which order: the 1F1B schedule of pipeline-parallel training. Pure.

A model is cut into S stages, a batch into M micro-batches. Each stage first fills the pipeline with forward passes,
then takes turns (one forward, one backward), then drains it with backward passes. S = 3, M = 4, f and b with the
number of the micro-batch, time to the right:

    stage 0   f0 f1 f2 .. .. b0 f3 b1 .. b2 .. b3
    stage 1   .. f0 f1 .. b0 f2 b1 f3 b2 .. b3
    stage 2   .. .. f0 b0 f1 b1 f2 b2 f3 b3

Source: Narayanan et al. 2019 (PipeDream), with the flush at the end of each batch of Narayanan et al. 2021
(Megatron-LM), section 2.2.1: the share of a step that a stage waits is (S - 1) / (M + S - 1), and stage s holds the
activations of at most S - s micro-batches.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["forward", "backward"]


class Work(NamedTuple):
    """One pass of one micro-batch through one stage."""

    kind: Kind
    micro_batch: int


def one_forward_one_backward(stages: int, stage: int, micro_batches: int) -> list[Work]:
    """What one stage does in a step, in order. Needs 0 <= stage < stages and micro_batches > 0."""
    assert 0 <= stage < stages
    assert micro_batches > 0
    filling = min(stages - 1 - stage, micro_batches)
    work = [Work("forward", number) for number in range(filling)]
    for number in range(filling, micro_batches):
        work += [Work("forward", number), Work("backward", number - filling)]
    return work + [Work("backward", number) for number in range(micro_batches - filling, micro_batches)]


def bubble_ratio(stages: int, micro_batches: int) -> float:
    """The share of a step in which a stage waits, if all stages take equally long and messages no time."""
    return (stages - 1) / (micro_batches + stages - 1)


def layers_of(layers: int, stages: int, stage: int) -> range:
    """The layers of one stage: as even as can be, the first stages get what is left over."""
    size, rest = divmod(layers, stages)
    first = stage * size + min(stage, rest)
    return range(first, first + size + (1 if stage < rest else 0))


class Place(NamedTuple):
    """Where a rank is in a job of `stages` x `replicas`: neighbours in the pipeline are neighbours in rank."""

    stage: int
    replica: int
    before: int | None  # rank of the stage before, None for the first
    after: int | None


def place_of(rank: int, stages: int, replicas: int) -> Place:
    """The place of a rank. Needs 0 <= rank < stages * replicas."""
    assert 0 <= rank < stages * replicas
    replica, stage = divmod(rank, stages)
    return Place(stage, replica, rank - 1 if stage else None, rank + 1 if stage < stages - 1 else None)


def peers_of(stage: int, stages: int, replicas: int) -> list[int]:
    """The ranks that hold the same stage: they reduce their gradients among themselves."""
    return [replica * stages + stage for replica in range(replicas)]
