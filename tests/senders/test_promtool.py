"""What Prometheus' own linter says of the page of `/metrics`, in which every family has samples."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.server.metrics.standing_rows import read_verdicts, text_of


def test_promtool_finds_nothing(tmp_path: Path) -> None:
    with read_verdicts(tmp_path) as (parts, _):
        text = text_of(parts)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_linter_is_awake() -> None:
    """It does object to what breaks the conventions, so that silence means something."""
    text = "# TYPE leadline_wrong counter\nleadline_wrong 1\n"
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert "total" in done.stderr
