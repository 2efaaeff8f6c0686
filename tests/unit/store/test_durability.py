"""Acknowledged rows survive `kill -9`: bench/durability.py with 20 kills, and proof that it would notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig, arrow_table

ROOT = Path(__file__).parents[3]


@pytest.fixture
def durability(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import durability

    return durability


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_doubled_in_20_kills(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.durability", "--kills", "20", "--seed", "7", "--json"]
    command += ["--path", str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    told = json.loads(answer.stdout.splitlines()[-1])
    figures = {figure["figure"]: figure["value"] for figure in told["figures"]}
    assert figures["kills"] == 20
    assert figures["acknowledged_lost"] == 0
    assert figures["duplicated"] == 0
    assert figures["acknowledged"] > 1000, "the writers were killed before they wrote anything: this proves nothing"
    assert figures["batches_repeated"] > 0, "no append was ever cut off: this proves nothing"


def test_the_checker_is_awake(durability: ModuleType, tmp_path: Path) -> None:
    store = Store(StoreConfig(path=str(tmp_path)))
    store.start()
    for batch in (0, 1):
        kind, rows = durability.rows_of(batch)
        store.append(BY_NAME[kind], rows)
    store.stop()
    progress = durability.Progress(next_batch=4, done={0, 1})
    assert durability.missing_and_duplicated(str(tmp_path), progress) == (0, 0)

    progress.done = {0, 1, 3}
    assert durability.missing_and_duplicated(str(tmp_path), progress) == (durability.ROWS, 0)

    store.start()
    kind, rows = durability.rows_of(1)
    store.append(BY_NAME[kind], arrow_table(BY_NAME[kind], rows.to_pydict() | {"cluster": ["d"] * durability.ROWS}))
    store.stop()
    progress.done = {0, 1}
    assert durability.missing_and_duplicated(str(tmp_path), progress) == (0, durability.ROWS)
