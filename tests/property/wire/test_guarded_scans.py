"""Law: the scanners of pages and OTLP bodies read nothing outside of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_nothing_outside_the_body_is_read() -> None:
    """Bodies, whole, cut and damaged, that end where readable memory ends: one byte further is a crash."""
    program = Path(__file__).parents[2] / "oracle" / "guarded_scans.py"
    if not sys.platform.startswith("linux"):
        pytest.skip("protects a page of memory with mprotect, as Linux does it")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    assert int(done.stdout) > 3000
