"""What an analysis is: a pure function of columns with a declaration of what it reads, writes, and when it is run.

    @analysis(name="path", version=1, reads=(Read(FLOW_SAMPLE), Read(RELATION, valid=True)), writes=(FLOW_PATH,), ...)
    def paths(flow_sample: pa.Table, relation: pa.Table, *, window: Window) -> Verdicts: ...

The decorator only attaches the declaration; the function is called as any other. `runner` loads and stores. Laws that
every analysis keeps (`tests/common/test_every_analysis.py`): empty in, empty out; the order of rows does not matter;
everything moved in time moves the verdicts with it; what it writes is what it declares; no clock but `window`. Too
little data gives `unknown` with the missing input named, never an exception and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from leadline.model.principal import DEFAULT_TENANT
from leadline.model.speakers import OWN_PART
from leadline.model.tables.spec import Identity, Table
from leadline.model.units import S as S

Verdicts = Mapping[str, Mapping[str, Any]]
"""Rows by table name: columns by name (lists, numpy or Arrow arrays of one length; 128-bit ids as uint64 (N, 2) or
ints). The table's own columns, and `tenant` where rows are not all of the window's tenant. `cluster`, `analysis`,
`version` and `revision` are filled in by the runner, which also sorts rows by the key of their table."""


class Part(StrEnum):
    """What one call judges."""

    CLUSTER = "cluster"  # all tenants' rows of a cluster at once, as operator
    JOB = "job"  # the rows of one job: those whose column `job` names it; tables without one are given whole


@dataclass(frozen=True, slots=True)
class Window:
    """What is judged: a span of cluster time, ns, `from_ns` included, `to_ns` not. `to_ns` is "now"."""

    from_ns: int
    to_ns: int
    tenant: str = "default"  # whose the verdicts are, unless a row says otherwise
    cluster: str = "default"
    job: str = ""  # for Part.JOB
    provider: str = DEFAULT_TENANT  # whose word on hosts and links counts for all tenants
    own: str = ""  # for Part.CLUSTER: only this tenant's verdicts are kept, of its rows and the provider's

    @property
    def window_ns(self) -> int:
        """Its length, ns."""
        return self.to_ns - self.from_ns

    @property
    def part(self) -> str:
        """What of a cluster is judged, as `analysis_run` tells it: a job, one tenant's own, or (empty) all of it."""
        return f"{OWN_PART}{self.own}" if self.own else self.job

    @property
    def whose(self) -> str:
        """The tenant that the judgement is of."""
        return self.own or self.tenant


@dataclass(frozen=True, slots=True)
class Read:
    """One table that an analysis reads.

    Given are the rows whose time (`table.time`) lies in the window or up to `look_back_ns` before it:
    [from - look_back, to). Verdict rows on a window (`table.time` is `end_ns`) belong to the window that ends with
    them: (from - look_back, to]. `valid`: rows that tell a span (`from_ns`, `to_ns`; `start_ns`, `end_ns`): those that
    held at some time in [from - look_back, to); an end after `to` is given as null, because at `to` it had not come.
    Columns: all of the table's, or those named; those of the identity that are not named are
    left out. Host rows come in cluster time, with one more column `bound_ns` (int64, null where the clock has no fit).

    `waits=False`: rows as far as they are known; a window neither waits for who concludes them nor is judged again when
    they come: the next window reads them. For verdicts that must come fast and are told anew by each window.
    `calls=False`: rows that help to judge, but are no reason to judge a window.
    `of_ranks`: of relations only those whose child is a rank of the job that a call judges: a fleet has tens of
    thousands, and each job would be given them all.
    """

    table: Table
    columns: tuple[str, ...] = ()
    look_back_ns: int = 0
    valid: bool = False
    waits: bool = True
    calls: bool = True
    of_ranks: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are given."""
        names = self.columns or tuple(column.name for column in self.table.columns)
        return (*names, "bound_ns") if self.table.host_row and "bound_ns" not in names else names


@dataclass(frozen=True, slots=True)
class Analysis:
    """A registered analysis: its declaration and its function."""

    name: str
    version: int
    reads: tuple[Read, ...]
    writes: tuple[Table, ...]
    window_ns: int
    grace_ns: int  # how long after its end a window is closed: what comes later makes a new revision
    late_ns: int  # how long after its end a window is judged again when rows come late
    part: Part
    seconds_max: float  # a call that takes longer is killed and told as a time-out
    judge: Callable[..., Verdicts]
    doc: str
    joint: bool = False

    def __post_init__(self) -> None:
        assert self.doc, f"{self.name}: an analysis says in its docstring what it concludes"
        assert self.version >= 1, f"{self.name}: versions begin at 1"
        assert self.window_ns > 0, f"{self.name}: a window has a length"
        assert self.grace_ns >= 0, f"{self.name}: grace is not negative"
        assert self.late_ns >= self.grace_ns, f"{self.name}: late rows come after the grace"
        for table in self.writes:
            assert table.identity is Identity.REVISION, f"{self.name}: {table.name} is not a table of verdicts"
        if self.part is Part.JOB:
            assert any("job" in read.names for read in self.reads), f"{self.name}: nothing that it reads names jobs"
        assert any(read.calls for read in self.reads), f"{self.name}: nothing that it reads is a reason to judge"

    def __call__(self, *tables: pa.Table, window: Window) -> Verdicts:
        """Verdicts on the window, from the tables it reads in the order of its declaration."""
        return self.judge(*tables, window=window)


def analysis(
    *,
    name: str,
    version: int,
    reads: Sequence[Read],
    writes: Sequence[Table],
    window_s: float,
    grace_s: float = 5.0,
    late_s: float = 600.0,
    part: Part = Part.CLUSTER,
    seconds_max: float = 60.0,
    joint: bool = False,
) -> Callable[[Callable[..., Verdicts]], Analysis]:
    """Attach a declaration to a function; what comes out is called as the function.

    The first line of its docstring is what `leadline doctor` and the docs say of it. `joint`: of a cluster it is called
    once for all tenants, as what all share would be counted twice otherwise; else once for each (`runner.whose`).
    """

    def declare(judge: Callable[..., Verdicts]) -> Analysis:
        return Analysis(
            name=name,
            version=version,
            reads=tuple(reads),
            writes=tuple(writes),
            window_ns=round(window_s * S),
            grace_ns=round(grace_s * S),
            late_ns=round(late_s * S),
            part=part,
            seconds_max=seconds_max,
            judge=judge,
            doc=(judge.__doc__ or "").strip().partition("\n")[0],
            joint=joint,
        )

    return declare
