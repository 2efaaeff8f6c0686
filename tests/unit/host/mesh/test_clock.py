"""Stamps of the realtime clock brought to the raw one, and the clock that tests inject."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest

from leadline.lab import oscillators
from leadline.lab.oscillators import Oscillator

REAL_NS, RAW_NS = 1_795_869_243_327_682_352, 9_000_000_000_000
MS = 1_000_000


class _Injected(ctypes.Structure):
    _fields_ = [
        ("offset_ns", ctypes.c_int64),
        ("rate_ppb", ctypes.c_double),
        ("walk_ppb", ctypes.c_double),
        ("sine_ppb", ctypes.c_double),
        ("sine_s", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("since_raw_ns", ctypes.c_int64),
        ("base_ns", ctypes.c_int64),
    ]


class _Reading(ctypes.Structure):
    _fields_ = [("real", ctypes.c_int64), ("raw", ctypes.c_int64)]


class _Clock(ctypes.Structure):
    _fields_ = [
        ("readings", _Reading * 64),
        ("count", ctypes.c_uint64),
        ("base_ns", ctypes.c_int64),
        ("rest", ctypes.c_uint8 * 4096),
    ]


class Clock:
    """The functions of clock.c on one clock."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.clock_host.restype = self._lib.clock_raw_now.restype = ctypes.c_int64
        self._lib.clock_raw.restype = ctypes.c_bool
        self.state = _Clock()

    def read_at(self, real_ns: int, raw_ns: int) -> None:
        self.state.readings[self.state.count % 64] = _Reading(real_ns, raw_ns)
        self.state.count += 1

    def raw(self, real_ns: int) -> int | None:
        found = ctypes.c_int64()
        known = self._lib.clock_raw(ctypes.byref(self.state), ctypes.c_int64(real_ns), ctypes.byref(found))
        return found.value if known else None

    def inject(self, *values: float) -> None:
        self._lib.clock_inject(ctypes.byref(self.state), _Injected(*values))

    def host(self, raw_ns: int) -> int:
        return int(self._lib.clock_host(ctypes.byref(self.state), ctypes.c_int64(raw_ns)))

    def now(self) -> int:
        return int(self._lib.clock_raw_now())


@pytest.fixture
def clock(built: Path) -> Clock:
    return Clock(built / "libleadlineprobe.so")


@pytest.mark.parametrize("steering", [0, 500, -500])
def test_a_servo_that_steers_makes_no_difference(clock: Clock, steering: int) -> None:
    """500 ppm is what adjtime does at most; readings each 10 ms."""
    for number in range(100):
        raw_ns = number * 10 * MS
        clock.read_at(REAL_NS + raw_ns + raw_ns * steering // 10**6, RAW_NS + raw_ns)
    for raw_ns in range(400 * MS, 995 * MS, 1_234_567):
        real_ns = REAL_NS + raw_ns + raw_ns * steering // 10**6
        assert clock.raw(real_ns) == pytest.approx(RAW_NS + raw_ns, abs=1)


@pytest.mark.parametrize("step_ns", [3_600 * 10**9, -3_600 * 10**9, 50_000, -50_000])
def test_a_stamp_around_a_step_is_not_known(clock: Clock, step_ns: int) -> None:
    for number in range(8):
        clock.read_at(REAL_NS + number * 10 * MS + (step_ns if number >= 6 else 0), RAW_NS + number * 10 * MS)
    assert clock.raw(REAL_NS + 65 * MS + step_ns) == RAW_NS + 65 * MS
    assert clock.raw(REAL_NS + 55 * MS + (step_ns if step_ns > 0 else 0) // 2) is None
    if step_ns > 0:
        assert clock.raw(REAL_NS + 35 * MS) == RAW_NS + 35 * MS


def test_a_stamp_out_of_reach_is_not_known(clock: Clock) -> None:
    assert clock.raw(REAL_NS) is None
    for number in range(200):
        clock.read_at(REAL_NS + number * 10 * MS, RAW_NS + number * 10 * MS)
    assert clock.raw(REAL_NS + 100 * MS) is None  # older than all that is kept
    assert clock.raw(REAL_NS + 1990 * MS + 5) == RAW_NS + 1990 * MS + 5
    assert clock.raw(REAL_NS + 3000 * MS) is None


def test_an_injected_clock_never_goes_back_and_is_seeded(clock: Clock, built: Path) -> None:
    began = clock.now()
    clock.inject(-5_000, -100_000.0, 30.0, 300.0, 2.0, 7, began, 10**18)
    times = range(began, began + 3 * 10**9, 1_700_003)
    told = [clock.host(raw_ns) for raw_ns in times]
    assert all(before < after for before, after in itertools.pairwise(told))
    assert told[0] == pytest.approx(began + 10**18 - 5_000, abs=100)  # a millisecond passes on a busy machine
    assert (told[-1] - told[0]) / (times[-1] - times[0]) == pytest.approx(1 - 1e-4, abs=1e-6)
    assert [clock.host(raw_ns) for raw_ns in times[-100:]] == told[-100:]
    gains = []
    for seed in (7, 7, 8):
        other = Clock(built / "libleadlineprobe.so")
        other.inject(0, 0.0, 1000.0, 0.0, 0.0, seed)
        start = other.now()
        gains.append(other.host(start + 10**9) - start - 10**9)
    assert gains[0] == pytest.approx(gains[1], abs=1)
    assert gains[0] != gains[2]


@pytest.mark.parametrize("age_s", [0, 3, 4000])
@pytest.mark.parametrize("kind", ["normal", "stress", "cold"])
def test_an_injected_clock_runs_from_its_moment_on_and_a_lab_knows_what_it_showed(
    clock: Clock, kind: str, age_s: int
) -> None:
    drawn = oscillators.drawn({"m1": ["h1", "h2"], "m2": ["h3"]}, kind, 5)
    since = clock.now() - age_s * 10**9
    for injected in (each._replace(since_raw_ns=since) for each in drawn.values()):
        clock.inject(*injected)
        times = np.arange(since + age_s * 10**9, since + (age_s + 2) * 10**9, 9_999_991)
        told = [clock.host(raw_ns) for raw_ns in times.tolist()]
        known = Oscillator(injected)
        assert np.abs(known.shown(times) - told).max() <= 2
        assert np.abs(known.raw(np.array(told)) - times).max() <= 2
