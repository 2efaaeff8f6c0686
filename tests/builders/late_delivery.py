"""A recording delivered to a live runner: at once, or by senders that are late, in lumps and out of order.

Every host of the recording is a sender: what it saw is stored when it delivers, with its word up to where nothing is
missing. What no host saw (the provider's inventory, for one) is stored as it happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.doubles.shuffled_calls import ShuffledCalls

from leadline.analysis import BY_NAME as ANALYSIS
from leadline.analysis.spec import Analysis
from leadline.model.tables import BY_NAME, Identity, Table
from leadline.model.tables.fabric import CLOCK_FIT, RELATION, WATERMARK
from leadline.runner.arrivals import known_times
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.run import Runner
from leadline.store import Store
from leadline.store.bundle import read_bundle
from leadline.store.schema import arrow_table
from leadline.testing import FakeClock
from leadline.views.rows import rows_where

S = 10**9
LANES = ("baseline", "ledger", "stalls", "slowdowns", "cause")
VERDICTS = ("symptom", "incident", "cause", "ledger")
TICK_S = 2.0  # senders deliver so often; an agent four times as often, which only takes longer to judge


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows by table, those of hosts apart; the jobs of each host; begin and end, ns."""

    of_host: Mapping[str, Mapping[str, pa.Table]]
    of_nobody: Mapping[str, pa.Table]
    jobs: Mapping[str, Sequence[str]]
    from_ns: int
    to_ns: int
    owner: tuple[str, str]  # tenant, cluster


def recording(path: Path, seconds: float) -> Recording:
    """The first seconds of a bundle, without what was concluded then."""
    with read_bundle(path) as bundle:
        from_ns = bundle.manifest.from_ns
        to_ns = min(bundle.manifest.to_ns, from_ns + round(seconds * S))
        tables = {
            table.name: pa.concat_tables(bundle.groups(table)).unify_dictionaries().combine_chunks()
            for table in bundle.tables
            if table.identity is not Identity.REVISION or table is CLOCK_FIT
        }
    wanted = {read.table.name for name in LANES for read in ANALYSIS[name].reads}
    of_host: dict[str, dict[str, pa.Table]] = {}
    of_nobody: dict[str, pa.Table] = {}
    jobs: dict[str, set[str]] = {}
    owner = ("default", "default")
    for name, rows in tables.items():
        if name not in wanted or not rows.num_rows:
            continue
        owner = str(rows["tenant"][0]), str(rows["cluster"][0])
        if not BY_NAME[name].host_row:
            of_nobody[name] = rows
            continue
        hosts = rows["host"].cast(pa.string())
        for host in pc.unique(hosts).to_pylist():
            mine = rows.filter(pc.equal(hosts, host))
            of_host.setdefault(host, {})[name] = mine
            if "job" in mine.column_names:
                jobs.setdefault(host, set()).update(pc.unique(mine["job"].cast(pa.string())).to_pylist())
    return Recording(of_host, of_nobody, {host: sorted(of) for host, of in jobs.items()}, from_ns, to_ns, owner)


