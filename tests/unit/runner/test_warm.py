"""What a worker process does before its first window: no warmer fails, and if one does, the others run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
