"""Switches that tell nothing or name the wrong ports, and links of the fabric that fail: drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.fleet import Fleet

SWAPPED, SHIFTED = 1, 2  # how a switch lies: in for out; each port by the number of the next
LIES = ("", "swapped", "shifted")


@dataclass(frozen=True, slots=True)
class SwitchFaults:
    """Arrays over switches (W) and failing links (X)."""

    silent_W: Bools
    lie_W: Ints
    next_port_Y: Ints  # by port number `2 l + upper`: the next port of the same switch
    failing_X: Ints
    down_s_X: Floats
    up_s_X: Floats

    def told(self, switch_N: Ints, in_port_N: Ints, out_port_N: Ints) -> tuple[Ints, Ints]:
        """The ports that the switches name for samples of these ports."""
        lie_N = self.lie_W[switch_N]
        if not lie_N.any():
            return in_port_N, out_port_N
        first = np.where(lie_N == SWAPPED, out_port_N, in_port_N)
        second = np.where(lie_N == SWAPPED, in_port_N, out_port_N)
        shifted = lie_N == SHIFTED
        return np.where(shifted, self.next_port_Y[first], first), np.where(shifted, self.next_port_Y[second], second)

    def spans(self, at_s: float, end_s: float, links: int) -> list[tuple[float, float, Bools | None]]:
        """A span cut where a link fails or comes back, each part with the directions that live (None: all)."""
        edges = np.concatenate((self.down_s_X, self.up_s_X))
        cuts = [at_s, *np.unique(edges[(edges > at_s) & (edges < end_s)]).tolist(), end_s]
        return [(begin, end, self._up(begin, links)) for begin, end in pairwise(cuts)]

    def _up(self, at_s: float, links: int) -> Bools | None:
        down = self.failing_X[(self.down_s_X <= at_s) & (at_s < self.up_s_X)]
        if not len(down):
            return None
        up_D = np.ones(2 * links, bool)
        up_D[down] = up_D[links + down] = False
        return up_D


def switch_faults(fleet: Fleet, silent: float, lying: float, failing: float, seconds: float, seed: int) -> SwitchFaults:
    """Draw them: shares of the switches and of the links between switches.

    A link that fails does so once, for a quarter of the time. A switch that is silent tells no lies.
    """
    rng = np.random.default_rng([seed, 41])
    order = rng.permutation(fleet.switches)
    silent_W = np.zeros(fleet.switches, bool)
    silent_W[order[: round(silent * fleet.switches)]] = True
    lie_W = np.zeros(fleet.switches, np.int64)
    liars = order[len(order) - round(lying * fleet.switches) :]
    lie_W[liars] = rng.integers(SWAPPED, SHIFTED + 1, len(liars))
    lie_W[silent_W] = 0
    fabric_links = np.arange(fleet.host_links, fleet.links)
    failing_X = np.sort(rng.permutation(fabric_links)[: round(failing * len(fabric_links))])
    down_s_X = np.round(seconds * rng.uniform(0.1, 0.65, len(failing_X)), 3)
    return SwitchFaults(silent_W, lie_W, _next_ports(fleet), failing_X, down_s_X, down_s_X + round(seconds / 4, 3))


def _next_ports(fleet: Fleet) -> Ints:
    ports = fleet.swports
    number = 2 * ports.link + ~ports.lower
    order = np.lexsort((ports.number, ports.switch))
    switch, following = ports.switch[order], np.roll(order, -1)
    first = np.flatnonzero(np.r_[True, switch[1:] != switch[:-1]])
    last = np.r_[first[1:] - 1, len(order) - 1]
    following[last] = order[first]
    found = np.arange(2 * fleet.links)
    found[number[order]] = number[following]
    return found
