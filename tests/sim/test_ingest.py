"""Nothing acknowledged is lost, nothing is stored twice, memory is bounded, everything refused is counted.

The production ways in, intake and lanes, with senders that retry as real ones do, a disk that fails, stalls and
loses answers, and a process that dies. A failing case names its seed: `pytest tests/sim -k "[seed-17"`. The seed
fixes what is sent and which appends fail; threads decide which requests share an append.
"""

from __future__ import annotations

import asyncio

import pytest

from leadline.ingest import lanes

from .world import World


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed append is tried again at once; the waits are tested with the lanes."""
    monkeypatch.setattr(lanes, "FIRST_WAIT_S", 0.0005)


@pytest.mark.parametrize("crashes", [False, True], ids=["failing-disk", "dying-process"])
@pytest.mark.parametrize("seed", range(25), ids=lambda seed: f"seed-{seed}")
def test_after_the_dust_settles(seed: int, crashes: bool) -> None:
    world = World(seed, crashes)
    try:
        asyncio.run(world.run())
        world.check()
    finally:
        world.stop()


def test_the_simulation_sees_what_it_is_for() -> None:
    """A canary: over some seeds every kind of trouble happens, and a lost sample does not pass unnoticed.

    Threads decide which requests meet a full queue, so how many seeds it takes differs from run to run.
    """
    wanted = {"store_unavailable", "queue_full"}
    whole: set[str] = set()
    for seed in range(100, 140):
        if wanted <= whole:
            break
        world = World(seed, crashes=seed % 2 == 0)
        try:
            asyncio.run(world.run())
            world.check()
            whole |= {reason for reason, amount in world.whole.items() if amount}
            rows = world.memory._rows["metric_sample"]
            rows.pop(next(iter(rows)))
            with pytest.raises(AssertionError, match="1 lost"):
                world.check()
        finally:
            world.stop()
    assert wanted <= whole
