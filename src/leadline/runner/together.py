"""Rows of a window read once for all its jobs, and given out job by job.

A statement takes the store some 50 ms however few rows it finds: with one for each table and job, the ledger of a
hundred jobs took a minute for a window of ten seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from leadline.model.tables import Table
from leadline.runner.load import Chosen, Rows
from leadline.store.coded import distinct, own_words

# Of a table with more rows in the window's span each job reads its own: 500,000 are 50 to 150 MB.
TOGETHER_ROWS_MAX = 500_000

Owner = tuple[str, str]  # tenant, job
_Asked = tuple[str, tuple[str, ...], int, int, bool, str, str]


class Together:
    """Rows, kept for as long as one window is judged. What it gives is what the rows beneath would give, in any
    order."""

    def __init__(self, rows: Rows, rows_max: int = TOGETHER_ROWS_MAX) -> None:
        self._rows, self._rows_max = rows, rows_max
        self._whole: dict[_Asked, pa.Table] = {}
        self._none: dict[_Asked, pa.Table] = {}  # what a job without rows is given
        self._parts: dict[_Asked, dict[Owner, pa.Table] | None] = {}  # None: too many
        self._jobs = 0

    def expect(self, jobs: int) -> None:
        """So many jobs will be asked for: one alone is read as it is asked for."""
        self._jobs = jobs

    def chosen(self, chosen: Chosen) -> pa.Table:
        """See `Rows`."""
        if chosen.job and self._jobs == 1:
            return self._rows.chosen(chosen)
        asked = (
            chosen.table.name, chosen.columns, chosen.from_ns, chosen.to_ns, chosen.valid, chosen.cluster,
            chosen.writer,
        )  # fmt: skip
        if chosen.job:
            if asked not in self._parts:
                self._parts[asked] = self._split(asked, replace(chosen, tenant="", job=""))
            parts = self._parts[asked]
            if parts is None:
                return self._rows.chosen(chosen)
            return parts.get((chosen.tenant, chosen.job), self._none[asked])
        if asked not in self._whole:
            self._whole[asked] = self._rows.chosen(chosen)
        return self._whole[asked]

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        """See `Rows`."""
        return self._rows.owners(chosen)

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        """See `Rows`."""
        return self._rows.next_ns(table, from_ns)

    def count(self, chosen: Chosen) -> int:
        """See `Rows`."""
        return self._rows.count(chosen)

    def _split(self, asked: _Asked, everyone: Chosen) -> dict[Owner, pa.Table] | None:
        """The rows by owner; none, if there are too many."""
        if self._rows.count(everyone) > self._rows_max:
            return None
        more = tuple(name for name in ("tenant", "job") if name not in everyone.columns)
        rows = self._rows.chosen(replace(everyone, columns=(*everyone.columns, *more)))
        self._none[asked] = rows.slice(0, 0).select(everyone.columns)
        return by_owner(rows, everyone.columns)


def by_owner(rows: pa.Table, columns: Sequence[str]) -> dict[Owner, pa.Table]:
    """These columns of the rows of each tenant and job; rows of no job are nobody's."""
    if not rows.num_rows:
        return {}
    owners, which_N = distinct(rows, ("tenant", "job"))
    told = rows.select(list(columns)).combine_chunks()
    order = np.argsort(which_N, kind="stable")
    ends = np.cumsum(np.bincount(which_N, minlength=len(owners))).tolist()
    return {
        (tenant or "", job): own_words(told.take(pa.array(order[begin:end])))
        for (tenant, job), begin, end in zip(owners, [0, *ends], ends, strict=False)
        if job is not None
    }
