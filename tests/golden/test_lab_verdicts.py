"""What is concluded of a recorded lab run is the same whether it is judged from the file or as it is replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from evals.ledger import GOLDEN
from tests.builders.stores import opened_store

from leadline.analysis import ANALYSES
from leadline.model.counters import Counter
from leadline.model.tables import BY_NAME
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.offline import judge_bundle
from leadline.runner.replay import Replay
from leadline.runner.run import Runner
from leadline.store import Store
from leadline.store.bundle import read_bundle
from leadline.store.bundle_rows import in_order
from leadline.testing import FakeClock
from leadline.views.rows import rows_where

BY = [each for each in ANALYSES if each.name in ("messages", "baseline", "ledger", "failures", "sle")]
WRITTEN = ("message", "edge", "baseline", "ledger", "failure", "sle", "sle_loss")
LOOK_S = 2.0  # from one look at what is due to the next


def replayed(path: Path, speed: float, store: Store, counted: list[str]) -> None:
    """A replay on a clock of its own, 0: as fast as it can; the runner judges what is due as it plays."""
    told: list[Runner] = []
    clock = FakeClock()

    def hear(*rows: Any) -> None:
        told[0].touched(*rows)

    replay = Replay(path, speed, store, hear, clock)
    with read_bundle(path) as bundle:
        from_ns = bundle.manifest.from_ns

    def count(counter: Counter, amount: int) -> None:
        counted.extend([counter.reason] * amount)

    runner = Runner(
        RunnerConfig(), store, count, replay.now_ns, BY, InProcess(), from_ns=from_ns, settle_ns=0,
        ended=replay.ended_ns,
    )  # fmt: skip
    told.append(runner)
    runner.prepare()
    replay.leave_out(runner.concludes)

    class Looking:
        """The replay's event for "stop": at each look time moves on and the runner judges what is due."""

        def wait(self, _: float) -> bool:
            clock.advance(LOOK_S)
            while runner.step():
                pass
            return False

        def is_set(self) -> bool:
            return False

    replay._stop = Looking()  # type: ignore[assignment]
    replay.run()
    while runner.step():
        pass
    replay.bundle.close()


def plain(rows: pa.Table) -> pa.Table:
    """Rows with symbols as texts, but for which revision told it: how often a window was judged again is chance."""
    columns: dict[str, Any] = {
        name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if name != "revision"
    }
    return pa.table(columns)


@pytest.mark.parametrize(("name", "speed"), [("rings-congested", 1.0), ("bert-slow", 0.0)])
def test_a_replay_and_the_file_say_the_same(tmp_path: Path, name: str, speed: float) -> None:
    path = GOLDEN / f"{name}.leadline"
    offline = judge_bundle(path, BY)
    counted: list[str] = []
    with opened_store(tmp_path / "store") as store:
        replayed(path, speed, store, counted)
        for written in WRITTEN:
            table = BY_NAME[written]
            columns = ", ".join(column.name for column in table.columns)
            rows = in_order(table, store.query(f"SELECT {columns} FROM ({rows_where(table)})"))
            told = offline.get(written)
            if told is None or not told.num_rows:
                assert not rows.num_rows, written
                continue
            assert plain(rows).equals(plain(told)), written
    assert {"baseline", "ledger"} <= {each for each, rows in offline.items() if rows.num_rows}
    assert "failed" not in counted
