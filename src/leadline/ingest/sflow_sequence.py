"""What was lost on the way, from the numbers that sFlow agents count their datagrams and samples with.

    datagrams   per agent and sub-agent: 7 8 [9 10] 11      two lost
    samples     per source of a switch, and of each kind: the same, plus `drops`, which the switch counts itself

A gap is counted when the number behind it comes. A datagram that was only overtaken comes later and is counted as
`late`, so that the true loss is `datagrams` less `late`. One with a number and content seen just before is a copy: its
rows would count twice, so it is passed over. Where a number falls back, the agent began anew and nothing is counted.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadline.wire.sflow import kernels
from leadline.wire.sflow.datagrams import SflowBatch, Switch

AGENTS_MAX = 10_000  # some kB each
SOURCES_MAX = 200_000  # ports that sample, all switches; some 200 bytes each
WINDOW = 64  # datagrams that may overtake one another
POOL_EVERY_NS = 10**9  # how often a source's pool is told

_WRAP = 1 << 32
Agent = str  # address and sub-agent of an agent
Source = tuple[Agent, int, int, int]  # agent, kind, source type, source index


@dataclass(slots=True)
class _Heard:
    """One agent: its newest datagram, and the hashes of the last ones by number."""

    sequence: int
    uptime_ms: int
    recent: OrderedDict[int, int] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class _SourceSeen:
    sequence: int
    drops: int
    reported_ns: int = 0


class Sequences:
    """The numbers seen so far. Not for several threads at once. The agent or source heard longest ago makes room."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Agent, _Heard] = OrderedDict()
        self._sources: OrderedDict[Source, _SourceSeen] = OrderedDict()

    def datagram(self, agent: Agent, sequence: int, uptime_ms: int, content: int) -> tuple[bool, int, bool]:
        """One datagram; `content` is a hash of its bytes. Returns: (whether it is new, how many were lost, late)."""
        heard = self._agents.get(agent)
        if heard is None:
            if len(self._agents) >= AGENTS_MAX:
                self._agents.popitem(last=False)
            heard = self._agents[agent] = _Heard(sequence, uptime_ms)
            lost, late = 0, False
        else:
            self._agents.move_to_end(agent)
            if heard.recent.get(sequence) == content:
                return False, 0, False
            lost, late = _gap(heard, sequence, uptime_ms)
            if not late:
                heard.sequence, heard.uptime_ms = sequence, uptime_ms
        heard.recent[sequence] = content
        while len(heard.recent) > WINDOW:
            heard.recent.popitem(last=False)
        return True, lost, late

    def samples(
        self, batch: SflowBatch, agent_D: list[Agent], in_order_D: NDArray[np.bool_], arrived_ns: NDArray[np.int64]
    ) -> tuple[Tally[str], list[tuple[int, int, int, int, int]]]:
        """The samples of a batch, but those of datagrams that came late or twice.

        Returns: losses by reason (`samples`, `switch`), and what sources say of their pools at most once a second:
        (datagram, ifIndex, pool, drops, time in ns).
        """
        lost: Tally[str] = Tally()
        pools: list[tuple[int, int, int, int, int]] = []
        rows = batch.samples[in_order_D[batch.samples[:, kernels.S_DATAGRAM]]]
        for group in _by_source(rows, agent_D):
            last = rows[group[-1]]
            datagram = int(last[kernels.S_DATAGRAM])
            kind, type_, index = last[[kernels.KIND, kernels.SOURCE_TYPE, kernels.SOURCE_INDEX]].tolist()
            seen = self._source((agent_D[datagram], kind, type_, index), rows[group[0]])
            lost["samples"] += _missing(seen.sequence, rows[group, kernels.S_SEQUENCE])
            seen.sequence = int(last[kernels.S_SEQUENCE])
            if kind in (kernels.COUNTERS, kernels.COUNTERS_EXPANDED):
                continue
            lost["switch"] += _grown(seen.drops, rows[group, kernels.DROPS])
            seen.drops = int(last[kernels.DROPS])
            at_ns = int(arrived_ns[datagram])
            if kind != kernels.DISCARDED and type_ == 0 and at_ns - seen.reported_ns >= POOL_EVERY_NS:
                seen.reported_ns = at_ns
                pools.append((datagram, index, int(last[kernels.POOL]), seen.drops, at_ns))
        return lost, pools

    def _source(self, source: Source, first: NDArray[np.int64]) -> _SourceSeen:
        seen = self._sources.get(source)
        if seen is None:
            if len(self._sources) >= SOURCES_MAX:
                self._sources.popitem(last=False)
            before = (int(first[kernels.S_SEQUENCE]) - 1) % _WRAP
            seen = self._sources[source] = _SourceSeen(before, int(first[kernels.DROPS]))
        else:
            self._sources.move_to_end(source)
        return seen


def switches_of(
    pools: Iterable[tuple[int, int, int, int, int]], switch_D: list[Switch | None]
) -> list[tuple[Switch, int, int, int, int]]:
    """What `Sequences.samples` says of pools, with the switch in place of the datagram."""
    return [(switch, *rest) for datagram, *rest in pools if (switch := switch_D[datagram]) is not None]  # type: ignore[misc]


def _gap(heard: _Heard, sequence: int, uptime_ms: int) -> tuple[int, bool]:
    """How many datagrams are missing before this one, and whether it is one that was overtaken."""
    ahead = (sequence - heard.sequence) % _WRAP
    behind = (heard.sequence - sequence) % _WRAP
    if uptime_ms + 1000 < heard.uptime_ms:  # it began anew; a second is for clocks that are read out of order
        heard.recent.clear()
        return 0, False
    if 0 < behind <= WINDOW and sequence not in heard.recent:
        return 0, True
    if 0 < ahead < _WRAP // 2:
        return ahead - 1, False
    heard.recent.clear()
    return 0, False


def _by_source(rows: NDArray[np.int64], agent_D: list[Agent]) -> list[NDArray[np.intp]]:
    """Places of the rows of each source, in the order they came."""
    if not len(rows):
        return []
    agents = {agent: number for number, agent in enumerate(dict.fromkeys(agent_D))}
    agent_S = np.array([agents[agent] for agent in agent_D], np.int64)[rows[:, kernels.S_DATAGRAM]]
    columns = [rows[:, kernels.SOURCE_INDEX], rows[:, kernels.SOURCE_TYPE], rows[:, kernels.KIND], agent_S]
    order = np.lexsort(columns)  # stable: rows of one source stay in order
    differs = np.zeros(len(rows), np.bool_)
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    return np.split(order, np.flatnonzero(differs))


def _missing(before: int, number_N: NDArray[np.int64]) -> int:
    """How many numbers are missing among `before` and these, which wrap; a step back is a new beginning."""
    steps = np.diff(number_N, prepend=before) % _WRAP
    return int((steps[(steps > 1) & (steps < _WRAP // 2)] - 1).sum())


def _grown(before: int, total_N: NDArray[np.int64]) -> int:
    """By how much a total that wraps grew; a step back is a new beginning."""
    steps = np.diff(total_N, prepend=before) % _WRAP
    return int(steps[steps < _WRAP // 2].sum())
