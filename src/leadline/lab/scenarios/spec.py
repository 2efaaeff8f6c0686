"""What a scenario is: a topology, workloads and faults on one time line. Pure data, read from YAML.

    name: demo
    doc: A link flaps, then a worker is slow.
    topology: clos8
    duration_s: 180
    workloads:
      - {workload: bert, name: bert-1}
    faults:
      - {fault: flapping-link, at_s: 40, for_s: 30, link: h3~leaf1}
      - {fault: slow-worker, at_s: 110, for_s: 40, rank: 5}

Second 0 is when every workload that starts at 0 is at work (who trains has made a step): before, it is set up.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml

from leadline.lab.faults import BY_NAME as FAULT_BY_NAME
from leadline.lab.faults import FAULTS
from leadline.lab.faults.base import Fault, RankFault, fault_from
from leadline.lab.truth import Magnitude
from leadline.lab.workloads import WORKLOADS
from leadline.model.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SHIPPED = resources.files("leadline.lab.scenarios")
# A fault by its name alone: the job settles, the fault, the job recovers.
FAULT_AT_S, FAULT_FOR_S, AFTER_S = 30.0, 40.0, 30.0


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload and when it starts and ends (None: with the scenario)."""

    kind: str
    name: str
    at_s: float
    for_s: float | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault, when it starts and ends (None: with the scenario), and whether it is only a decoy."""

    fault: Fault
    at_s: float
    for_s: float | None
    decoy: bool
    magnitude: Magnitude | None = None  # None: its parameters were given one by one


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, checked."""

    name: str
    doc: str
    topology: str
    duration_s: float
    workloads: Sequence[PlannedWorkload]
    faults: Sequence[PlannedFault]


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


def shipped() -> list[str]:
    """Names of the scenarios that come with Leadline."""
    return sorted(each.name.removesuffix(".yaml") for each in SHIPPED.iterdir() if each.name.endswith(".yaml"))


def scenario_of(name: str, duration_s: float | None = None) -> Scenario:
    """A scenario by name: shipped, a fault's name (that fault on `bert` over `clos8`), or a file.

    `duration_s` takes the place of its own: `healthy` for hours.

    Errors: ConfigError naming what there is.
    """
    if name in shipped():
        return parse(SHIPPED.joinpath(f"{name}.yaml").read_text(), f"scenario {name}", duration_s)
    if name in FAULT_BY_NAME:
        planned = of_fault(name)
        return replace(planned, duration_s=duration_s or planned.duration_s)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        try:
            return parse(path.read_text(), name, duration_s)
        except OSError as error:
            raise ConfigError(f"cannot read scenario {name}: {error.strerror}") from error
    known = [*shipped(), *FAULT_BY_NAME]
    near = get_close_matches(name, known, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}; or give a .yaml file"
    raise ConfigError(f"no scenario {name!r}; {hint}")


def of_fault(name: str) -> Scenario:
    """The plain scenario of one fault, everything about it chosen from the seed."""
    kind = FAULT_BY_NAME[name]
    fault = PlannedFault(kind(), FAULT_AT_S, FAULT_FOR_S if kind.lasts else None, decoy=False, magnitude="medium")
    return Scenario(
        name=name,
        doc=(inspect.getdoc(kind) or "").partition("\n")[0],
        topology="clos8",
        duration_s=FAULT_AT_S + FAULT_FOR_S + AFTER_S,
        workloads=(PlannedWorkload("bert", "bert-1", 0.0, None, {}),),
        faults=(fault,),
    )


