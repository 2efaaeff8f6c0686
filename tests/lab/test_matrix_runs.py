"""A quick slice of the matrix: real runs, real bundles; interrupted, it goes on with what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.lab.matrix.journal import Journal
from leadline.lab.state import state_root
from leadline.lab.truth import read_truth
from leadline.store.bundle import read_bundle

pytestmark = pytest.mark.slow

LIMIT_S = 400.0
STATE = state_root()


@pytest.fixture(autouse=True)
def no_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What analyses would conclude of the cells is not asked here, and costs more than the cells."""
    monkeypatch.setenv("LEADLINE_RUNNER__ENABLED", "false")


def command(directory: Path) -> list[str]:
    """The quick slice, two cells at a time, in labs of this test's own."""
    name = f"mx{os.getpid()}n"
    argv = [sys.executable, "-m", "leadline.cli.main", "lab", "matrix", str(directory), "--quick", "--parallel", "2"]
    return [*argv, "--name", name, "--output", "json"]


def test_the_quick_slice_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "matrix"
    first = subprocess.Popen(command(directory), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT_S
    while not (directory / "matrix.jsonl").exists() and first.poll() is None:
        assert time.monotonic() < deadline, "no cell ended"
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    told, _ = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 128 + signal.SIGINT
    cut = json.loads(told)
    assert 1 <= cut["bundles"] < 4, "interrupted between the first cell and the last"

    second = subprocess.run(command(directory), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert second.returncode == 0, second.stderr
    assert f"{cut['bundles']} of 4 cells are there already" in second.stderr
    assert "left (" in second.stderr
    whole = json.loads(second.stdout)
    assert (whole["bundles"], whole["left"], whole["failed"]) == (4, 0, [])
    for each in whole["faults"]:
        assert each["unproven"] == 0, each

    names = {path.name.removesuffix(".leadline") for path in directory.glob("*.leadline")}
    assert len(names) == 4
    for name in names:
        faults, seed, scenario = read_truth(directory / f"{name}.truth.json")
        assert (seed, scenario) == (1, name)
        with read_bundle(directory / f"{name}.leadline") as bundle:
            assert bundle.manifest.rows()["collective"] > 0
            for fault in faults:
                assert bundle.manifest.from_ns < fault.onset_ns < bundle.manifest.to_ns


def test_a_killed_matrix_takes_its_cells_along_and_the_next_goes_on(tmp_path: Path) -> None:
    """kill -9 while a cell runs: the kernel tells the cell to end, and nothing of its lab is left."""
    directory, name = tmp_path / "matrix", f"mk{os.getpid()}n"
    argv = [*command(directory)[:-4], "--name", name, "--first", "1"]
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT_S
    while not (STATE / f"{name}1" / "lab.json").exists() and first.poll() is None:
        assert time.monotonic() < deadline, "no lab came up"
        time.sleep(0.1)
    other = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (other.returncode, f"another matrix (process {first.pid}) is at work" in other.stderr) == (2, True)
    first.kill()
    first.communicate(timeout=30)
    while (STATE / f"{name}1" / "lab.json").exists():
        assert time.monotonic() < deadline, "its cell goes on"
        time.sleep(0.2)
    with Journal(directory).claim(60.0):  # the cell has ended, too
        assert not list(directory.glob("*.leadline"))
    second = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert second.returncode == 0, second.stderr
    assert len(list(directory.glob("*.leadline"))) == 1
