"""Conditions on the columns of rows, as SQL and in memory: one rule for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.store.coded import is_one_of


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one column: less, at most, more or at least than a number, or one of some words or numbers."""

    column: str
    how: str  # <, <=, >, >=, in
    value: int | tuple[str, ...] | tuple[int, ...]
    null_too: bool = False

    def sql(self, name: str) -> str:
        """The condition, with its value as the parameter `name`."""
        kind = "Int64" if self.how != "in" else "Array(Int64)" if self._of_numbers else "Array(String)"
        told = f"{self.column} {self.how.upper()} {{{name}:{kind}}}"
        return f"({self.column} IS NULL OR {told})" if self.null_too else told

    def of(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Whether each row fulfils it; None: all do."""
        column = rows[self.column]
        if not isinstance(self.value, tuple):
            found = _COMPARED[self.how](column, self.value)
        elif self._of_numbers:
            found = pc.is_in(column, pa.array(self.value, column.type))
        else:
            found = is_one_of(column, self.value)  # type: ignore[arg-type]
        return found if found is None else pc.fill_null(found, self.null_too)

    @property
    def _of_numbers(self) -> bool:
        return isinstance(self.value, tuple) and isinstance(self.value[0], int)


_COMPARED = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def fulfilling(rows: pa.Table, conditions: Sequence[Condition]) -> pa.Table:
    """The rows that fulfil all conditions."""
    if not rows.num_rows:  # most tables of most windows: to compare nothing takes 0.1 ms a condition
        return rows
    found = [each for each in (each.of(rows) for each in conditions) if each is not None]
    return rows.filter(reduce(pc.and_, found)) if found else rows


def where(conditions: Sequence[Condition], prefix: str = "") -> tuple[str, dict[str, Any]]:
    """Conditions as SQL with their parameters, whose names begin with `prefix`."""
    parameters: dict[str, Any] = {}
    told = []
    for place, each in enumerate(conditions):
        name = f"{prefix}{each.column}_{place}"
        told.append(each.sql(name))
        parameters[name] = list(each.value) if isinstance(each.value, tuple) else each.value
    return " AND ".join(told) or "1", parameters
