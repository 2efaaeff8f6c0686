"""The small model as a server on loopback, for the time of a `with`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.model.errors import LeadlineError

NAME = "SmolLM2-135M-Instruct"
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build/small-model/bin/python"


@contextmanager
def serving() -> Iterator[str]:
    """The base of its API. Errors: LeadlineError if it is not installed, or ends before it is ready."""
    if not PYTHON.exists():
        raise LeadlineError(f"{PYTHON.relative_to(ROOT)}: expected the small model; run scripts/install-small-model")
    program = [str(PYTHON), str(Path(__file__).with_name("small_model.py"))]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()  # it takes half a minute to load
            if not url.startswith("http"):
                raise LeadlineError(f"the small model ended before it was ready, with {process.wait(60)}")
            yield url
        finally:
            process.terminate()
