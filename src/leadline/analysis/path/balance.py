"""How evenly a switch spreads bytes over equal-cost links, and which flows collide on the busiest one."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.analysis.columns import Ints
from leadline.analysis.path.volume import Volumes


@dataclass(frozen=True, slots=True)
class EcmpSets:
    """Sets of equal-cost links that switches choose among: arrays over E, sorted by nobody."""

    switch_E: Ints  # index of the switch that chooses
    links_E: list[tuple[int, ...]]  # indices of the links that it may send by: at least two


@dataclass(frozen=True, slots=True)
class Balance:
    """How one set was loaded in the window; links and flows by their index, jobs by their code."""

    switch: int
    links: tuple[int, ...]  # in ascending order
    link_bytes: tuple[float, ...]  # what the switch sent by each
    flows: int
    bytes: float
    efficiency: float  # mean over maximum of the links' bytes
    busiest: int  # link
    busiest_bytes: float
    colliding: tuple[int, ...]  # flows, the largest first
    jobs: tuple[int, ...]  # of those flows, ascending; nobody's (-1) left out


def balance(volumes: Volumes, sets: EcmpSets, job_F: Ints) -> list[Balance]:
    """One entry per set that carried anything, by switch and links."""
    raise AssertionError("not yet")
