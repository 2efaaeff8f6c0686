"""What is to be simulated: the size, the time, what goes wrong, what is told of it. Pure data, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from leadline.lab.located import Located, read_file, read_mapping
from leadline.lab.truth import MAGNITUDES, Magnitude
from leadline.model.errors import ConfigError, UsageError
from leadline.simulator.effects import EFFECTS, effect_of

Detail = Literal["jobs", "hosts", "all"]
Placement = Literal["packed", "random"]
Names = Literal["few", "all"]
POD_HOSTS = 32  # of a pod; a fleet of fewer than two such pods is two of half its size, so that jobs cross spines
START_NS = 1_767_225_600 * 10**9  # 2026-01-01, so that the same seed gives the same bytes on every day
GPUS_MAX = 2_000_000
MINUTES_MAX = 60 * 24 * 400
FULL_DETAIL_GPUS = 2048  # up to here everything is told unless the caller says otherwise


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault or a harmless thing on the time line; `for_s` None: to the end, or as long as such a thing lasts."""

    name: str
    at_s: float
    for_s: float | None = None
    magnitude: Magnitude = "medium"


@dataclass(frozen=True, slots=True)
class SimulationSpec:
    """One simulated fleet. Times of the time line are seconds from its begin."""

    gpus: int = 1000
    minutes: float = 10.0
    seed: int = 1
    planned: tuple[Planned, ...] = ()
    quiet: bool = False  # nothing breaks; harmless things still happen
    hazards: bool = True  # parts fail by their age
    detail: Detail = "all"
    metrics_s: float = 30.0
    sampling: int = 50_000  # sFlow: one packet in this many
    spray: bool = False
    probes: bool = True  # where everything is told, so is what a mesh of probers sees
    drop_share: float = 0.0  # of the rows that agents and exporters send
    silent_share: float = 0.0  # of the agents, for a part of the time
    silent_switches: float = 0.0  # share of the switches that sample nothing
    lying_switches: float = 0.0  # and of those that name wrong ports
    failing_links: float = 0.0  # of the links between switches: down once, for a quarter of the time; flows move
    clock_sigma_ns: float = 1e6  # an ordinary NTP
    drift_sigma_ppb: float = 5000.0
    gpus_per_host: int = 8
    pod_hosts: int = 0  # 0: as many as the size suggests, see `POD_HOSTS`
    utilisation: float = 0.85
    placement: Placement = "packed"
    age_days: float = 400.0  # mean age of the parts at the begin
    shares_machine: bool = False  # tell which hosts share a machine
    hosts_per_machine: int = 1
    flow_rows_max: int = 20_000_000  # switches are left out of sampling until no more rows are expected
    start_ns: int = START_NS
    tenant: str = "default"
    cluster: str = "default"
    name: str = "fleet"
    names: Names = "all"  # where everything is told: what exporters tell, or the few metrics that show most faults
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Length, seconds."""
        return self.minutes * 60.0

    @property
    def hosts_of_pod(self) -> int:
        """Hosts of a pod."""
        hosts = -(-self.gpus // self.gpus_per_host)
        return self.pod_hosts or min(POD_HOSTS, max(1, -(-hosts // 2)))

    @property
    def end_ns(self) -> int:
        """End of the span, not included."""
        return self.start_ns + round(self.seconds * 1e9)

    def check(self) -> None:
        """Errors: UsageError for what cannot be."""
        _between("gpus", self.gpus, 1, GPUS_MAX)
        _between("minutes", self.minutes, 0.05, MINUTES_MAX)
        _between("seed", self.seed, 0, 2**63 - 1)
        _between("sampling", self.sampling, 1, 10_000_000)
        _between("drop share", self.drop_share, 0.0, 0.99)
        _between("silent share", self.silent_share, 0.0, 1.0)
        for label, share in (("silent", self.silent_switches), ("lying", self.lying_switches)):
            _between(f"share of {label} switches", share, 0.0, 1.0)
        _between("share of failing links", self.failing_links, 0.0, 0.9)
        _between("metrics period", self.metrics_s, 1.0, 3600.0)
        _between("utilisation", self.utilisation, 0.01, 1.0)
        _between("gpus per host", self.gpus_per_host, 1, 16)
        _between("hosts of a pod", self.hosts_of_pod, 1, 64)
        _between("hosts per machine", self.hosts_per_machine, 1, 64)
        if self.detail not in get_args(Detail):
            raise UsageError(f"detail must be one of {', '.join(get_args(Detail))}, got {self.detail!r}")
        if self.names not in get_args(Names):
            raise UsageError(f"names must be one of {', '.join(get_args(Names))}, got {self.names!r}")
        if self.placement not in get_args(Placement):
            raise UsageError(f"placement must be one of {', '.join(get_args(Placement))}, got {self.placement!r}")
        if self.quiet and any(not effect_of(each.name).harmless for each in self.planned):
            raise UsageError("a quiet fleet has no faults; leave out --quiet, or --faults and --scenario")
        for each in self.planned:
            if each.at_s >= self.seconds:
                raise UsageError(
                    f"{each.name} at second {each.at_s:g} is after the end, {self.seconds:g} s; give more --minutes"
                )


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} must be {_told(low)} to {_told(high)}, got {_told(value)}")


def _told(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def planned_from(text: str, where: str) -> tuple[Planned, ...]:
    """The time line of a scenario: `faults:` and `harmless:`, each with at_s, for_s and magnitude.

    What else stands in a scenario of the lab (topology, workloads, which rank, which link) is the fleet's own here.
    Errors: ConfigError naming file, line and what was expected.
    """
    return _time_line(read_mapping(text, where))


def _time_line(top: Located) -> tuple[Planned, ...]:
    out = []
    for section, key in (("faults", "fault"), ("harmless", "harmless")):
        listed = top.get(section) or []
        if not isinstance(listed, list):
            raise ConfigError(f"{top.place_of(section)}: {section} must be a list, got {listed!r}")
        out += [_planned(each, key, top.place_of(section)) for each in listed]
    if not out:
        raise ConfigError(f"{top.place}: expected a list `faults:` or `harmless:`, got keys {', '.join(top)}")
    return tuple(sorted(out, key=lambda each: (each.at_s, each.name)))


def _planned(given: object, key: str, where: str) -> Planned:
    if not isinstance(given, Located):
        raise ConfigError(f"{where}: expected a mapping as {{{key}: NAME, at_s: 60}}, got {given!r}")
    names = [name for name, effect in EFFECTS.items() if effect.harmless is (key == "harmless")]
    name = given.get(key)
    if name not in names:
        raise ConfigError(f"{given.place_of(key)}: {key} must be one of {', '.join(names)}, got {name!r}")
    magnitude = given.get("magnitude", "medium")
    if magnitude not in MAGNITUDES:
        expected = ", ".join(MAGNITUDES)
        raise ConfigError(f"{given.place_of('magnitude')}: magnitude must be one of {expected}, got {magnitude!r}")
    at_s, for_s = given.get("at_s", 0.0), given.get("for_s")
    for label, value in (("at_s", at_s), ("for_s", 1.0 if for_s is None else for_s)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ConfigError(f"{given.place_of(label)}: {label} must be seconds >= 0, got {value!r}")
    return Planned(str(name), float(at_s), None if for_s is None else float(for_s), magnitude)


def read_planned(path: Path) -> tuple[Planned, ...]:
    """The time line of a scenario's file. Errors: ConfigError."""
    return _time_line(read_file(path, "a scenario"))


