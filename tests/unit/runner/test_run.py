"""The runner over a real store: live, replayed and offline say the same; late rows, restarts, failures."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.runner.toy_rows import BEGIN_NS, SECONDS, S, edges, fits, flows, steps, story

from leadline.analysis.spec import Analysis
from leadline.model.counters import Counter
from leadline.model.tables import BY_NAME
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.offline import judge_bundle
from leadline.runner.replay import Replay
from leadline.runner.run import Runner
from leadline.runner.verdicts import latest_sql
from leadline.store import Store, StoreConfig
from leadline.store.bundle import Draft, write_bundle
from leadline.store.bundle_format import Manifest
from leadline.store.bundle_rows import in_order
from leadline.testing import FakeClock
from leadline.testing.analyses import TOYS

WRITTEN = ("ecmp_group", "flow_volume", "ledger")


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    made = Store(StoreConfig(path=str(path), ttl=False))
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        yield made


class World:
    """A runner without its thread: rows are told and stored, time moves, windows are judged step by step."""

    def __init__(self, store: Store, analyses: Sequence[Analysis] = TOYS, at_s: float = 0, **more: Any) -> None:
        self.store, self.clock = store, FakeClock(BEGIN_NS)
        self.clock.advance(at_s)
        self.counted: Tally[str] = Tally()
        now_ns, config = more.pop("now_ns", self.clock), more.pop("config", RunnerConfig())
        self.runner = Runner(config, store, self.count, now_ns, analyses, more.pop("executor", InProcess()), **more)
        self.runner.prepare()

    def count(self, counter: Counter, amount: int) -> None:
        self.counted[counter.reason] += amount

    def come(self, name: str, rows: pa.Table) -> None:
        """Rows are accepted and stored."""
        self.store.append(BY_NAME[name], rows)
        self.runner.touched("acme", "lab", BY_NAME[name], {"rows": rows}, rows.num_rows)

    def go(self, seconds: float) -> None:
        """Time passes; everything that is due is judged."""
        self.clock.advance(seconds)
        while self.runner.step():
            pass


def verdicts(store: Store) -> dict[str, pa.Table]:
    out = {}
    for name in WRITTEN:
        table = BY_NAME[name]
        columns = ", ".join(column.name for column in table.columns)
        rows = store.query(f"SELECT {columns} FROM ({latest_sql(table)})")
        out[name] = in_order(table, plain(rows))
    return out


def plain(rows: pa.Table) -> pa.Table:
    """Rows with symbols as texts: whether they are coded is no matter of what they say."""
    return pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
    )


def live(store: Store) -> World:
    """A live run over the story: rows come second by second, as the hosts tell them."""
    world = World(store, from_ns=BEGIN_NS)
    world.come("relation", edges())
    world.come("clock_fit", fits(range(-600, 0, 10)))
    for second in range(0, SECONDS, 5):
        if second % 10 == 0:
            world.come("clock_fit", fits(range(second, second + 1)))
        if second == 25:
            world.come("relation", edges(25))
        world.go(5)
        world.come("flow_sample", flows(range(second, second + 5)))
        world.come("step", steps(range(second, second + 5)))
    world.go(10)
    return world


def bundle_of(path: Path, rows: dict[str, pa.Table]) -> Path:
    with Draft(Manifest(BEGIN_NS, BEGIN_NS + SECONDS * S), "", None) as draft:
        for name, table in rows.items():
            draft.add(BY_NAME[name], [table])
        write_bundle(path, draft.chunks(), draft.size)
    return path


def replayed(path: Path, store: Store, speed: float) -> World:
    """A replay of a bundle into a store, judged as it plays."""
    told: list[Runner] = []

    def hear(*rows: Any) -> None:
        told[0].touched(*rows)

    replay = Replay(path, speed, store, hear, clock_ns := FakeClock())
    world = World(store, from_ns=BEGIN_NS, settle_ns=0, now_ns=replay.now_ns, ended=replay.ended_ns)
    told.append(world.runner)
    replay.leave_out(world.runner.concludes)

    class Looking:
        """The replay's event for "stop": at each look time moves on and the runner judges what is due."""

        def wait(self, _: float) -> bool:
            clock_ns.advance(0.5)
            world.go(0)
            return False

        def is_set(self) -> bool:
            return False

    replay._stop = Looking()  # type: ignore[assignment]
    replay.run()
    world.go(0)
    replay.bundle.close()
    return world


def test_live_replayed_and_offline_say_the_same(tmp_path: Path) -> None:
    path = bundle_of(tmp_path / "a.leadline", story())
    told = {"offline": {name: plain(rows) for name, rows in judge_bundle(path, TOYS).items()}}
    for way in ("live", "fast", "slow"):
        with opened(tmp_path / way) as store:
            world = live(store) if way == "live" else replayed(path, store, 0.0 if way == "fast" else 20.0)
            told[way] = verdicts(store)
            assert [(each.state, each.revisions) for each in world.runner.states()] == [("ok", 0)] * len(TOYS)
    assert set(told["offline"]) == set(WRITTEN)
    for way in ("live", "fast", "slow"):
        for name in WRITTEN:
            assert told[way][name].num_rows > 0
            assert told[way][name].equals(told["offline"][name].cast(told[way][name].schema)), (way, name)
