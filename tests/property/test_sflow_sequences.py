"""Laws of the numbers that sFlow agents count with: many at once are taken as one after the other."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import sflow as oracle

from leadline.ingest import sflow_sequence
from leadline.ingest.sflow_sequence import Sequences
from leadline.wire.sflow.datagrams import decode_sflow

WRAP = 2**32
AGENTS = ["10.0.0.1/0", "10.0.0.2/0", "10.0.0.3/7"]

# How a number goes on from the one before: mostly by one; sometimes a gap, a step back, a repetition, a new beginning.
steps = st.sampled_from([1] * 12 + [2, 5, 0, -1, -3, -70, 2**31])
datagram_lists = st.lists(
    st.lists(st.tuples(st.integers(0, 2), steps, st.sampled_from([100] * 8 + [0, -500, -2000]), st.integers(0, 1)),
             max_size=80),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(batches=datagram_lists, begin=st.sampled_from([0, 1000, WRAP - 20]))
def test_datagrams_of_a_batch_are_taken_as_one_by_one(batches: Any, begin: int) -> None:
    together, alone = Sequences(), Sequences()
    sequence, uptime = dict.fromkeys(range(3), begin), dict.fromkeys(range(3), 10_000)
    for batch in batches:
        rows = []
        for agent, step, ms, content in batch:
            sequence[agent] = (sequence[agent] + step) % WRAP
            uptime[agent] = max(0, uptime[agent] + ms)
            rows.append((agent, sequence[agent], uptime[agent], content))
        told = [alone.datagram(AGENTS[agent], *rest) for agent, *rest in rows]
        table = np.array(rows, np.int64).reshape(-1, 4)
        lost, late, copies = together.datagrams(
            AGENTS, table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.uint64)
        )
        assert lost == sum(gap for _, gap, _ in told)
        assert late.tolist() == [is_late for _, _, is_late in told]
        assert copies.tolist() == [not new for new, _, _ in told]
        assert list(together._agents) == list(alone._agents), "who was heard longest ago makes room first"
        assert together._agents == alone._agents


sample_lists = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["flow", "wide", "dropped", "counters"]), st.integers(1, 3),
                       steps, st.integers(-1, 3)), max_size=40),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(batches=sample_lists, begin=st.sampled_from([0, WRAP - 3]))
def test_samples_are_counted_for_each_source(batches: Any, begin: int) -> None:
    """Beside the plain rules, applied one sample after the other."""
    sequences = Sequences()
    seen: dict[Any, tuple[int, int]] = {}
    pool_told: dict[Any, int] = defaultdict(int)
    numbers: dict[Any, int] = defaultdict(lambda: begin)
    drops: dict[Any, int] = defaultdict(lambda: begin)
    for number, batch in enumerate(batches):
        expected, datagrams, last = {"samples": 0, "switch": 0}, [], {}
        at_ns = (number + 1) * 600_000_000  # a pool is told in every second batch at most
        for agent, kind, index, step, more in batch:
            source = (agent, kind, index)
            numbers[source] = (numbers[source] + step) % WRAP
            drops[source] = (drops[source] + more) % WRAP
            datagrams.append(oracle.datagram(f"10.0.0.{agent + 1}", [_sample(source, numbers, drops)]))
            counts = kind == "counters"
            before = seen.get(source, ((numbers[source] - 1) % WRAP, drops[source]))
            gap, grown = (numbers[source] - before[0]) % WRAP, (drops[source] - before[1]) % WRAP
            expected["samples"] += gap - 1 if 1 < gap < WRAP // 2 else 0
            expected["switch"] += grown if not counts and grown < WRAP // 2 else 0
            seen[source] = numbers[source], drops[source]
            last[source] = len(datagrams) - 1
        pools = []
        for source, place in last.items():
            if source[1] in ("flow", "wide") and at_ns - pool_told[source] >= 10**9:
                pool_told[source] = at_ns
                pools.append((place, source[2], 77, drops[source], at_ns))
        read = decode_sflow(b"".join(datagrams), np.cumsum([len(one) for one in datagrams], dtype=np.int64))
        agents, agent_D = read.agents_told()
        names = [f"{address}/{sub_agent}" for address, sub_agent in agents]
        in_order, arrived_ns = np.ones(len(datagrams), np.bool_), np.full(len(datagrams), at_ns)
        lost, told = sequences.samples(read, names, agent_D, in_order, arrived_ns)
        assert {key: lost[key] for key in expected} == expected
        assert sorted(told) == sorted(pools)


def _sample(source: Any, numbers: Any, drops: Any) -> bytes:
    _, kind, index = source
    if kind == "counters":
        return oracle.counter_sample(numbers[source], index, [])
    if kind == "dropped":
        return oracle.discarded(numbers[source], index, drops[source], 1, 2, 259, [])
    return oracle.flow_sample(
        numbers[source], index, 100, 77, drops[source], (0, 1), (0, 2), [], expanded=kind == "wide"
    )


def test_the_source_heard_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sflow_sequence, "SOURCES_MAX", 16)
    sequences = Sequences()

    def lost(*indexes: int, number: int) -> int:
        samples = [oracle.counter_sample(number, index, []) for index in indexes]
        read = decode_sflow(whole := oracle.datagram("10.0.0.1", samples), [len(whole)])
        found, _ = sequences.samples(read, ["a"], np.zeros(1, np.int64), np.ones(1, np.bool_), np.zeros(1, np.int64))
        return found["samples"]

    assert lost(*range(1, 17), number=1) == 0
    assert lost(*range(1, 9), number=2) == 0
    assert lost(17, number=1) == 0
    assert len(sequences._sources) == 15, "an eighth made room"
    assert lost(*range(1, 9), number=5) == 8 * 2, "those heard since are remembered"
    assert lost(*range(100, 140), number=1) == 0
    assert lost(*range(100, 140), number=3) == 40, "more than may be remembered: for a batch they are"
