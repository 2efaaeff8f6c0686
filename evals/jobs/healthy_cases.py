"""The healthy jobs of `evals.healthy`: what each is, and what is done around it that must not look like its fault."""

from __future__ import annotations

import random
from dataclasses import dataclass

START_S = 12.0  # from the launch of a job of two ranks to its first step, on two cores; eight take about 25 s
START_S_PER_RANK = 2.0
LINGER_S = (
    8.0  # a job that has ended is watched so long before the next begins, and to the end of the run with the rest
)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done `at_s` after the first step (of `agent-late`: after the launch), for `seconds`.

    agent-term, agent-kill   the agent ends by that signal and is started again after `seconds`
    agent-late               the agent is not there when the job begins
    server-term              the server ends in order and is started again
    cut                      nothing passes from the agent to the server
    debugger                 rank 1 is held as by a debugger that attached
    breakpoint               rank 0 came to its breakpoint(); somebody types `c` after `seconds`
    """

    what: str
    at_s: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One job. `marked`: with steps, phases and pauses told (two lines), or with one line and nothing else."""

    name: str
    ranks: int
    step_s: float
    train_s: float  # its steps alone
    marked: bool = True
    checkpoint: tuple[int, float] = (0, 0.0)  # every so many steps, for so many seconds, on rank 0
    evaluate: tuple[int, float] = (0, 0.0)  # every so many steps, for so many seconds, on all ranks
    acts: tuple[Act, ...] = ()

    @property
    def steps(self) -> int:
        """How many it makes."""
        return max(1, round(self.train_s / self.step_s))

    @property
    def takes_s(self) -> float:
        """From its launch to the next one's, about."""
        pauses = sum(self.steps // every * seconds for every, seconds in (self.checkpoint, self.evaluate) if every)
        held = sum(act.seconds for act in self.acts if act.what in ("debugger", "breakpoint"))
        return START_S + START_S_PER_RANK * self.ranks + self.train_s + pauses + held + LINGER_S

    @property
    def options(self) -> list[str]:
        """For the program."""
        out = ["--step-s", str(self.step_s), "--steps", str(self.steps)]
        for name, (every, seconds) in (("checkpoint", self.checkpoint), ("evaluate", self.evaluate)):
            if every:
                out += [f"--{name}-every", str(every), f"--{name}-s", str(seconds)]
        for act in self.acts:
            if act.what == "breakpoint":
                out += ["--breakpoint-at", str(round(act.at_s / self.step_s))]
        return out


CASES: tuple[Case, ...] = (
    Case("plain", 2, 0.25, 60.0, checkpoint=(40, 1.0), evaluate=(100, 3.0)),
    Case("cut", 8, 0.25, 120.0, marked=False, acts=(Act("cut", 25.0, 60.0),)),
    Case("quick", 8, 0.05, 60.0, marked=False),
    Case("alone", 1, 0.05, 60.0, checkpoint=(200, 0.5)),
    Case("alone-unmarked", 1, 1.0, 50.0, marked=False, evaluate=(20, 4.0)),
    Case("slow", 2, 5.0, 90.0, marked=False),
    Case("slow-marked", 8, 1.0, 75.0, evaluate=(25, 5.0)),
    Case("checkpoints-unmarked", 8, 0.25, 70.0, marked=False, checkpoint=(60, 4.0)),
    Case("evaluation-unmarked", 2, 0.25, 70.0, marked=False, evaluate=(90, 8.0)),
    Case("debugger", 2, 0.25, 60.0, acts=(Act("debugger", 35.0, 20.0),)),
    Case("breakpoint", 2, 0.25, 60.0, marked=False, acts=(Act("breakpoint", 30.0, 20.0),)),
    Case("agent-term", 2, 0.25, 60.0, acts=(Act("agent-term", 30.0, 1.0),)),
    Case("agent-kill", 8, 0.25, 60.0, marked=False, acts=(Act("agent-kill", 30.0, 2.0),)),
    Case("agent-late", 2, 0.05, 60.0, acts=(Act("agent-late", 0.0, 25.0),)),
    Case("agent-away", 2, 0.25, 100.0, acts=(Act("agent-term", 25.0, 60.0),)),
    Case("server-restart", 2, 0.25, 80.0, acts=(Act("server-term", 30.0, 2.0),)),
    Case("finished", 2, 0.25, 8.0, marked=False),
)  # fmt: skip
ALWAYS = "cut"  # even the shortest run has it: without it `telemetry_lost_named` has nothing to be a share of


def programme(minutes: float, seed: int, only: str = "") -> list[Case]:
    """The jobs of a run, one after the other: drawn without replacement until all were there, then anew.

    The whole takes about `minutes`, at least one case; `ALWAYS` is the first.
    """
    chosen = [case for case in CASES if only in case.name]
    out: list[Case] = []
    left_s, rng = 60 * minutes, random.Random(seed)
    while chosen:
        order = sorted(rng.sample(chosen, len(chosen)), key=lambda case: case.name != ALWAYS)
        before = len(out)
        for case in order:
            if case.takes_s <= left_s:
                out.append(case)
                left_s -= case.takes_s
        if only or len(out) - before < len(order):  # none comes again before all were there
            return out or order[:1]
    return out
