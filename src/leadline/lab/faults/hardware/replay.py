"""Playing what real hardware shows: counters into the overlays of nodes, lines into kernel logs, from one file a fault.

`replays/<fault>.yaml` has parts (`nic`, `switch_port`, ...). A fault says which entities play each part (its cast), and
how strongly; so a new replayed fault is a file of data and a small class.

    nic:
      per_s: {tx_prio3_pause: 3000}                       counters, growth per second; times the fault's strength
      gauges: {transceiver_laser_rx_power_dbm: {to: -12, over_s: 15}}
      lines:                                              into the kernel log of the host
        - {level: 3, text: "mlx5_core {pci} {port}: ..."}           {words} are the place's
        - {xid: 63, every_s: 4, times: rows, bump: {...}}           a word in place of a number is the fault's own
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from leadline.lab.faults.background import Background
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import kernel_log
from leadline.lab.telemetry.overlay import Claim, Slope, bump
from leadline.model.errors import ConfigError
from leadline.model.ids import kind_of, name_of

REPLAYS = Path(__file__).parent.parent / "replays"
ABOUT = ("source", "licence")  # of a file, beside its parts
_LINE_WORDS = {"text", "level", "xid", "every_s", "first_s", "times", "bump"}
_PART_WORDS = {"per_s", "gauges", "lines"}

Given = Mapping[str, float]
Number = float | str  # a word stands for a number of the fault's


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a kernel log, once or again and again; `bump` says which counters of the place jump with it."""

    text: str = ""
    level: int = kernel_log.ERROR
    xid: int = 0  # 0: no line of a GPU's driver
    every_s: Number = 0.0  # 0: once
    first_s: Number = 0.0  # after the fault's start
    times: Number = 0  # at most so often; 0: as long as the fault lasts, or once if `every_s` is 0
    bump: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """What one entity of the cast shows."""

    per_s: Mapping[str, Number] = field(default_factory=dict)
    gauges: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its counters and gauges."""
        jumping = (name for line in self.lines for name in line.bump)
        return tuple(dict.fromkeys((*self.per_s, *jumping, *self.gauges)))


@dataclass(frozen=True, slots=True)
class Place:
    """Who plays a part: an entity, the node that tells of it, words for its lines."""

    entity: str
    node: str
    words: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None  # of the process that a GPU's driver names


Cast = Mapping[str, Sequence[Place]]
Due = tuple[float, Place, Line]  # seconds after the start, where, what


@cache
def parts_of(fault: str) -> Mapping[str, Part]:
    """The parts of a fault's file. Errors: ConfigError naming the file and what it does not know."""
    path = REPLAYS / f"{fault}.yaml"
    found = yaml.safe_load(path.read_text())
    parts = {}
    for name, given in found.items():
        if name in ABOUT:
            continue
        lines = given.get("lines", ())
        unknown = set(given) - _PART_WORDS | {word for line in lines for word in set(line) - _LINE_WORDS}
        if unknown:
            raise ConfigError(f"{path.name}, {name}: unknown {', '.join(sorted(unknown))}")
        parts[name] = Part(given.get("per_s", {}), given.get("gauges", {}), tuple(Line(**line) for line in lines))
    return parts