@dataclass(slots=True)
class Site:
    """A runner over a store, and the senders of a recording."""

    store: Store
    recording: Recording
    calls: ShuffledCalls | None = None  # answered in any order; None: at once
    workers: int = 1
    clock: FakeClock = field(init=False)
    runner: Runner = field(init=False)
    delivered_ns: dict[str, int] = field(init=False)
    seen: set[tuple[str, str]] = field(init=False)  # (symptom or incident, entity and begin) at any time

    def __post_init__(self) -> None:
        self.clock = FakeClock(self.recording.from_ns)
        analyses: list[Analysis] = [ANALYSIS[name] for name in LANES]
        config = RunnerConfig(workers=self.workers)
        self.runner = Runner(config, self.store, lambda *_: None, self.clock, analyses, self.calls or InProcess())
        self.runner.prepare()
        self.delivered_ns = dict.fromkeys(self.recording.of_host, self.recording.from_ns - 3600 * S)
        self.seen = set()
        self._say(sorted(self.recording.jobs), self.recording.from_ns)

    def now(self) -> int:
        return self.clock()

    def deliver(self, hosts: Sequence[str], until_ns: int, rng: np.random.Generator | None = None) -> None:
        """Senders store what they saw since they delivered last, and then say so. With `rng` row by row in any order,
        of one host after the other; else what all saw of a table at once, as a server stores bodies that came together.
        """
        parts: list[tuple[Table, pa.Table]] = []
        for host in hosts:
            since_ns, self.delivered_ns[host] = self.delivered_ns[host], until_ns
            mine: list[tuple[Table, pa.Table]] = []
            for name, rows in self.recording.of_host[host].items():
                table = BY_NAME[name]
                times_N = known_times(table, rows)
                new = rows.filter(pa.array((times_N >= since_ns) & (times_N < until_ns)))
                if new.num_rows:
                    mine += [(table, piece) for piece in pieces(new, rng)]
            parts += mine if rng is None else [mine[int(place)] for place in rng.permutation(len(mine))]
        for table, rows in parts if rng is not None else _together(parts):
            self.come(table, rows)
        self._say(hosts, until_ns)

    def come(self, table: Table, rows: pa.Table) -> None:
        self.store.append(table, rows)
        self.runner.touched(*self.recording.owner, table, {"rows": rows}, rows.num_rows)

    def _say(self, hosts: Sequence[str], to_ns: int) -> None:
        tenant, cluster = self.recording.owner
        rows: list[dict[str, Any]] = [
            {
                "tenant": tenant, "cluster": cluster, "host": host, "job": job, "clock": f"{host}/0",
                "reported_ns": self.now(), "to_ns": to_ns, "sender": "agent", "ranks": 1, "state": "open",
                "heard_ns": None, "took_ns": None,
            }
            for host in hosts
            for job in self.recording.jobs.get(host, ())
        ]  # fmt: skip
        if rows:
            self.come(WATERMARK, arrow_table(WATERMARK, {name: [each[name] for each in rows] for name in rows[0]}))

    def provide(self, since_ns: int, until_ns: int) -> None:
        """What no host saw is stored as it happens."""
        for name, rows in self.recording.of_nobody.items():
            table = BY_NAME[name]
            times_N = rows["from_ns"].to_numpy() if table is RELATION else rows[table.time].to_numpy()
            new = rows.filter(pa.array((times_N >= since_ns) & (times_N < until_ns)))
            if new.num_rows:
                self.come(table, new)

    def judge(self, more: bool = False) -> None:
        """Judge what is due. Some calls that wait are answered, or all (`more`)."""
        while self.runner.step() or (
            self.calls is not None and (more or len(self.calls.open) > self.workers // 2) and self.calls.answer()
        ):
            pass

    def look(self) -> None:
        """Remember which symptoms and incidents count now."""
        for name, key in (("symptom", ("entity", "symptom", "start_ns")), ("incident", ("incident",))):
            rows = self.store.query(f"SELECT {', '.join(key)} FROM ({rows_where(BY_NAME[name])})")
            self.seen |= {(name, str(tuple(row.values()))) for row in rows.to_pylist()}

    def verdicts(self) -> dict[str, list[dict[str, Any]]]:
        """What counts in the end, without the revision that said it."""
        found = {}
        for name in VERDICTS:
            table = BY_NAME[name]
            names = [column.name for column in table.columns if column.name != "revision"]
            sql = f"SELECT {', '.join(names)} FROM ({rows_where(table)}) ORDER BY {', '.join(names)}"
            found[name] = self.store.query(sql).to_pylist()
        return found


def _together(parts: Sequence[tuple[Table, pa.Table]]) -> list[tuple[Table, pa.Table]]:
    """Rows of the same table as one."""
    found: dict[str, list[pa.Table]] = {}
    for table, rows in parts:
        found.setdefault(table.name, []).append(rows)
    return [
        (BY_NAME[name], pa.concat_tables(rows).unify_dictionaries().combine_chunks()) for name, rows in found.items()
    ]


def pieces(rows: pa.Table, rng: np.random.Generator | None) -> list[pa.Table]:
    """Rows in one lump; or mixed, in up to three."""
    if rng is None:
        return [rows]
    rows = rows.take(pa.array(rng.permutation(rows.num_rows)))
    cuts = sorted({0, rows.num_rows, *(int(each) for each in rng.integers(0, rows.num_rows + 1, 2))})
    return [rows.slice(begin, end - begin) for begin, end in pairwise(cuts)]


def played(
    store: Store,
    of: Recording,
    seconds: float,
    away: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    seed: int | None = None,
    calls: ShuffledCalls | None = None,
    workers: int = 1,
) -> Site:
    """So many seconds from the begin of the recording. Each sender delivers every `TICK_S`, but not in the spans in
    which it is `away`; with a seed in lumps and out of order, and it is noted what counted meanwhile."""
    site, rng = Site(store, of, calls, workers), None if seed is None else np.random.default_rng(seed)
    site.provide(-(2**62), of.from_ns)
    for number in range(1, round(seconds / TICK_S) + 1):
        before_ns = site.now()
        site.clock.advance(TICK_S)
        site.provide(before_ns, site.now())
        at_s = number * TICK_S
        there = [
            host
            for host in sorted(of.of_host)
            if not any(begin <= at_s < end for begin, end in (away or {}).get(host, ()))
        ]
        site.deliver(there, site.now(), rng)
        site.judge()
        if seed is not None and number % 5 == 0:
            site.look()
    site.judge(more=True)
    site.look()
    return site
