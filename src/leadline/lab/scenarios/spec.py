"""Scenarios read from YAML, and checked as far as that can be done without a topology.

    name: demo
    doc: A link flaps, then a worker is slow.
    topology: clos8
    duration_s: 180
    workloads:
      - {workload: bert, name: bert-1}
    faults:
      - {fault: flapping-link, at_s: 40, for_s: 30, link: h3~leaf1}
      - {fault: slow-worker, at_s: 110, for_s: 40, rank: 5, with_decoy: true}
    harmless:
      - {harmless: log-noise, at_s: 60}

Second 0 is when every workload that starts at 0 is at work (who trains has made a step): before, it is set up.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from leadline.lab import harmless
from leadline.lab.faults import BY_NAME as FAULT_BY_NAME
from leadline.lab.faults.base import Fault, fault_from
from leadline.lab.located import Located, read_file, read_mapping
from leadline.lab.scenarios.parameters import misfit, parameters_of_workload
from leadline.lab.scenarios.parts import Deed, Due, PlannedFault, PlannedWorkload, Scenario, time_line
from leadline.lab.topology import preset_names
from leadline.lab.topology.shape import complaint
from leadline.lab.workloads import WORKLOADS
from leadline.lab.workloads.base import NAME
from leadline.lab.workloads.limits import beyond
from leadline.model.errors import ConfigError

__all__ = [
    "Deed", "Due", "PlannedFault", "PlannedWorkload", "Scenario", "of_fault", "parse", "scenario_of", "shipped",
    "time_line",
]  # fmt: skip

SHIPPED = resources.files("leadline.lab.scenarios")
KEYS = ("name", "doc", "topology", "links_down", "duration_s", "workloads", "faults", "harmless", "flow_truth")
# A fault by its name alone: the job settles, the fault, the job recovers.
TURNS_MAX = 10_000  # of what comes again with `every_s`: every minute for a week
FAULT_AT_S, FAULT_FOR_S, AFTER_S = 30.0, 40.0, 30.0


def shipped() -> list[str]:
    """Names of the scenarios that come with Leadline."""
    return sorted(each.name.removesuffix(".yaml") for each in SHIPPED.iterdir() if each.name.endswith(".yaml"))


def scenario_of(name: str, duration_s: float | None = None) -> Scenario:
    """A scenario by name: shipped, a fault's name (that fault on a job over `clos8`), or a file.

    `duration_s` takes the place of its own: `healthy` for hours.

    Errors: ConfigError naming what there is.
    """
    if name in shipped():
        return parse(SHIPPED.joinpath(f"{name}.yaml").read_text(), f"scenario {name}", duration_s)
    if name in FAULT_BY_NAME or name in harmless.HARMLESS_BY_NAME:
        planned = of_fault(name)
        return replace(planned, duration_s=duration_s or planned.duration_s)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return _scenario(read_file(path, "a scenario"), duration_s)
    known = [*shipped(), *FAULT_BY_NAME, *harmless.HARMLESS_BY_NAME]
    near = get_close_matches(name, known, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`leadline lab list` shows all; or give a .yaml file"
    raise ConfigError(f"no scenario {name!r}; {hint}")


def of_fault(name: str) -> Scenario:
    """The plain scenario of one fault (or harmless thing), everything about it chosen from the seed."""
    kind = FAULT_BY_NAME.get(name) or harmless.HARMLESS_BY_NAME[name]
    fault = PlannedFault(
        kind(),
        FAULT_AT_S,
        FAULT_FOR_S if kind.lasts else None,
        decoy=name not in FAULT_BY_NAME,
        magnitude="medium",
        place=f"scenario {name}",
    )
    # The kind of job that the fault can befall; bert where any will do.
    work = "bert" if not kind.workloads or "bert" in kind.workloads else kind.workloads[0]
    return Scenario(
        name=name,
        doc=_first_sentence(inspect.getdoc(kind) or ""),
        topology=kind.preset or "clos8",
        duration_s=FAULT_AT_S + FAULT_FOR_S + AFTER_S,
        workloads=(PlannedWorkload(work, f"{work}-1", 0.0, None, {}, place=f"scenario {name}"),),
        faults=(fault,),
        topology_place=f"scenario {name}",
    )


def _first_sentence(text: str) -> str:
    """Of a docstring, however its lines are broken."""
    words, stop, _ = " ".join(text.partition("\n\n")[0].split()).partition(". ")
    return f"{words}." if stop else words


def parse(text: str, where: str, duration_s: float | None = None) -> Scenario:
    """A scenario from YAML; `duration_s` takes the place of its own.

    Errors: ConfigError naming the place, what was expected and what came.
    """
    return _scenario(read_mapping(text, where), duration_s)


def _scenario(top: Located, duration_s: float | None) -> Scenario:
    for key in top:
        if key not in KEYS:
            raise ConfigError(f"{top.place_of(key)}: unknown {key}; a scenario takes {', '.join(KEYS)}")
    duration_s = duration_s or _seconds(top, "duration_s")
    if not duration_s:
        raise ConfigError(f"{top.place_of('duration_s')}: duration_s must be > 0, got {duration_s}")
    works = [each for given in _list(top, "workloads") for each in _workload(given, duration_s)]
    place_of: dict[str, str] = {}
    for work in works:
        if work.name in place_of:
            raise ConfigError(
                f"{work.place}: two workloads are called {work.name} (the first: {place_of[work.name]}); give each a "
                "`name` of its own"
            )
        place_of[work.name] = work.place
    listed = [(each, "fault", FAULT_BY_NAME) for each in _list(top, "faults")]
    listed += [(each, "harmless", harmless.HARMLESS_BY_NAME) for each in _list(top, "harmless")]
    faults = [each for given, word, kinds in listed for each in _again(given, _fault(given, word, kinds), duration_s)]
    planned: tuple[PlannedWorkload | PlannedFault, ...] = (*works, *faults)
    for each in planned:
        if each.at_s > duration_s:
            raise ConfigError(f"{each.place}: at_s {each.at_s} is after the end, duration_s {duration_s}")
    links = top.get("links_down", ())
    if expected := complaint("links_down", links):
        raise ConfigError(f"{top.place_of('links_down')}: links_down: expected {expected}, got {links!r}")
    return Scenario(
        name=_name(top.get("name", Path(top.where).stem), top.place_of("name")),
        doc=str(top.get("doc", "")),
        topology=_topology(top),
        duration_s=duration_s,
        workloads=works,
        faults=faults,
        links_down=tuple(links),
        links_place=top.place_of("links_down"),
        topology_place=top.place_of("topology"),
        flow_truth=_flag(top, "flow_truth"),
    )


def _topology(top: Located) -> str:
    name = str(top.get("topology", "clos8"))
    is_file = name.endswith((".yaml", ".yml")) and Path(name).is_file()
    if name not in preset_names() and not is_file:
        raise ConfigError(
            f"{top.place_of('topology')}: topology: expected {', '.join(preset_names())} or a .yaml file that is "
            f"there, got {name!r}"
        )
    return name


def _workload(given: Located, duration_s: float) -> list[PlannedWorkload]:
    """One workload; with `every_s` one after the other until the end, numbered on from its name: rings-1, rings-2."""
    kind = str(given.get("workload", ""))
    if kind not in WORKLOADS:
        raise ConfigError(
            f"{given.place_of('workload')}: workload must be one of {', '.join(WORKLOADS)}, got {kind or 'nothing'}"
        )
    name = _name(given.get("name", f"{kind}-1"), given.place_of("name"))
    at_s = _seconds(given, "at_s") or 0.0
    for_s = _lasting(given)
    every_s = _seconds(given, "every_s")
    fields = {key: given[key] for key in given if key not in ("workload", "name", "at_s", "for_s", "every_s")}
    known = parameters_of_workload(WORKLOADS[kind])
    for each, value in fields.items():
        at = given.place_of(each)
        if each not in known:
            raise ConfigError(f"{at}: {kind} has no parameter {each!r}; it takes {', '.join(known)}")
        if expected := misfit(value, known[each]):
            raise ConfigError(f"{at}: {kind}.{each} expects {expected}, got {value!r}")
        if expected := beyond(each, value):
            raise ConfigError(f"{at}: {kind}.{each} must be {expected}, got {value!r}")
    if every_s is None:
        return [PlannedWorkload(kind, name, at_s, for_s, fields, given.place)]
    if for_s is None or not 0 < for_s < every_s:
        raise ConfigError(f"{given.place_of('every_s')}: every_s {every_s} needs a for_s that is shorter, got {for_s}")
    stem, number = _numbered(name)
    starts = [at_s + every_s * turn for turn in range(_turns(given, every_s, duration_s - at_s))]
    return [
        PlannedWorkload(kind, f"{stem}{number + turn}", start, for_s, fields, given.place)
        for turn, start in enumerate(starts)
    ]


def _numbered(name: str) -> tuple[str, int]:
    """`rings-7` is ("rings-", 7); a name without a number begins at 1."""
    stem = name.rstrip("0123456789")
    return (stem, int(name[len(stem) :])) if stem != name else (f"{name}-", 1)


def _fault(given: Located, word: str, kinds: Mapping[str, type[Fault]]) -> PlannedFault:
    """A fault or something harmless: `word` is "fault" or "harmless", the key under which its name stands."""
    name = str(given.get(word, ""))
    if name not in kinds:
        near = get_close_matches(name, kinds, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"{given.place_of(word)}: {word} must be one of {', '.join(kinds)}, got {name or 'nothing'}{hint}"
        )
    at_s = _seconds(given, "at_s")
    if at_s is None:
        raise ConfigError(f"{given.place}: {name} needs at_s, the second at which it starts")
    for_s = _lasting(given)
    decoy = _flag(given, "decoy") or word == "harmless"
    timing = ("at_s", "for_s", "every_s", "decoy", "with_decoy")
    fields = {key: given[key] for key in given if key not in (word, *timing)}
    kind = kinds[name]
    magnitude = fields.get("magnitude", "medium")
    free = {each for sizes in kind.magnitudes.values() for each in sizes}
    # One by one, so that what is wrong is told with its own line.
    for key in fields:
        fault_from(kind, {key: fields[key]}, given.place_of(key))
    return PlannedFault(
        fault=fault_from(kind, fields, given.place),
        at_s=at_s,
        for_s=for_s,
        decoy=decoy,
        magnitude=None if free & set(fields) else magnitude,
        place=given.place,
        with_decoy=_with_decoy(given),
    )


def _again(given: Located, planned: PlannedFault, duration_s: float) -> list[PlannedFault]:
    """It, or with `every_s` it again and again until the end; the seed draws each of them anew."""
    every_s = _seconds(given, "every_s")
    if every_s is None:
        return [planned]
    if every_s <= (planned.for_s or 0) or (planned.for_s is None and planned.fault.lasts):
        raise ConfigError(
            f"{given.place_of('every_s')}: every_s {every_s:g} needs a for_s that is shorter, got {planned.for_s}"
        )
    turns = _turns(given, every_s, duration_s - planned.at_s)
    return [replace(planned, at_s=planned.at_s + every_s * turn) for turn in range(turns)]


def _turns(given: Located, every_s: float, rest_s: float) -> int:
    turns = rest_s // every_s + 1
    if turns > TURNS_MAX:
        raise ConfigError(
            f"{given.place_of('every_s')}: every_s {every_s:g} gives {turns:.0f} turns until the end, at most "
            f"{TURNS_MAX} are expected; take a longer one, or a shorter duration_s"
        )
    return max(1, int(turns))  # what is too late altogether is told with its at_s


def _with_decoy(given: Located) -> bool | str:
    wanted = given.get("with_decoy", False)
    if isinstance(wanted, bool):
        return wanted
    if wanted not in harmless.HARMLESS_BY_NAME:
        raise ConfigError(
            f"{given.place_of('with_decoy')}: with_decoy must be true or one of "
            f"{', '.join(harmless.HARMLESS_BY_NAME)}, got {wanted!r}"
        )
    return str(wanted)


def _list(given: Located, name: str) -> list[Located]:
    value = given.get(name) or []
    if not isinstance(value, list):
        raise ConfigError(f"{given.place_of(name)}: {name} must be a list, got {value!r}")
    for each in value:
        if not isinstance(each, Located):
            raise ConfigError(f"{given.place_of(name)}: {name}: expected mappings like {{at_s: 30}}, got {each!r}")
    return value


def _name(given: object, where: str) -> str:
    """A name that can be part of a path, of a control group and of an entity's id."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise ConfigError(f"{where}: a name is letters and digits, then also '.', '_' and '-'; got {given!r}")
    return given


def _flag(given: Located, name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{given.place_of(name)}: {name} must be true or false, got {value!r}")
    return value


def _lasting(given: Located) -> float | None:
    for_s = _seconds(given, "for_s")
    if for_s == 0:
        raise ConfigError(
            f"{given.place_of('for_s')}: for_s must be seconds > 0, got 0; leave it out for what lasts to the end"
        )
    return for_s


def _seconds(given: Located, name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{given.place_of(name)}: {name} must be seconds >= 0, got {value!r}")
    return float(value)
