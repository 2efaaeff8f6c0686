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

from leadline.lab.truth import read_truth
from leadline.store import read_bundle

pytestmark = pytest.mark.slow

LIMIT_S = 400.0


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
