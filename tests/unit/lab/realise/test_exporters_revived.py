"""An exporter that has ended comes back under a number that faults know at once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.faults.application.signals import has_stopped
from leadline.lab.faults.telemetry.exporter_hangs import ExporterHangs
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import main
from leadline.lab.topology import load
from leadline.model.errors import WorldError


class Exporters:
    """Stands for a lab's telemetry: says which process is every host's exporter."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def exporter_pid(self, host: str) -> int:
        return self.pid


class Down:
    """Stands for a cluster that is not up."""

    topology = load("tiny")


def test_its_new_number_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has reaped it
    monkeypatch.setattr(main, "_fork_exporter", lambda state, host: 4242)
    children, told = {"h1": ended.pid}, []
    plan: Any = type("Plan", (), {"hosts": [type("Host", (), {"name": "h1"})]})
    main._revive_exporters(Path("/nowhere"), plan, children, lambda: told.append(json.dumps(children)))
    ended.returncode = 0  # reaped already
    assert told == ['{"h1": 4242}']


def test_one_that_is_gone_cannot_hang_and_needs_not_go_on() -> None:
    lab = RunningLab(Down(), Exporters(2**22 + 1))  # type: ignore[arg-type]
    fault = ExporterHangs(host="h1")
    with pytest.raises(WorldError, match="the exporter of h1, process 4194305, has just ended"):
        fault.start(lab)
    fault.stop(lab)


def test_what_proves_a_hang_is_counted_when_it_begins() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        lab = RunningLab(Down(), Exporters(process.pid))  # type: ignore[arg-type]
        fault = ExporterHangs(host="h1")
        assert fault.seen(lab)["h1"]["hangs"] == 0  # type: ignore[index]
        fault.start(lab)
        assert has_stopped(process.pid)
        fault.stop(lab)
        assert fault.seen(lab)["h1"]["hangs"] == 1, "also when it goes on again"  # type: ignore[index]
    finally:
        process.kill()
        process.wait()
