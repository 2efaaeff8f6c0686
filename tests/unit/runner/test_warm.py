"""What a worker process does before its first window: it must not fail, as without it no window is judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leadline.runner.warm import WARMERS


@pytest.mark.parametrize("warmer", WARMERS, ids=lambda warmer: warmer.__name__)
def test_every_warmer_runs_on_its_own_rows(warmer: Callable[[], object]) -> None:
    warmer()