def parse(text: str, where: str, duration_s: float | None = None) -> Scenario:
    """A scenario from YAML; `duration_s` takes the place of its own.

    Errors: ConfigError naming the place, what was expected and what came.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from error
    top = _mapping(given, where, {"name", "doc", "topology", "duration_s", "workloads", "faults"})
    duration_s = duration_s or _seconds(top, "duration_s", where)
    if duration_s is None or duration_s <= 0:
        raise ConfigError(f"{where}: duration_s must be > 0, got {duration_s}")
    workloads = [
        each
        for number, given in enumerate(_list(top, "workloads", where))
        for each in _workload(given, f"{where}, workload {number + 1}", duration_s)
    ]
    names = [each.name for each in workloads]
    if len(set(names)) != len(names):
        raise ConfigError(f"{where}: two workloads have one name: {', '.join(sorted(names))}; give each a `name`")
    faults = [_fault(each, f"{where}, fault {n + 1}") for n, each in enumerate(_list(top, "faults", where))]
    for fault in (each.fault for each in faults):
        if isinstance(fault, RankFault) and (fault.job not in names if fault.job else not names):
            raise ConfigError(
                f"{where}: {fault.name} needs a workload called {fault.job or '(any)'}; there are "
                f"{', '.join(names) or 'none'}"
            )
    for at_s in [each.at_s for each in workloads] + [each.at_s for each in faults]:
        if at_s > duration_s:
            raise ConfigError(f"{where}: at_s {at_s} is after the end, duration_s {duration_s}")
    return Scenario(
        name=_name(top.get("name", Path(where).stem), where),
        doc=str(top.get("doc", "")),
        topology=str(top.get("topology", "clos8")),
        duration_s=duration_s,
        workloads=workloads,
        faults=faults,
    )


def _workload(given: object, where: str, duration_s: float) -> list[PlannedWorkload]:
    """One workload; with `every_s` one after the other until the end, numbered on from its name: rings-1, rings-2."""
    fields = dict(_mapping(given, where, None))
    kind = str(fields.pop("workload", ""))
    if kind not in WORKLOADS:
        raise ConfigError(f"{where}: workload must be one of {', '.join(WORKLOADS)}, got {kind or 'nothing'}")
    name = _name(fields.pop("name", f"{kind}-1"), where)
    at_s = _seconds(fields, "at_s", where) or 0.0
    for_s = _lasting(fields, where)
    every_s = _seconds(fields, "every_s", where)
    for timing in ("at_s", "for_s", "every_s"):
        fields.pop(timing, None)
    known = inspect.signature(WORKLOADS[kind]).parameters
    for each in fields:
        if each not in known:
            raise ConfigError(f"{where}: {kind} has no parameter {each!r}; it takes {', '.join(known)}")
    if every_s is None:
        return [PlannedWorkload(kind, name, at_s, for_s, fields)]
    if for_s is None or not 0 < for_s < every_s:
        raise ConfigError(f"{where}: every_s {every_s} needs a for_s that is shorter, got {for_s}")
    stem, number = _numbered(name)
    starts = [at_s + every_s * turn for turn in range(int((duration_s - at_s) // every_s) + 1)]
    return [PlannedWorkload(kind, f"{stem}{number + turn}", start, for_s, fields) for turn, start in enumerate(starts)]


def _numbered(name: str) -> tuple[str, int]:
    """`rings-7` is ("rings-", 7); a name without a number begins at 1."""
    stem = name.rstrip("0123456789")
    return (stem, int(name[len(stem) :])) if stem != name else (f"{name}-", 1)


def _fault(given: object, where: str) -> PlannedFault:
    fields = dict(_mapping(given, where, None))
    name = str(fields.pop("fault", ""))
    if name not in FAULT_BY_NAME:
        raise ConfigError(
            f"{where}: fault must be one of {', '.join(each.name for each in FAULTS)}, got {name or 'nothing'}"
        )
    at_s = _seconds(fields, "at_s", where)
    if at_s is None:
        raise ConfigError(f"{where}: {name} needs at_s, the second at which it starts")
    for_s = _lasting(fields, where)
    decoy = fields.pop("decoy", False)
    if not isinstance(decoy, bool):
        raise ConfigError(f"{where}: decoy must be true or false, got {decoy!r}")
    fields.pop("at_s"), fields.pop("for_s", None)
    kind = FAULT_BY_NAME[name]
    magnitude = fields.get("magnitude", "medium")
    free = {name for sizes in kind.magnitudes.values() for name in sizes}
    fault = fault_from(kind, fields, where)
    return PlannedFault(fault, at_s, for_s, decoy, None if free & set(fields) else magnitude)


def _mapping(given: object, where: str, known: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f"{where}: expected a mapping, got {given!r}")
    unknown = set(given) - known if known is not None else set()
    if unknown:
        raise ConfigError(f"{where}: unknown {', '.join(sorted(unknown))}; it takes {', '.join(sorted(known or ()))}")
    return given


def _list(given: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = given.get(name) or []
    if not isinstance(value, list):
        raise ConfigError(f"{where}: {name} must be a list, got {value!r}")
    return value


def _name(given: object, where: str) -> str:
    """A name that can be part of a path, of a control group and of an entity's id."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise ConfigError(f"{where}: a name is letters and digits, then also '.', '_' and '-'; got {given!r}")
    return given


def _lasting(given: Mapping[str, Any], where: str) -> float | None:
    for_s = _seconds(given, "for_s", where)
    if for_s == 0:
        raise ConfigError(f"{where}: for_s must be seconds > 0, got 0; leave it out for what lasts to the end")
    return for_s


def _seconds(given: Mapping[str, Any], name: str, where: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{where}: {name} must be seconds >= 0, got {value!r}")
    return float(value)
