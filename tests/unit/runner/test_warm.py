"""What a worker process does before its first window: no warmer fails, and if one does, the others run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline.lab.incidents
from leadline.runner.warm import WARMERS, warm


@pytest.mark.parametrize("warmer", WARMERS, ids=lambda warmer: warmer.__name__)
def test_every_warmer_runs_on_its_own_rows(warmer: Callable[[], object]) -> None:
    warmer()


def test_one_that_fails_does_not_end_the_worker_that_all_share(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def warm_broken() -> None:
        raise KeyError("step")

    def warm_well() -> None:
        ran.append("well")

    assert warm((warm_broken, warm_well)) >= 0
    assert ran == ["well"]
    assert "warm_broken failed" in caplog.text


# What numba compiled, or loaded, by kernel: before and after a recording was judged.
SIGNATURES = """
import gc, json, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from leadline.runner.offline import judge_bundle
from leadline.runner.warm import warm

def known():
    ours = [each for each in gc.get_objects() if isinstance(each, Dispatcher) and "leadline" in each.py_func.__module__]
    return {f"{each.py_func.__module__}.{each.py_func.__name__}": len(each.signatures) for each in ours}

warm()
before = known()
judge_bundle(Path(sys.argv[1]))
print(json.dumps({name: [before.get(name, 0), count] for name, count in known().items() if count != before.get(name)}))
"""


def test_nothing_is_compiled_by_the_first_windows() -> None:
    """They would be late by as long as that takes: 10 s, when the detector was left out."""
    recording = Path(leadline.lab.incidents.__file__).parent / "demo.leadline"
    told = subprocess.run(
        [sys.executable, "-c", SIGNATURES, str(recording)], check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(told) == {}, "kernels with other numbers of signatures than the warmers made"
