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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.wire.samples import Int64s, UInt64s
from leadline.wire.sflow import kernels
from leadline.wire.sflow.datagrams import SflowBatch, Switch

AGENTS_MAX = 10_000  # some kB each
SOURCES_MAX = 200_000  # ports that sample, all switches; some 200 bytes each
WINDOW = 64  # datagrams that may overtake one another
POOL_EVERY_NS = 10**9  # how often a source's pool is told
RESTART_MS = 1000  # an uptime that falls by more is a new beginning; less is a clock that was read out of order

_WRAP = 1 << 32
Agent = str  # address and sub-agent of an agent
Source = tuple[Agent, int, int, int]  # agent, kind, source type, source index


@dataclass(slots=True)
class _Heard:
    """One agent: its newest datagram, and the hashes of the last ones by number."""

    sequence: int
    uptime_ms: int
    recent: OrderedDict[int, int] = field(default_factory=OrderedDict)


class _Sources:
    """What was seen last of each source, in columns; a source is a place in them."""

    def __init__(self) -> None:
        self._place: dict[Source, int] = {}
        self.sequence = np.empty(0, np.int64)
        self.drops = np.empty(0, np.int64)
        self.reported_ns = np.empty(0, np.int64)
        self._heard = np.empty(0, np.int64)  # the batch that it was heard in
        self._batch = 0

    def __len__(self) -> int:
        return len(self._place)

    def of(self, sources: Sequence[Source], sequence_S: Int64s, drops_S: Int64s) -> Int64s:
        """The places of some sources, each once; one that is new begins as if these had come in order."""
        self._batch += 1
        place_S = np.array([self._place.get(source, -1) for source in sources], np.int64)
        new = np.flatnonzero(place_S < 0)
        if len(new):
            if self._place and len(self._place) + len(new) > SOURCES_MAX:
                self._heard[place_S[place_S >= 0]] = self._batch  # these stay
                self._make_room(len(new))
                return self.of(sources, sequence_S, drops_S)
            first = len(self._place)
            place_S[new] = np.arange(first, first + len(new))
            self._place.update((sources[at], first + number) for number, at in enumerate(new.tolist()))
            while first + len(new) > len(self.sequence):
                self._grow()
            self.sequence[place_S[new]] = (sequence_S[new] - 1) % _WRAP
            self.drops[place_S[new]] = drops_S[new]
            self.reported_ns[place_S[new]] = 0
        self._heard[place_S] = self._batch
        return place_S

    def _grow(self) -> None:
        size = max(1024, 2 * len(self.sequence))
        for name in ("sequence", "drops", "reported_ns", "_heard"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, np.zeros(size - len(column), np.int64)))

    def _make_room(self, more: int) -> None:
        """Forget the sources heard longest ago: an eighth of them, so that this is rare, or as many as are needed."""
        gone = max(more, SOURCES_MAX // 8)
        kept = np.sort(np.argsort(self._heard[: len(self._place)], kind="stable")[gone:])
        sources = list(self._place)  # in the order of their places
        self._place = {sources[at]: number for number, at in enumerate(kept.tolist())}
        for name in ("sequence", "drops", "reported_ns", "_heard"):
            column = getattr(self, name)
            column[: len(kept)] = column[kept]


class Sequences:
    """The numbers seen so far. Not for several threads at once. The agent or source heard longest ago makes room."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Agent, _Heard] = OrderedDict()
        self._sources = _Sources()

    def datagrams(
        self,
        agents: Sequence[Agent],
        agent_D: Int64s,
        sequence_D: Int64s,
        uptime_ms_D: Int64s,
        content_D: UInt64s,
    ) -> tuple[int, NDArray[np.bool_], NDArray[np.bool_]]:
        """D datagrams, as `datagram` takes one; `agent_D` is the place of each one's agent in `agents`.

        Returns: (how many were lost, which came late, which are copies).
        """
        late_D, copy_D = np.zeros(len(agent_D), np.bool_), np.zeros(len(agent_D), np.bool_)
        if not len(agent_D):
            return 0, late_D, copy_D
        order = _in_places(agent_D, len(agents))
        number_D, sequences, uptimes = agent_D[order], sequence_D[order], uptime_ms_D[order]
        follows = np.zeros(len(order), np.bool_)  # upon the one before it
        follows[1:] = (number_D[1:] == number_D[:-1]) & _follows(
            sequences[:-1], uptimes[:-1], sequences[1:], uptimes[1:]
        )
        bounds = [0, *(np.flatnonzero(number_D[1:] != number_D[:-1]) + 1).tolist(), len(order)]
        breaks = np.cumsum(~follows)
        lost = 0
        for begin, end in sorted(pairwise(bounds), key=lambda each: int(order[each[1] - 1])):  # the last heard last
            agent = agents[int(number_D[begin])]
            numbers, times = sequences[begin:end].tolist(), uptimes[begin:end].tolist()
            content = content_D[order[begin:end]].tolist()
            if breaks[end - 1] == breaks[begin] and self._in_order(agent, numbers, times, content):
                continue
            for at, told in enumerate(zip(numbers, times, content, strict=True), begin):
                new, gap, late = self.datagram(agent, *told)
                lost += gap
                late_D[order[at]], copy_D[order[at]] = late, not new
        return lost, late_D, copy_D

    def _in_order(self, agent: Agent, numbers: list[int], uptimes_ms: list[int], content: list[int]) -> bool:
        """Take datagrams of which each follows upon the one before it; False if the first does not follow upon what was
        heard before: nothing was taken then."""
        heard = self._agents.get(agent)
        if heard is None or not _follows(heard.sequence, heard.uptime_ms, numbers[0], uptimes_ms[0]):
            return False
        self._agents.move_to_end(agent)
        heard.sequence, heard.uptime_ms = numbers[-1], uptimes_ms[-1]
        heard.recent.update(zip(numbers[-WINDOW:], content[-WINDOW:], strict=True))
        while len(heard.recent) > WINDOW:
            heard.recent.popitem(last=False)
        return True

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
        self,
        batch: SflowBatch,
        agents: Sequence[Agent],
        agent_D: Int64s,
        in_order_D: NDArray[np.bool_],
        arrived_ns: Int64s,
    ) -> tuple[Tally[str], list[tuple[int, int, int, int, int]]]:
        """The samples of a batch, but those of datagrams that came late or twice.

        Returns: losses by reason (`samples`, `switch`), and what sources say of their pools at most once a second:
        (datagram, ifIndex, pool, drops, time in ns).
        """
        rows = batch.samples
        if not in_order_D.all():
            rows = rows[in_order_D[rows[:, kernels.S_DATAGRAM]]]
        if not len(rows):
            return Tally(), []
        rows, first, last = _by_source(rows, agent_D)
        heads = rows[first]
        names = zip(
            [agents[number] for number in agent_D[heads[:, kernels.S_DATAGRAM]].tolist()],
            *(heads[:, column].tolist() for column in (kernels.KIND, kernels.SOURCE_TYPE, kernels.SOURCE_INDEX)),
            strict=True,
        )
        seen = self._sources
        place = seen.of(list(names), heads[:, kernels.S_SEQUENCE], heads[:, kernels.DROPS])
        steps = _steps(rows[:, kernels.S_SEQUENCE], first, seen.sequence[place])
        lost = Tally({"samples": int((steps[(steps > 1) & (steps < _WRAP // 2)] - 1).sum())})
        tails = rows[last]
        seen.sequence[place] = tails[:, kernels.S_SEQUENCE]
        grown = _steps(rows[:, kernels.DROPS], first, seen.drops[place])
        flows = ~np.isin(rows[:, kernels.KIND], (kernels.COUNTERS, kernels.COUNTERS_EXPANDED))
        lost["switch"] = int(grown[flows & (grown < _WRAP // 2)].sum())
        seen.drops[place] = tails[:, kernels.DROPS]
        at_ns = arrived_ns[tails[:, kernels.S_DATAGRAM]]
        telling = np.isin(tails[:, kernels.KIND], (kernels.FLOW, kernels.FLOW_EXPANDED))
        telling &= (tails[:, kernels.SOURCE_TYPE] == 0) & (at_ns - seen.reported_ns[place] >= POOL_EVERY_NS)
        seen.reported_ns[place[telling]] = at_ns[telling]
        columns = [tails[telling, n] for n in (kernels.S_DATAGRAM, kernels.SOURCE_INDEX, kernels.POOL, kernels.DROPS)]
        return lost, list(zip(*(column.tolist() for column in columns), at_ns[telling].tolist(), strict=True))


def switches_of(
    pools: Iterable[tuple[int, int, int, int, int]], switch_D: list[Switch | None]
) -> list[tuple[Switch, int, int, int, int]]:
    """What `Sequences.samples` says of pools, with the switch in place of the datagram."""
    return [(switch, *rest) for datagram, *rest in pools if (switch := switch_D[datagram]) is not None]  # type: ignore[misc]


def _gap(heard: _Heard, sequence: int, uptime_ms: int) -> tuple[int, bool]:
    """How many datagrams are missing before this one, and whether it is one that was overtaken."""
    ahead = (sequence - heard.sequence) % _WRAP
    behind = (heard.sequence - sequence) % _WRAP
    if uptime_ms + RESTART_MS < heard.uptime_ms:  # it began anew
        heard.recent.clear()
        return 0, False
    if 0 < behind <= WINDOW and sequence not in heard.recent:
        return 0, True
    if 0 < ahead < _WRAP // 2:
        return ahead - 1, False
    heard.recent.clear()
    return 0, False


def _follows(before: Any, before_ms: Any, sequence: Any, uptime_ms: Any) -> Any:
    """Whether datagrams have the numbers behind others, and nobody began anew: nothing is lost, late or a copy."""
    return ((sequence - before) % _WRAP == 1) & (uptime_ms + RESTART_MS >= before_ms)


def _by_source(rows: NDArray[np.int64], agent_D: Int64s) -> tuple[NDArray[np.int64], Int64s, Int64s]:
    """The rows with those of each source together, in the order they came; where each source begins, and where it
    ends (its last row)."""
    index, type_, kind = (rows[:, n] for n in (kernels.SOURCE_INDEX, kernels.SOURCE_TYPE, kernels.KIND))
    agent = agent_D[rows[:, kernels.S_DATAGRAM]]
    if int(type_.max()) < 256 and int(agent.max()) < 1 << 20:  # one word of 20, 3, 8 and 32 bits: others are made up
        found = pa.array(agent << 43 | kind << 40 | type_ << 32 | index).dictionary_encode()
        columns = [found.indices.to_numpy()]
        order = _in_places(columns[0], len(found.dictionary))
    else:
        columns = [index, type_, kind, agent]
        order = np.lexsort(columns)
    differs = np.ones(len(rows), np.bool_)
    differs[1:] = False
    for column in columns:
        ordered = column[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    first = np.flatnonzero(differs)
    return rows[order], first, np.append(first[1:], len(rows)) - 1


def _in_places(place_N: NDArray[Any], places: int) -> NDArray[np.intp]:
    """The order that brings those of one place together, as they came. numpy sorts 16 bits in linear time."""
    return np.argsort(place_N.astype(np.uint16) if places <= 1 << 16 else place_N, kind="stable")


def _steps(number_N: Int64s, first: Int64s, before: Int64s) -> Int64s:
    """By how much numbers that wrap grew, from one row of a source to the next; `before`: of each source, what it was
    before its first."""
    earlier = np.empty_like(number_N)
    earlier[1:] = number_N[:-1]
    earlier[first] = before
    steps: Int64s = (number_N - earlier) % _WRAP
    return steps
