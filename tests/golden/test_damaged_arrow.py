"""Damaged Arrow bodies that once killed the process are refused as bad data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "damaged_arrow"
DECODE = """
import sys
from pathlib import Path
from leadline.model.errors import DataError
from leadline.model.tables import BY_NAME
from leadline.wire.rows import decode_arrow
try:
    decode_arrow(Path(sys.argv[1]).read_bytes(), BY_NAME["step"])
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["offsets", "nulls"])
def test_a_damaged_body_is_refused_and_nothing_dies(name: str) -> None:
    """In a process of its own: the fault was a crash of it."""
    found = subprocess.run(
        [sys.executable, "-c", DECODE, str(FOLDER / f"{name}.arrow")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-300:]
    assert "expected an Arrow IPC stream" in found.stdout
