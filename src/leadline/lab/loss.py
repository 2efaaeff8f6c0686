"""What faults cost in GPU-seconds, by the steps that the training itself wrote down: for the truth file."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Step = tuple[int, int]  # start and end of a step of one rank, ns

USUAL_MIN = 3  # steps from which the usual length is taken; fewer say nothing


@dataclass(frozen=True, slots=True)
class Span:
    """When something lasted. `decoy`: it is harmless, and has no part in what goes wrong while a fault lasts."""

    onset_ns: int
    end_ns: int
    decoy: bool = False

    def meets(self, step: Step) -> bool:
        """Whether a step runs within it, if only in part."""
        return step[0] < self.end_ns and step[1] > self.onset_ns


@dataclass(frozen=True, slots=True)
class Loss:
    """GPU-seconds that one fault cost, and whether it shared slow steps with another."""

    gpu_seconds: float
    shared: bool


def losses(steps: Sequence[Step], spans: Sequence[Span], gpus: int) -> list[Loss | None]:
    """What each span cost a job of `gpus` ranks; None where too few usual steps came before it.

    In synchronous training every rank's step takes the same time, so one rank's steps stand for all. What a step took
    longer than usual is divided equally among the faults in which it ran: together they never cost more than was
    lost, and which of two that overlap cost how much nobody can say. Usual is the median of the steps that ended before
    the fault and met no other; where those are too few, of all that ended before it.
    """
    return [_loss(steps, one, [span for span in spans if span is not one], gpus) for one in spans]


def _loss(steps: Sequence[Step], one: Span, others: Sequence[Span], gpus: int) -> Loss | None:
    before = [step for step in steps if step[1] <= one.onset_ns]
    faults = [span for span in others if not span.decoy]
    quiet = [step for step in before if not any(span.meets(step) for span in faults)]
    usual = [end - start for start, end in (quiet if len(quiet) >= USUAL_MIN else before)]
    if len(usual) < USUAL_MIN:
        return None
    usual_ns = statistics.median(usual)
    lost_ns, shared = 0.0, False
    for step in steps:
        # Of a step that was long before the fault began (a checkpoint) it took the rest at most.
        excess_ns = min(max(0.0, step[1] - step[0] - usual_ns), step[1] - max(step[0], one.onset_ns))
        if not one.meets(step) or excess_ns <= 0:
            continue
        sharers = sum(span.meets(step) for span in faults)
        shared = shared or sharers > 0
        if one.decoy:
            lost_ns += 0.0 if sharers else excess_ns
        else:
            lost_ns += excess_ns / (sharers + 1)
    return Loss(lost_ns * gpus / 1e9, shared)


def until_now(steps: Sequence[Step], codes: Mapping[int, int | None], now_ns: int) -> list[Step]:
    """The steps of a job and one more, from its last one until now: it hangs in it, or died in it, or is at it.

    A healthy job's is shorter than usual and costs nothing. A job that has ended by itself, all ranks with 0, is done
    and loses nothing; nor does one without processes, which is preempted.
    """
    at_it = any(code != 0 for code in codes.values())
    return [*steps, (steps[-1][1], now_ns)] if at_it and steps else list(steps)
