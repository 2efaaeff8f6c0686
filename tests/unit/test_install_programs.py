"""scripts/install-programs, with apt-get, systemctl and id replaced by stubs that note how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install-programs"


class StubMachine:
    """A double of a Debian machine: a PATH of stubs, and a list of what was called."""

    def __init__(self, root: Path, *, uid: int = 0, systemd: bool = True, apt_status: int = 0) -> None:
        self.bin = root / "bin"
        self.bin.mkdir()
        self.calls = root / "calls"
        self.calls.touch()
        systemd_dir = root / "systemd"
        if systemd:
            systemd_dir.mkdir()
        self.script = root / "install-programs"
        self.script.write_text(SCRIPT.read_text().replace("/run/systemd/system", str(systemd_dir)))
        self._stub("id", f"echo {uid}")
        self._stub("systemctl", f'echo "systemctl $*" >> {self.calls}')
        self._stub("apt-get", f'echo "apt-get $* RUNLEVEL=$RUNLEVEL" >> {self.calls}; exit {apt_status}')
        for program in ("bash", "env"):
            (self.bin / program).symlink_to(f"/usr/bin/{program}")

    def _stub(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def add(self, program: str) -> None:
        self._stub(program, "true")

    def install(self, *programs: str) -> tuple[int, str, list[str]]:
        done = subprocess.run(
            ["/bin/bash", str(self.script), *programs],
            env={**os.environ, "PATH": str(self.bin), "RUNLEVEL": ""},
            check=False,
            capture_output=True,
            text=True,
            timeout=10,
        )
        return done.returncode, done.stderr, self.calls.read_text().splitlines()


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    machine = StubMachine(tmp_path)
    machine.add("curl")
    assert machine.install("curl") == (0, "", [])


def test_daemons_are_masked_while_apt_runs_and_disabled_after(tmp_path: Path) -> None:
    machine = StubMachine(tmp_path)
    machine.add("prometheus")  # somebody's own: its service is not touched
    status, _, calls = machine.install("prometheus", "prometheus-node-exporter", "curl")
    assert status == 0
    unit = "prometheus-node-exporter.service"
    assert calls == [
        f"systemctl mask --runtime --quiet {unit}",
        "apt-get install -y -qq --no-install-recommends prometheus-node-exporter curl RUNLEVEL=1",
        f"systemctl unmask --runtime --quiet {unit}",
        f"systemctl disable --quiet {unit}",
    ]


def test_without_systemd_only_apt_runs(tmp_path: Path) -> None:
    _, _, calls = StubMachine(tmp_path, systemd=False).install("prometheus")
    assert [call.split()[0] for call in calls] == ["apt-get"]


@pytest.mark.parametrize("systemd", [True, False])
def test_a_failing_apt_is_told_and_leaves_nothing_masked(tmp_path: Path, systemd: bool) -> None:
    status, said, calls = StubMachine(tmp_path, systemd=systemd, apt_status=100).install("prometheus")
    assert status == 1
    assert "could not install: prometheus" in said
    assert [call for call in calls if " update" in call]
    assert any("unmask" in call for call in calls) is systemd


def test_without_root_it_says_what_to_do(tmp_path: Path) -> None:
    status, said, calls = StubMachine(tmp_path, uid=1000).install("prometheus-node-exporter")
    assert status == 1
    assert "apt-get install --no-install-recommends prometheus-node-exporter" in said
    assert calls == []
