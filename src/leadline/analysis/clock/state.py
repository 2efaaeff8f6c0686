"""What is known of the clocks of a mesh, and what is told of it in one step.

Offsets are host time minus cluster time, as an int64 base and a float above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from leadline.analysis.clock.edge import Lines
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

# Wander that the filter expects at first, ppb per square root of a second: what temperature does to oscillators of
# servers within seconds. It is learnt for each host between the two below. Source: measured (simulated, docs/log.md).
WANDER_PPB = 10.0
# Standard deviations that the stated bound is of: errors of hull fits have long tails. Source: measured (share of
# errors within it on simulated traces, docs/log.md).
BOUND_SIGMAS = 6.0
# ns that a bound never goes below, because both ways of a link differ by as much and nothing tells. Source: judgement.
BOUND_MIN_NS = 100.0
# Time between steps if nobody says otherwise, ns: lines of probers each quarter second. Source: definition.
EVERY_NS = S // 4
# Time for which a fit is used after the next one could be there, as rows are under way. Source: definition.
WAY_S = 0.15
# ppb per second by which a rate may change while nothing is heard of a host: a step of 1 ppm within 30 s, the worst of
# the clock models. The bound grows by half of it times the age squared. Source: judgement.
DRIFT_PPB_PER_S = 35.0
NO_BOUND_NS = 3600 * S  # told as bound of a lost clock, whose offset may be anything. Source: definition.


class State(IntEnum):
    """What is known of a clock; words as in `clock_fit`."""

    LOST = 0
    CARRIED = 1
    FITTED = 2

    @property
    def word(self) -> str:
        """Its name in the table."""
        return self.name.lower()


class Kind(IntEnum):
    """What happened to a host."""

    STEPPED = 0  # its clock was set
    LYING = 1  # its edges contradict each other, for seconds
    TRUSTED = 2  # that is over


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a step found."""

    host: int
    kind: Kind
    by_ns: float = np.nan  # size, where it is known


@dataclass(frozen=True, slots=True)
class Edges:
    """What is told of E edges in one step: lines of the windows that just ended."""

    src_E: Ints
    dst_E: Ints
    lines: Lines
    stepped_E: Bools  # newest points contradict the last line (`edge.stepped`)
    shift_E: Floats  # ns by which newest points moved from the last line, NaN: not for certain (`edge.shifts`)


@dataclass(frozen=True, slots=True)
class Mesh:
    """State of H hosts' clocks at a cluster time. Units: ns, ppb, s."""

    end_ns: int
    base_H: Ints
    offset_H: Floats  # at `end_ns`, above the base
    rate_H: Floats  # ppb against cluster time
    var_H: Floats  # of the offset, ns^2
    both_H: Floats  # covariance, ns ppb
    rate_var_H: Floats  # ppb^2
    wander_H: Floats  # ppb per square root of a second
    known_H: Bools  # whether offsets mean something
    state_H: Ints
    fitted_ns_H: Ints  # end of the last window with a fit
    noise_H: Floats  # ns, of the last fit
    extra_H: Floats  # ns that two-way delays could hide
    torn_H: Floats  # ns by which many edges of the host disagree in one direction: they or the others are wrong
    doubt_H: Floats  # ns that it was off when it was odd, until that is settled
    island_H: Ints
    odd_H: Ints  # 1: it was odd, and waits for windows that begin after that
    wrong_H: Ints
    lying_H: Bools
    every_ns: int = EVERY_NS  # from step to step
    flagged_E: Bools = field(default_factory=lambda: np.zeros(0, bool))  # of the last step's edges: asymmetric
    restart_H: Bools = field(default_factory=lambda: np.zeros(0, bool))  # windows of these hosts' edges begin anew
    events: tuple[Event, ...] = ()  # of the last step

    def __len__(self) -> int:
        return len(self.base_H)

    @property
    def bound_H(self) -> Floats:
        """The offset is right to within this until the next fit can be used, ns; inf if it is not known."""
        return self.bound_within(self.every_ns / S + WAY_S)

    def bound_within(self, ahead: float) -> Floats:
        """The same for so many seconds."""
        age_H = (self.end_ns - self.fitted_ns_H) / S
        var_H = self.var_H + 2 * ahead * self.both_H + ahead**2 * self.rate_var_H + self.wander_H**2 * ahead**3 / 3
        drift_H = np.where(self.state_H == State.FITTED, 0.0, DRIFT_PPB_PER_S * age_H**2 / 2)
        bound_H = (
            np.maximum(BOUND_SIGMAS * np.sqrt(np.maximum(var_H, 0.0)), BOUND_MIN_NS)
            + self.extra_H
            + self.torn_H
            + self.doubt_H
        )
        bound_H = bound_H + drift_H
        out: Floats = np.where(self.state_H == State.LOST, np.inf, bound_H)
        return out


