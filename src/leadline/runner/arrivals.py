"""Which times a batch of rows that were just stored speaks of, so that windows judged without them are judged again."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.spec import Read
from leadline.model.ids import EntityId
from leadline.model.tables import Table
from leadline.model.tables.fabric import RELATION
from leadline.model.units import S
from leadline.runner.load import Chosen, ends_windows
from leadline.runner.watermarks import Job

Ints = NDArray[np.int64]

# Rows that are older than this when they come are waited for by nobody. A Prometheus sends a sample 5 s after it was
# scraped at the latest (batch_send_deadline), and it takes up to 1 s until it is stored. Source: Prometheus 2.42,
# remote_write.queue_config.
WAITED_NS_MAX = 7 * S
_SPAN_NS, _SPANS = 10 * S, 6  # the last minute, by tens of seconds: four scrapes at the usual 15 s
# Edges told before: about 200 bytes each. Of one that was forgotten, the next telling counts as news.
EDGES_MAX = 200_000
RELATION_KEY = ("child", "kind", "from_ns", "parent", "source")


def times_of(table: Table, columns: Mapping[str, object]) -> Ints:
    """The times of rows as the ways in hand them on: an Arrow table, or a mapping of arrays."""
    rows = columns.get("rows")
    found = rows[table.time] if isinstance(rows, pa.Table) else columns[table.time]
    if isinstance(found, pa.Array | pa.ChunkedArray):
        found = found.to_numpy()
    times = np.asarray(found, np.int64)
    return times - 1 if ends_windows(table) else times  # verdicts on a window belong to it


def known_times(table: Table, rows: pa.Table) -> Ints:
    """When each row was known at the earliest, ns: a step when it was over, a call when it ended or was made."""
    names = [column.name for column in table.columns if column.clocked] or [table.time]
    found = np.asarray(rows[table.time].to_numpy(), np.int64)
    for name in names:
        found = np.maximum(found, pc.fill_null(rows[name], -(2**63)).to_numpy())
    return found


def first_by_job(rows: pa.Table, times_N: Ints, jobs_on: Callable[[str, str, str], Iterable[Job]]) -> dict[Job, int]:
    """The first of some times by the job that rows speak of: by their column `job`, or of events by what happened to
    whom. `jobs_on(tenant, cluster, host)`: the jobs that run on a host."""
    tenants, clusters = (rows[name].cast(pa.string()).to_pylist() for name in ("tenant", "cluster"))
    has_job = "job" in rows.column_names
    names = rows["job" if has_job else "entity"].cast(pa.string()).to_pylist()
    found: dict[Job, int] = {}
    on: dict[tuple[str, str, str], list[Job]] = {}
    for tenant, cluster, name, at_ns in zip(tenants, clusters, names, times_N.tolist(), strict=True):
        if has_job:
            jobs = [Job(tenant, cluster, name or "")]
        elif (key := (tenant, cluster, name or "")) in on:
            jobs = on[key]
        else:
            jobs = on[key] = _jobs_of(*key, jobs_on)
        for job in jobs:
            found[job] = min(found.get(job, at_ns), at_ns)
    return found


def _jobs_of(tenant: str, cluster: str, entity: str, jobs_on: Callable[[str, str, str], Iterable[Job]]) -> list[Job]:
    """The jobs that something happened to: the one that an entity is or is of, or all on its host."""
    kind, name = EntityId.of(entity)
    if kind == "job":
        return [Job(tenant, cluster, name)]
    if kind == "rank":
        return [Job(tenant, cluster, name.rpartition("/")[0])]
    return list(jobs_on(tenant, cluster, name.partition("/")[0])) if kind in ("host", "port") else []


def united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times in spans that do not overlap, in order. Thousands of edges are nearly always one span."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


class Lateness:
    """How old rows of some tables usually are when they come: who has waited so long has most of what there is."""

    def __init__(self, *tables: Table) -> None:
        self.tables = tables
        self._largest: deque[tuple[int, int]] = deque()  # span of time, and the oldest that came in it

    def hear(self, oldest_ns: int, now_ns: int) -> None:
        """Rows came, the oldest of them of this time. What comes after an outage is no reason to wait for more."""
        late_ns, span = now_ns - oldest_ns, now_ns // _SPAN_NS
        if not 0 <= late_ns <= WAITED_NS_MAX:
            return
        if self._largest and self._largest[-1][0] == span:
            late_ns = max(late_ns, self._largest.pop()[1])
        self._largest.append((span, late_ns))
        while self._largest[0][0] <= span - _SPANS:
            self._largest.popleft()

    def usual_ns(self, now_ns: int) -> int:
        """The most of the last minute."""
        return max((late_ns for span, late_ns in self._largest if span > now_ns // _SPAN_NS - _SPANS), default=0)


class Edges:
    """Edges of the graph that were told before: who tells them again every minute says nothing new about the past."""

    def __init__(self, most: int = EDGES_MAX) -> None:
        self._told: OrderedDict[int, None] = OrderedDict()
        self._most = most

    def spans(self, read: Read, columns: Mapping[str, object], now_ns: int) -> list[tuple[int, int]]:
        """The spans of time in which rows that hold for a while change what is known, told at `now_ns`; none overlap.

        An edge is news from its begin to its end; one that was told before only if it is closed, and then from its
        end on (up to its end it held before as it holds now).
        """
        rows = columns.get("rows")
        if not isinstance(rows, pa.Table):
            return []
        begin, end = Chosen(read.table, (), 0, 0, valid=True).span
        begins = rows[begin].to_pylist()
        ends = rows[end].to_pylist() if end else [None] * rows.num_rows
        known = self._known(rows) if read.table is RELATION else [False] * rows.num_rows
        out: list[tuple[int, int]] = []
        for since, until, before in zip(begins, ends, known, strict=True):
            if not before:
                out.append((since, now_ns if until is None else until))
            elif until is not None:
                out.append((until, now_ns))
        return united(out)

    def _known(self, rows: pa.Table) -> list[bool]:
        """Whether each edge was told before; all of them are remembered."""
        names = [*(name for name in ("tenant", "cluster") if name in rows.column_names), *RELATION_KEY]
        out = []
        for key in zip(*(rows[name].to_pylist() for name in names), strict=True):
            number = hash(key)
            out.append(number in self._told)
            self._told[number] = None
            self._told.move_to_end(number)
            if len(self._told) > self._most:
                self._told.popitem(last=False)
        return out
