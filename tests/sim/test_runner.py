"""Whatever happens on the way, in the end verdicts equal those of one quiet pass (`runner_world`).

LEADLINE_SIM_SEEDS=30 pytest tests/sim/test_runner.py     more seeds than the two of each test run
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.builders.stores import opened_store

from .runner_world import RunnerWorld, quiet, verdicts

SEEDS = int(os.environ.get("LEADLINE_SIM_SEEDS", "2"))
Said = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Said:
    with opened_store(tmp_path_factory.mktemp("quiet") / "store") as store:
        quiet(store)
        found = verdicts(store)
    assert all(found.values())
    return found


def differing(wanted: Said, found: Said) -> list[str]:
    """Names of tables that differ; the rows of both sides are printed."""
    for name in wanted:
        print(name, "missing:", [row for row in wanted[name] if row not in found[name]][:3])
        print(name, "too many:", [row for row in found[name] if row not in wanted[name]][:3])
    return [name for name in wanted if wanted[name] != found[name]]


def ran(path: Path, seed: int, **how: int) -> tuple[RunnerWorld, Said]:
    with opened_store(path / "store") as store:
        world = RunnerWorld(store, seed, **how)  # type: ignore[arg-type]
        try:
            world.run()
            return world, verdicts(store)
        finally:
            world.runner.stop()


@pytest.mark.parametrize("troubles", [False, True], ids=["late", "troubles"])
@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_in_the_end_verdicts_equal_those_of_a_quiet_pass(
    seed: int, troubles: bool, tmp_path: Path, wanted: Said
) -> None:
    world, found = ran(tmp_path, seed, troubles=troubles)
    kind = "troubles" if troubles else "late"
    replay = f"pytest 'tests/sim/test_runner.py' -k 'seed-{seed}-{kind}'"
    assert differing(wanted, found) == [], f"replay: {replay}"
    assert world.late
    assert world.store.failed or seed > 1  # of thirty seeds one met no failing store
    assert not troubles or (world.calls.failed and world.deaths + world.clock_steps)


@pytest.mark.parametrize("seed", range(SEEDS // 2), ids=lambda seed: f"seed-{seed}")
def test_nor_do_they_if_several_workers_answer_in_any_order(seed: int, tmp_path: Path, wanted: Said) -> None:
    world, found = ran(tmp_path, seed, troubles=True, workers=3)
    assert differing(wanted, found) == [], f"replay: pytest tests/sim/test_runner.py -k 'any_order and seed-{seed}'"
    assert world.late
    assert world.calls.failed
    assert world.deaths + world.clock_steps


@pytest.mark.parametrize("fault", ["forgets", "loses"])
def test_the_simulation_sees_late_rows_forgotten_and_revisions_lost(fault: str, tmp_path: Path, wanted: Said) -> None:
    _, found = ran(tmp_path, 0, troubles=False, **{fault: True})
    assert "flow_volume" in differing(wanted, found)
