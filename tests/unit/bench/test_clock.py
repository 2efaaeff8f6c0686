"""Parts of bench.clock and bench.prober that need no other program: names of figures, a clock that is steered."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from bench import clock
from bench.clock_parts import daemons
from bench.clock_parts.hosts import missing
from bench.figures import Figure

from leadline.host.mesh.prober import usable_program
from leadline.model.errors import WorldError


def test_a_clock_that_is_steered_by_a_constant_offset_ends_there() -> None:
    """An exchange that is always 500 ns off makes a clock that is 500 ns off, and not sooner than the servo allows."""
    found = daemons.steered(np.full(400, 500.0))
    assert abs(found[0]) < 100
    assert found[-1] == pytest.approx(-500, abs=5)


def test_of_daemons_that_cannot_run_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "missing", lambda: "needs root")
    found = {each.figure: each for each in clock.beside(True, 1.0)}
    assert {"ratio_chrony", "ratio_ptp4l", "prober_p99_idle_ns"} <= found.keys()
    assert {(each.value, each.reason) for each in found.values()} == {(None, "needs root")}


def test_a_ratio_is_the_lesser_one_and_who_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "missing", lambda: "")

    class Nowhere:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Nowhere:
            return self

        def __exit__(self, *_: object) -> None: ...

        def load(self, ratio: float) -> Nowhere:
            Nowhere.ratio = ratio  # type: ignore[attr-defined]
            return self

    def ptp4l(*_: object) -> np.ndarray:
        raise WorldError("needs ptp4l")

    monkeypatch.setattr(clock, "Hosts", Nowhere)
    monkeypatch.setattr(daemons, "prober", lambda *_: np.full(9, 50.0 if not Nowhere.ratio else 100.0))  # type: ignore[attr-defined]
    monkeypatch.setattr(daemons, "chrony", lambda *_: np.full(9, 500.0))
    monkeypatch.setattr(daemons, "ptp4l", ptp4l)
    found: dict[str, Figure] = {each.figure: each for each in clock.beside(True, 1.0)}
    assert found["ratio_chrony"].value == 5.0
    assert (found["ratio_ptp4l"].value, found["ratio_ptp4l"].reason) == (None, "needs ptp4l")


@pytest.mark.lab
@pytest.mark.skipif(bool(missing()), reason="needs root and ip")
def test_what_a_small_mesh_costs_is_measured() -> None:
    """Three hosts, two seconds: each probes the two others."""
    try:
        usable_program()
    except WorldError as error:
        pytest.skip(str(error))
    ran = subprocess.run(
        [sys.executable, "-m", "bench.prober", "--hosts", "3", "--seconds", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "pairs_per_s" in ran.stdout, ran.stdout + ran.stderr