NEW_VAR = (
    1e12  # variance of the offset of a clock of which nothing is known, ns^2, so that any fit wins. Source: bound.
)
_NEW_RATE_VAR = 1e10  # variance of its rate, ppb^2: 100 ppm is as far as clocks are off. Source: judgement.


def begun(hosts: int, end_ns: int, every_ns: int = EVERY_NS) -> Mesh:
    """The state before anything is known of some hosts. `end_ns`: cluster time, the caller's own clock at first;
    `every_ns`: how far steps will be apart.
    """
    zero, none = np.zeros(hosts), np.zeros(hosts, np.int64)
    return Mesh(
        end_ns, none, zero, zero, np.full(hosts, NEW_VAR), zero, np.full(hosts, _NEW_RATE_VAR),
        np.full(hosts, WANDER_PPB), none > 0, none, np.full(hosts, end_ns, np.int64), zero, zero, zero, zero,
        np.arange(hosts), none, none, none > 0, every_ns,
    )  # fmt: skip


def joined(mesh: Mesh, hosts: int) -> Mesh:
    """The state with some more hosts behind those that it has."""
    return _with(mesh, begun(hosts, mesh.end_ns, mesh.every_ns), np.arange(len(mesh), len(mesh) + hosts))


def left(mesh: Mesh, host_M: Ints) -> Mesh:
    """The state once some hosts are gone, or began anew: their numbers stay, and nothing is known of them."""
    gone_H = np.zeros(len(mesh), bool)
    gone_H[host_M] = True
    new = begun(len(mesh), mesh.end_ns, mesh.every_ns)
    parts: dict[str, Any] = {name: np.where(gone_H, getattr(new, name), getattr(mesh, name)) for name in _of_hosts()}
    return replace(mesh, **parts)


def rows(mesh: Mesh, hosts: Ints | None = None) -> Mapping[str, Any]:
    """Columns of `clock_fit` but who the hosts are, of all hosts or some."""
    h = np.arange(len(mesh)) if hosts is None else hosts
    bound_H = np.minimum(np.ceil(mesh.bound_H[h]), NO_BOUND_NS)
    return {
        "end_ns": np.full(len(h), mesh.end_ns, np.int64),
        "offset_ns": mesh.base_H[h] + np.rint(mesh.offset_H[h]).astype(np.int64),
        "rate_ppb": mesh.rate_H[h],
        "bound_ns": bound_H.astype(np.int64),
        "noise_ns": mesh.noise_H[h],
        "island": mesh.island_H[h],
        "state": [State(each).word for each in mesh.state_H[h].tolist()],
    }


def _of_hosts() -> list[str]:
    return [each.name for each in fields(Mesh) if each.name.endswith("_H") and each.name != "restart_H"]


def _with(mesh: Mesh, more: Mesh, island_H: Ints) -> Mesh:
    parts: dict[str, Any] = {name: np.concatenate([getattr(mesh, name), getattr(more, name)]) for name in _of_hosts()}
    parts["island_H"] = np.concatenate([mesh.island_H, island_H])
    return replace(mesh, **parts)
