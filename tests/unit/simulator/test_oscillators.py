"""Simulated clocks: strictly increasing, seeded, and of one machine where hosts share one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.simulator.oscillators import HARSH, NORMAL, S_NS, ClockStep, Oscillators


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([NORMAL, HARSH]))
def test_clocks_strictly_increase(seed: int, nature: object) -> None:
    clocks = Oscillators(2, 5, nature, seed)  # type: ignore[arg-type]
    at = clocks.start_ns + np.sort(np.random.default_rng(seed).choice(5 * S_NS, 2_000, replace=False))
    shown = clocks.shown(np.zeros(len(at), np.int64), at)
    far = np.diff(at) > 1  # two readings within a nanosecond may be rounded to one
    assert (np.diff(shown)[far] > 0).all()
    assert (shown == Oscillators(2, 5, nature, seed).shown(np.zeros(len(at), np.int64), at)).all()  # type: ignore[arg-type]


def test_hosts_of_one_machine_share_all_but_the_offset() -> None:
    clocks = Oscillators(3, 60, NORMAL, 1, machine_H=np.array([0, 0, 1]))
    at = clocks.start_ns + np.arange(60, dtype=np.int64) * S_NS
    first, second, other = (clocks.shown(np.full(60, host), at) for host in range(3))
    assert np.ptp(first - second) <= 1
    assert abs((first - second)[0]) > 1_000
    assert np.ptp(first - other) > 10_000


def test_a_step_is_one() -> None:
    clocks = Oscillators(2, 20, NORMAL, 1, steps=[ClockStep(1, 10.0, -50_000)])
    plain = Oscillators(2, 20, NORMAL, 1)
    at = clocks.start_ns + np.array([9, 11], np.int64) * S_NS
    host = np.ones(2, np.int64)
    assert (clocks.shown(host, at) - plain.shown(host, at)).tolist() == [0, -50_000]


def test_wander_is_as_large_as_it_is_said() -> None:
    clocks = Oscillators(400, 100, NORMAL, 2)
    at = clocks.start_ns + np.array([0, 1, 99, 100], np.int64) * S_NS
    shown = np.array([clocks.shown(np.arange(400), np.full(400, one)) for one in at])
    moved = ((shown[3] - shown[2]) - (shown[1] - shown[0])) / S_NS  # of frequency within 99 s
    assert 2e-8 < moved.std() < 3e-7  # the walk makes 3e-8 of it, temperature the rest