class Playing:
    """A replay while it plays. `start` returns with its first lines written; `stop` may be called at any time."""

    def __init__(self, lab: RunningLab, fault: str, cast: Cast, strength: float = 1.0, given: Given | None = None):
        """`strength` multiplies every growth; `given` are the numbers that words of the file stand for."""
        self._lab, self._cast, self._strength, self._given = lab, cast, strength, given or {}
        self._parts = parts_of(fault)
        self._later: Background | None = None

    def start(self) -> None:
        """Let it show. Errors: OSError, KeyError for a part or word that the file has and the fault does not."""
        for node, claim in self._claims(time.monotonic_ns()).items():
            self._lab.hold(self._lab.overlay(node), self, claim)
        script = self._script()
        for at_s, place, line in script:
            if at_s > 0:
                later = itertools.chain([(at_s, place, line)], script)
                self._later = Background("replay", partial(self._play, later))
                return
            self._say(place, line)

    def stop(self) -> None:
        """Counters keep what they have, gauges are healthy again, nothing more is logged.

        Errors: what kept a later line from being written.
        """
        later, self._later = self._later, None
        try:
            if later is not None:
                later.end()
        finally:
            for node in self._claims(0):
                self._lab.release(self._lab.overlay(node), self)

    def _claims(self, now_ns: int) -> dict[str, Claim]:
        """What each node's overlay is asked for."""
        per_s: dict[str, dict[str, dict[str, float]]] = {}
        gauges: dict[str, dict[str, dict[str, Slope]]] = {}
        for part, place in self._places():
            if part.per_s:
                grown = {name: self._number(value) * self._strength for name, value in part.per_s.items()}
                per_s.setdefault(place.node, {})[place.entity] = grown
            if part.gauges:
                gauges.setdefault(place.node, {})[place.entity] = {
                    name: Slope(self._number(slope["to"]), self._number(slope.get("over_s", 0)), now_ns)
                    for name, slope in part.gauges.items()
                }
        nodes = dict.fromkeys((*per_s, *gauges))
        return {node: Claim(per_s.get(node, {}), gauges.get(node, {})) for node in nodes}

    def _script(self) -> Iterator[Due]:
        """All lines in the order of their times; without an end where one comes as long as the fault lasts."""
        told = [self._turns(place, line) for part, place in self._places() for line in part.lines]
        return heapq.merge(*told, key=lambda due: due[0])

    def _turns(self, place: Place, line: Line) -> Iterator[Due]:
        every_s, times = self._number(line.every_s), round(self._number(line.times))
        if isinstance(line.times, str) and not times:
            return  # the fault says: never
        turns = range(times) if times else itertools.count() if every_s else range(1)
        for turn in turns:
            text = line.text.format(**place.words, turn=turn)
            yield self._number(line.first_s) + turn * every_s, place, replace(line, text=text)

    def _places(self) -> Iterator[tuple[Part, Place]]:
        for name, places in self._cast.items():
            for place in places:
                yield self._parts[name], place

    def _number(self, value: Number) -> float:
        return float(self._given[value]) if isinstance(value, str) else float(value)

    def _play(self, script: Iterable[Due], ended: threading.Event) -> None:
        began = time.monotonic()
        for at_s, place, line in script:
            if ended.wait(max(0.0, began + at_s - time.monotonic())):
                return
            self._say(place, line)

    def _say(self, place: Place, line: Line) -> None:
        directory = node_directory(self._lab, place.node)
        for name, amount in line.bump.items():
            bump(directory, place.entity, name, amount)
        if line.xid:
            uuid = name_of(place.entity)
            kernel_log.append_xid(self._lab.state, place.node, uuid, line.xid, place.pid, line.text)
        elif line.text:
            if kind_of(place.entity) == "gpu":
                kernel_log.append_gpu_name(directory, name_of(place.entity))
            kernel_log.append(directory, line.text, line.level)


def node_directory(lab: RunningLab, node: str) -> Path:
    """The directory of a host or a switch in the lab's state."""
    switches = {each.name for each in lab.cluster.topology.switches}
    return lab.state / ("switches" if node in switches else "hosts") / node


def logged(lab: RunningLab, host: str, words: str) -> int:
    """How many lines of a host's kernel log have these words."""
    path = node_directory(lab, host) / kernel_log.FILE
    return sum(words in line for line in path.read_text(errors="replace").splitlines()) if path.exists() else 0


def as_numbers(parameters: Mapping[str, Any]) -> dict[str, float]:
    """Those of a fault's parameters that are numbers: what words of its file may stand for."""
    return {name: float(value) for name, value in parameters.items() if isinstance(value, int | float)}
