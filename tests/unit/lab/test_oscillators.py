"""Clocks that labs give to their probers: who shares one, what is written down of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from leadline.lab.oscillators import IN_LABS, Injected, Oscillator, drawn, read_told, told
from leadline.lab.truth import TruthFile
from leadline.model.errors import DataError, UsageError

MACHINES = {"m1": ["h1", "h2"], "m2": ["h3"]}


def test_hosts_of_a_machine_share_all_but_the_offset() -> None:
    clocks = drawn(MACHINES, "stress", 3)
    assert clocks["h1"][1:] == clocks["h2"][1:]
    assert clocks["h1"].offset_ns != clocks["h2"].offset_ns
    assert clocks["h1"].rate_ppb != clocks["h3"].rate_ppb
    assert clocks["h1"][6:] == clocks["h3"][6:]
    at_N = clocks["h1"].since_raw_ns + np.arange(0, 60 * 10**9, 7 * 10**8)
    shown = {host: Oscillator(clock).shown(at_N) for host, clock in clocks.items()}
    assert np.ptp(shown["h1"] - shown["h2"]) <= 1
    assert np.ptp(shown["h1"] - shown["h3"]) > 1_000


def test_the_seed_is_all_that_they_depend_on() -> None:
    one, same, other = (drawn(MACHINES, "normal", seed) for seed in (3, 3, 4))
    assert {host: clock[:6] for host, clock in one.items()} == {host: clock[:6] for host, clock in same.items()}
    assert one["h1"][:6] != other["h1"][:6]


def test_true_clocks_are_none_and_others_are_refused() -> None:
    assert drawn(MACHINES, "true", 1) == {}
    with pytest.raises(UsageError, match=f"expected clocks {', '.join(IN_LABS)}, got 'wrong'"):
        drawn(MACHINES, "wrong", 1)


def test_the_truth_file_has_them_and_they_are_read_again(tmp_path: Path) -> None:
    clocks = drawn(MACHINES, "cold", 9)
    truth = TruthFile(tmp_path / "x.truth.json", "x", 9)
    truth.tell({"machines": {}})
    truth.tell(told("cold", clocks))
    found = json.loads(truth.path.read_text())
    assert found["clocks"]["kind"] == "cold"
    assert found["machines"] == {}
    assert read_told(found, "x") == clocks
    assert read_told({}, "x") == {}
    with pytest.raises(DataError, match="the numbers of its clock"):
        read_told({"clocks": {"hosts": {"h1": {"wrong": 1}}}}, "x")


def test_a_prober_is_told_what_the_arithmetic_here_has() -> None:
    clock = Injected(-5, 1.5, 3.0, 0.25, 300.123457, 7, 8, 9)
    assert clock.words == "-5 1.500000 3.000000 0.250000 300.123457 7 8 9"
