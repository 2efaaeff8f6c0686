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
from leadline.model.errors import UsageError
from leadline.store.bundle import read_bundle

pytestmark = pytest.mark.slow

LIMIT_S = 400.0
PARALLEL = 3
STATE = state_root()


@pytest.fixture(autouse=True)
def no_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What analyses would conclude of the cells is not asked here, and costs more than the cells."""
    monkeypatch.setenv("LEADLINE_RUNNER__ENABLED", "false")


def command(directory: Path, name: str) -> list[str]:
    """The quick slice in labs of this test's own: on two hosts, which leave the cores to three cells at a time. So what
    is left after the first has ended is one round."""
    argv = [sys.executable, "-m", "leadline.cli.main", "lab", "matrix", str(directory), "--quick", "--topology", "tiny"]
    return [*argv, "--parallel", str(PARALLEL), "--name", name, "--output", "json"]


def test_the_quick_slice_is_killed_interrupted_and_goes_on(tmp_path: Path) -> None:
    """One directory all the way: kill -9 while cells run, Ctrl-C between the first and the last, then to its end."""
    directory, argv = tmp_path / "matrix", command(tmp_path / "matrix", f"mx{os.getpid()}n")
    killed(directory, argv, [STATE / f"mx{os.getpid()}n{number}" / "lab.json" for number in range(1, PARALLEL + 1)])
    cut = interrupted(directory, argv)
    last = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert last.returncode == 0, last.stderr
    assert f"{cut} of 4 cells are there already" in last.stderr
    assert "left (" in last.stderr
    whole = json.loads(last.stdout)
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


def killed(directory: Path, argv: list[str], records: list[Path]) -> None:
    """kill -9 while cells run: the kernel tells them to end, and nothing of their labs is left."""
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT_S
    while not records[0].exists() and first.poll() is None:
        assert time.monotonic() < deadline, "no lab came up"
        time.sleep(0.1)
    busy = rf"another matrix \(process {first.pid}\) is at work"
    with pytest.raises(UsageError, match=busy), Journal(directory).claim(0.0):
        pass
    first.kill()
    first.communicate(timeout=30)
    while any(record.exists() for record in records):
        assert time.monotonic() < deadline, "a cell goes on"
        time.sleep(0.2)
    with Journal(directory).claim(60.0):  # the cells have ended, too
        assert not list(directory.glob("*.leadline"))


def interrupted(directory: Path, argv: list[str]) -> int:
    """Ctrl-C as soon as a cell has ended. Returns: how many bundles there are."""
    journal = directory / "matrix.jsonl"
    before = journal.stat().st_size if journal.exists() else 0
    second = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT_S
    while second.poll() is None and not (journal.exists() and journal.stat().st_size > before):
        assert time.monotonic() < deadline, "no cell ended"
        time.sleep(0.2)
    second.send_signal(signal.SIGINT)
    told, said = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 128 + signal.SIGINT
    cut = int(json.loads(told)["bundles"])
    assert 1 <= cut < 4, f"interrupted between the first cell and the last: {said}"
    return cut
