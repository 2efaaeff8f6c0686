"""What a scenario consists of, as plain data, and its time line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leadline.lab.faults.base import Fault, JobFault
from leadline.lab.truth import Magnitude

WITHOUT_GPU = frozenset({"bulk", "incast"})  # kinds of jobs that only send: they use no GPU, and hold no host


def can_befall(fault: type[Fault] | Fault, workload: str) -> bool:
    """Whether a job of that kind can suffer the fault: it obeys it, and has what breaks."""
    kind = fault if isinstance(fault, type) else type(fault)
    if issubclass(kind, JobFault) and kind.layer == "gpu" and workload in WITHOUT_GPU:
        return False
    return not kind.workloads or workload in kind.workloads


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload and when it starts and ends (None: with the scenario). `place`: file and line, for messages."""

    kind: str
    name: str
    at_s: float
    for_s: float | None
    parameters: Mapping[str, Any]
    place: str = "a scenario"

    @property
    def end_s(self) -> float:
        """When it is stopped; infinite where the scenario's end does that."""
        return math.inf if self.for_s is None else self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault, when it starts and ends (None: with the scenario), and whether it is only a decoy."""

    fault: Fault
    at_s: float
    for_s: float | None
    decoy: bool
    magnitude: Magnitude | None = None  # None: its parameters were given one by one
    place: str = "a scenario"
    with_decoy: bool | str = False  # something harmless elsewhere at the same time; its name, or True: any
    beside: int | None = None  # this is the decoy of the fault with that number, and is to befall something else

    @property
    def end_s(self) -> float:
        """When it is mended; infinite where the scenario's end does that. What happens at one moment ends with it."""
        if not self.fault.lasts:
            return self.at_s
        return math.inf if self.for_s is None else self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, checked by itself; whether it fits a topology is asked of `checking`."""

    name: str
    doc: str
    topology: str
    duration_s: float
    workloads: Sequence[PlannedWorkload]
    faults: Sequence[PlannedFault]  # and what is harmless
    links_down: tuple[str, ...] = ()
    links_place: str = "a scenario"
    topology_place: str = "a scenario"
    flow_truth: bool = False  # count every flow at every switch, see `lab.flow_truth`


Deed = Literal["start workload", "stop fault", "start fault", "stop workload"]
# At one moment: what ends before what begins, so that one fault may follow another on the same link.
_ORDER: tuple[Deed, ...] = ("stop fault", "stop workload", "start workload", "start fault")


@dataclass(frozen=True, slots=True)
class Due:
    """One thing to do at a second of the time line; `number` is its place in `workloads` or `faults`."""

    at_s: float
    deed: Deed
    number: int


def time_line(scenario: Scenario) -> list[Due]:
    """Everything that is to happen, in order; nothing after `duration_s`."""
    found = []
    for number, work in enumerate(scenario.workloads):
        found.append(Due(work.at_s, "start workload", number))
        if work.for_s is not None:
            found.append(Due(work.at_s + work.for_s, "stop workload", number))
    for number, fault in enumerate(scenario.faults):
        found.append(Due(fault.at_s, "start fault", number))
        if fault.for_s is not None and fault.fault.lasts:
            found.append(Due(fault.at_s + fault.for_s, "stop fault", number))
    return sorted(
        (due for due in found if due.at_s <= scenario.duration_s),
        key=lambda due: (due.at_s, _ORDER.index(due.deed), due.number),
    )
