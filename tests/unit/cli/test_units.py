"""Numbers as people read them, and times of a query."""

from __future__ import annotations

import pytest

from leadline.cli.sql import _with_times
from leadline.cli.words.units import duration, figures, in_unit


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (5.07e-4, "507 µs"), (0.0123, "12.3 ms"), (1.3, "1.3 s"), (100, "100 s"), (240, "4 min"),
     (7500, "2 h 5 min"), (3e-9, "3 ns")],
)  # fmt: skip
def test_a_duration_has_the_unit_that_fits(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(1.86e-6, "GB/s", "1.86 kB/s"), (12.5, "GB/s", "12.5 GB/s"),
     (2061.4, "tokens/s", "2,061 tokens/s"), (0.5, "s", "500 ms")],
)  # fmt: skip
def test_a_value_is_said_in_its_unit_without_an_exponent(value: float, unit: str, said: str) -> None:
    assert in_unit(value, unit) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (2330.0, "2,330"), (1.86e-6, "0.00000186"), (200.0, "200"), (12.44, "12.4")]
)
def test_three_figures(value: float, said: str) -> None:
    assert figures(value) == said


def test_times_of_a_query_are_read_as_times_and_lengths_are_not() -> None:
    time_ns = 1_795_206_099_429_676_853
    rows = [
        {"time_ns": time_ns, "took_ns": 5, "end_ns": None, "n": time_ns},
        {"time_ns": None, "took_ns": 7, "end_ns": None, "n": 1},
    ]
    first, second = _with_times(rows, ["time_ns", "took_ns", "end_ns", "n"])
    assert first == {"time_ns": "2026-11-20 20:21:39.429676Z", "took_ns": 5, "end_ns": None, "n": time_ns}
    assert second["time_ns"] is None
