"""Windows judged beside each other, by workers that answer in any order, say what is said one after another."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.late_delivery import played, recording
from tests.builders.stores import opened_store
from tests.doubles.shuffled_calls import ShuffledCalls
from tests.property.test_late_data import TWO_JOBS, away
from tests.unit.runner.toy_rows import BEGIN_NS, S, flows, steps

from leadline.analysis.spec import Analysis, Read, Verdicts, Window, analysis
from leadline.model.tables import BY_NAME
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.fabric import CONFLICT, FLOW_SAMPLE
from leadline.model.tables.paths import ECMP_GROUP
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import Executor, InProcess
from leadline.runner.run import Runner
from leadline.store import Store
from leadline.store.bundle_rows import in_order
from leadline.testing import FakeClock
from leadline.testing.analyses import TOYS

SECONDS = 40  # of rows
LATE_S_MAX = 15  # of the 60 s that late rows change windows, less what debouncing and slow calls take of these
SETTLED_S = 120  # longer than rows come late and wait for more
WRITTEN = ("flow_volume", "ecmp_group", "ledger", "conflict")


@analysis(
    name="toy-glance", version=1, reads=(Read(FLOW_SAMPLE, ("rate",)),), writes=(CONFLICT,),
    window_s=2, grace_s=1, late_s=60,
)  # fmt: skip
def glance(samples: pa.Table, *, window: Window) -> Verdicts:
    """A span of 20 s that each window tells anew: who reads it later reads more."""
    start_ns = window.from_ns // (20 * S) * 20 * S
    row = {
        "entity": "link:toy", "kind": "toy", "start_ns": start_ns, "end_ns": None, "claims": [], "sources": [],
        "used": None, "count": samples.num_rows, "text": f"until {window.to_ns}", "seen_ns": window.to_ns,
    }  # fmt: skip
    return {"conflict": {name: [value] for name, value in row.items()}} if samples.num_rows else {}


@analysis(
    name="toy-sight", version=1,
    reads=(
        Read(CONFLICT, ("text",), look_back_ns=4 * S, valid=True, waits=False),
        Read(ECMP_GROUP, ("bytes",), look_back_ns=30 * S, waits=False),
    ),
    writes=(LEDGER,), window_s=2, grace_s=1, late_s=60,
)  # fmt: skip
def sight(conflict: pa.Table, group: pa.Table, *, window: Window) -> Verdicts:
    """What is known by now of both: it neither waits for what comes later nor is told of it."""
    known = f"{sorted(conflict['text'].to_pylist())}, {group.num_rows} of {np.sum(group['bytes'].to_numpy()):.0f} bytes"
    row = {
        "job": "toy", "end_ns": window.to_ns, "window_ns": window.window_ns, "category": known, "owner": None,
        "seconds": 0.0, "gpu_seconds": 0.0, "confidence": 1.0, "lost_seconds": 0.0, "lost_gpu_seconds": 0.0,
        "depth": "steps",
    }  # fmt: skip
    return {"ledger": {name: [value] for name, value in row.items()}}


SEEING: tuple[Analysis, ...] = (*TOYS, glance, sight)


class World:
    """A runner whose calls are answered in the order that a seed draws, some of them many seconds later."""

    def __init__(self, store: Store, analyses: tuple[Analysis, ...], workers: int, calls: Executor, seed: int) -> None:
        self.store, self.calls, self.random = store, calls, random.Random(seed)
        self.clock = FakeClock(BEGIN_NS)
        self.runner = Runner(
            RunnerConfig(workers=workers), store, lambda *_: None, self.clock, analyses, calls, from_ns=BEGIN_NS
        )
        self.runner.prepare()

    def come(self, name: str, rows: pa.Table) -> None:
        self.store.append(BY_NAME[name], rows)
        self.runner.touched("acme", "lab", BY_NAME[name], {"rows": rows}, rows.num_rows)

    def go(self, *, all_of_it: bool = False) -> None:
        """Judge what is due, as far as calls are answered: all of them, or as many as are drawn."""
        while True:
            while self.runner.step():
                pass
            if not isinstance(self.calls, ShuffledCalls):
                return
            slow_only = set(self.calls.open) == {self.calls.slow}
            done = not all_of_it and self.random.random() < (0.6 if slow_only else 0.3)
            if done or not self.calls.answer():
                return

    def run(self, late: Callable[[int], int]) -> None:
        """Rows come second by second, some of them late; `late(second)` says how many seconds."""
        come: dict[int, list[int]] = {}
        for second in range(SECONDS):
            come.setdefault(second + 1 + late(second), []).append(second)
        for _ in range(SECONDS + LATE_S_MAX + 1):
            self.clock.advance(1)
            for second in come.get((self.clock() - BEGIN_NS) // S, ()):
                self.come("flow_sample", flows(range(second, second + 1)))
                self.come("step", steps(range(second, second + 1)))
            self.go()
        for _ in range(SETTLED_S // 20):
            self.clock.advance(20)
            self.go(all_of_it=True)
        self.runner.stop()


def stored(store: Store, *, revisions: bool) -> dict[str, list[dict[str, Any]]]:
    """The rows that plain SQL gives, and how windows were judged."""
    found = {}
    for name in (*WRITTEN, "analysis_run"):
        left_out = {"took_ns"} if revisions else {"took_ns", "revision"}
        columns = [column.name for column in BY_NAME[name].columns if column.name not in left_out]
        names = ", ".join(column.name for column in BY_NAME[name].columns)
        rows = in_order(BY_NAME[name], store.query(f"SELECT {names} FROM leadline.{name}"))
        found[name] = rows.select(columns).to_pylist()
    return found


def nothing_late(_: int) -> int:
    return 0


@pytest.mark.parametrize(("workers", "seed"), [(2, 1), (3, 2)])
def test_the_same_is_stored_whatever_the_order_of_answers(workers: int, seed: int, tmp_path: Path) -> None:
    """Of analyses too that read what is known by now: each window sees what it sees when they go one by one."""
    said = {}
    for name, calls in (("one by one", InProcess()), ("beside", ShuffledCalls(random.Random(seed), slow="toy-volume"))):
        with opened_store(tmp_path / name) as store:
            World(store, SEEING, 1 if name == "one by one" else workers, calls, seed).run(nothing_late)
            said[name] = stored(store, revisions=True)
            assert all(said[name].values())
            if isinstance(calls, ShuffledCalls):
                assert calls.most == workers, "as many calls are in flight as there are workers"
    for name in said["beside"]:
        assert said["beside"][name] == said["one by one"][name], f"{name}, seed {seed}"


@pytest.mark.parametrize(("workers", "seed"), [(1, 4), (3, 5)])
def test_rows_that_come_while_their_window_is_judged_are_not_lost(workers: int, seed: int, tmp_path: Path) -> None:
    said, drawn = {}, random.Random(seed)
    late_s = [drawn.randint(1, LATE_S_MAX) if drawn.random() < 0.3 else 0 for _ in range(SECONDS)]
    for name, calls in (("one by one", InProcess()), ("beside", ShuffledCalls(random.Random(seed), slow="toy-volume"))):
        with opened_store(tmp_path / name) as store:
            late = late_s.__getitem__ if name == "beside" else nothing_late
            World(store, tuple(TOYS), workers, calls, seed).run(late)
            said[name] = stored(store, revisions=False)
    for name in ("flow_volume", "ecmp_group", "ledger"):
        assert said["beside"][name] == said["one by one"][name], f"{name}, seed {seed}"


def test_a_recording_whose_calls_are_answered_in_any_order(tmp_path: Path) -> None:
    """Late hosts, jobs that are held back, and `cause` that goes back for them; with analyses that ship."""
    seed, seconds = 7, 26.0
    of = recording(TWO_JOBS, seconds)
    said = []
    for name, spans, drawn in (("one by one", None, None), ("beside", away(of, seed, seconds), seed)):
        with opened_store(tmp_path / name) as store:
            calls = None if drawn is None else ShuffledCalls(random.Random(seed))
            said.append(played(store, of, seconds + 24, spans, drawn, calls, workers=3).verdicts())
    wanted, found = said
    assert wanted["incident"]
    for table in wanted:
        assert found[table] == wanted[table], table