def planned_of(words: str, seconds: float, seed: int) -> tuple[Planned, ...]:
    """`--faults`: a number (so many, drawn from the seed), `all` (each once), or names with a magnitude: `xid/large`.

    They are spread evenly over the middle of the time, so that each has a before and an after. Errors: UsageError.
    """
    import random

    rng = random.Random(f"{seed}/faults")
    faults = [name for name, effect in EFFECTS.items() if not effect.harmless]
    if words.isdigit():
        chosen = [(rng.choice(faults), rng.choice(MAGNITUDES)) for _ in range(int(words))]
    elif words == "all":
        chosen = [(name, "medium") for name in faults]
    else:
        chosen = []
        for word in filter(None, words.split(",")):
            name, _, magnitude = word.strip().partition("/")
            if name not in EFFECTS or (magnitude or "medium") not in MAGNITUDES:
                raise UsageError(
                    f"--faults: expected a number, all, or NAME[/small|/large] of {', '.join(EFFECTS)}; got {word!r}"
                )
            chosen.append((name, magnitude or "medium"))  # type: ignore[arg-type]
    share = seconds / max(1, len(chosen))
    lasts_s = min(600.0, max(20.0, seconds / 4))
    return tuple(
        Planned(name, seconds * 0.1 + place * share * 0.75, lasts_s, magnitude)
        for place, (name, magnitude) in enumerate(chosen)
    )
