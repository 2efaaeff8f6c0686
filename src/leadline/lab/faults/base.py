"""What a fault of the lab is: something real that starts, stops, and whose truth is known before it starts.

A fault is one file with one frozen dataclass, and one line in `faults/__init__.py`. Its fields are its parameters,
as they stand in a scenario; what a scenario leaves out (which link, which rank) is chosen from the seed before the
truth is written.
"""

from __future__ import annotations

import dataclasses
import math
import random
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from leadline.lab.running import RunningLab, link_named
from leadline.lab.topology import Topology
from leadline.lab.truth import MAGNITUDES, FaultClass, Layer, Magnitude, SeenIn
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import ConfigError, UsageError

TRAINING = ("bert", "vision", "recommendation", "finetune")
"""Kinds of jobs whose ranks are a `training.rank`: they obey what faults write into their control files."""


@dataclass(frozen=True, slots=True)
class Within:
    """The numbers that a parameter may have."""

    least: float
    most: float = math.inf
    over: bool = False  # more than `least`

    def __contains__(self, value: float) -> bool:
        return (self.least < value if self.over else self.least <= value) and value <= self.most

    def __str__(self) -> str:
        least = f"over {self.least:g}" if self.over else f"at least {self.least:g}"
        return least if self.most == math.inf else f"{least} and at most {self.most:g}"


SHARE, SOME, NONE_OR_MORE, ONE_OR_MORE = Within(0, 1, over=True), Within(0, over=True), Within(0), Within(1)


@dataclass(frozen=True, slots=True)
class Fault(ABC):
    """A fault with its parameters. Built inert; `start` breaks something, `stop` mends it."""

    name: ClassVar[str]
    layer: ClassVar[Layer]
    fault_class: ClassVar[FaultClass]
    lasts: ClassVar[bool] = True  # False: it happens at one moment, `for_s` says nothing
    seen_in: ClassVar[SeenIn] = "lab"  # "replay": counters and log lines of real hardware, played back
    workloads: ClassVar[tuple[str, ...]] = ()  # kinds of jobs that it can befall; (): any that has ranks
    signal: ClassVar[str] = ""  # the value of `seen` that proves that it happened: it moves then, and only then
    bounds: ClassVar[Mapping[str, Within]] = {}  # of parameters that are numbers
    preset: ClassVar[str] = ""  # the smallest topology that it can befall; "": any with two ways between hosts
    magnitudes: ClassVar[Mapping[Magnitude, Mapping[str, object]]] = {}  # parameters; "medium" is the defaults

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        """This fault with everything fixed that the scenario left to the seed."""
        return self

    def check(self, topology: Topology) -> None:
        """Whether what it names is in the topology: known before anything is started. Errors: UsageError."""
        for name in ("host", "of_host", "src", "dst"):
            if value := getattr(self, name, None):
                topology.host(value)
        if switch := getattr(self, "switch", None):
            topology.switch(switch)
        if link := getattr(self, "link", None):
            link_named(topology, link)
        for name, bounds in self.bounds.items():
            if (value := getattr(self, name)) not in bounds:
                raise UsageError(f"{self.name}: {name} must be {bounds}, got {value:g}")

    def require(self) -> None:
        """Whether this machine has what it takes: known before anything is started. Errors: UsageError."""
        return

    def prepare(self, lab: RunningLab) -> None:
        """What must be there before anything runs on the hosts. Errors: UsageError, WorldError."""
        return

    @abstractmethod
    def component(self, lab: RunningLab) -> tuple[str, ...]:
        """Entity ids of what is broken."""

    @abstractmethod
    def start(self, lab: RunningLab) -> None:
        """Break it. Errors: WorldError if the machine does not let us."""

    def stop(self, lab: RunningLab) -> None:
        """Mend it; called once, also when the scenario is interrupted. What cannot be mended (a dead process) stays."""
        return

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        """What the raw counters of the kernel say now: read before and after, kept in the truth file for people."""
        return {}


@dataclass(frozen=True, slots=True)
class JobFault(Fault):
    """A fault of a job, by default of the first one that runs."""

    job: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        # The job's name: when the fault is to be mended, another one may be the first.
        return replace(self, job=lab.job(self.job).name)


@dataclass(frozen=True, slots=True)
class RankFault(JobFault):
    """A fault of one rank: of a job's (the first that runs), the rank from the seed, unless they are given."""

    rank: int | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        job = lab.job(self.job).name
        return replace(self, job=job, rank=lab.some_rank(job, rng) if self.rank is None else self.rank)

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        ranks = sum(max(1, len(host.gpus)) for host in topology.hosts)  # a job has at most one rank on each GPU
        if self.rank is not None and not 0 <= self.rank < ranks:
            raise UsageError(f"{self.name}: a rank on {topology.name} is 0 to {ranks - 1}, got {self.rank}")

    def one(self, lab: RunningLab) -> RankProcess:
        """The rank. Errors: UsageError if its job does not run."""
        return lab.rank(self.job, self.rank or 0)


class Harmless:
    """Something harmless that looks like a fault: has the seam of one, but nothing is broken (`lab/harmless/`)."""

    __slots__ = ()
    fault_class: ClassVar[FaultClass] = "transient"


def of_magnitude(kind: type[Fault], magnitude: Magnitude = "medium", **more: Any) -> Fault:
    """A fault as small or large as that; `more` are parameters that stand whatever its magnitude."""
    return kind(**{**kind.magnitudes.get(magnitude, {}), **more})


def parameters_of(fault: Fault) -> dict[str, object]:
    """The parameters of a fault by name, as a scenario would give them."""
    fields = [each.name for each in dataclasses.fields(fault) if not each.name.startswith("_")]
    return {name: getattr(fault, name) for name in fields}


def fault_from(kind: type[Fault], given: Mapping[str, Any], where: str) -> Fault:
    """A fault from the parameters of a scenario; what else is given goes before what its `magnitude` says.

    Errors: ConfigError naming the parameter and what there is.
    """
    given = dict(given)
    magnitude = given.pop("magnitude", "medium")
    if magnitude not in MAGNITUDES:
        raise ConfigError(f"{where}: magnitude must be one of {', '.join(MAGNITUDES)}, got {magnitude!r}")
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"{where}: {kind.name} has no parameter {name!r}; it takes {', '.join(known) or 'none'}")
        if not _fits(value, hints[name]):
            raise ConfigError(f"{where}: {kind.name}.{name} expects {_told(hints[name])}, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}: {kind.name}.{name} expects a finite number, got {value!r}")
    missing = [
        name
        for name, field in known.items()
        if name not in given and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: {kind.name} needs {', '.join(missing)}")
    return of_magnitude(kind, magnitude, **given)


def _fits(value: object, hint: Any) -> bool:
    options = typing.get_args(hint) if typing.get_origin(hint) is not None else (hint,)
    for each in options:
        if each is float and isinstance(value, int | float) and not isinstance(value, bool):
            return True
        if isinstance(each, type) and isinstance(value, each) and not (each is int and isinstance(value, bool)):
            return True
    return False


def _told(hint: Any) -> str:
    options = typing.get_args(hint) if typing.get_origin(hint) is not None else (hint,)
    return " or ".join("nothing" if each is type(None) else each.__name__ for each in options)
