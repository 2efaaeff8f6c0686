"""Readings of entities and of the relations between them: from a long table to a grid of time and series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.errors import DataError, UsageError

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[str, str]

CELLS_MAX = 50_000_000  # of the grid, 8 bytes each: 0.4 GB, and the ranking holds a few copies of its own


@dataclass(frozen=True, slots=True)
class Series:
    """Whose readings a column of the grid holds; `to` is empty for those of an entity alone."""

    metric: str
    entity: str
    to: str = ""  # of a relation `entity` -> `to`, such as the latency of these calls


@dataclass(frozen=True, slots=True)
class Readings:
    """S series on a grid of T intervals. Intervals without any reading are left out."""

    first_T: Ints  # the earliest reading of the interval, ns since 1970
    last_T: Ints  # and the latest
    step_ns: int
    series: tuple[Series, ...]
    value_TS: Matrix  # mean of the readings in the interval, NaN where there is none

    @property
    def entities(self) -> set[str]:
        """All that anything was read of, or about a relation with."""
        return {name for each in self.series for name in (each.entity, each.to) if name}

    @property
    def metrics(self) -> list[str]:
        """Their names, sorted."""
        return sorted({each.metric for each in self.series})

    def of_entities(self, metric: str, names: Sequence[str]) -> Matrix:
        """One metric of N entities, (T, N); NaN for those that do not have it."""
        return self._of(metric, [(name, "") for name in names])

    def of_relations(self, metric: str, pairs: Sequence[Pair]) -> Matrix:
        """One metric of E relations, (T, E); NaN for those that do not have it."""
        return self._of(metric, pairs)

    def _of(self, metric: str, wanted: Sequence[Pair]) -> Matrix:
        place = {(each.entity, each.to): at for at, each in enumerate(self.series) if each.metric == metric}
        out_TN = np.full((len(self.first_T), len(wanted)), np.nan)
        for column, pair in enumerate(wanted):
            if pair in place:
                out_TN[:, column] = self.value_TS[:, place[pair]]
        return out_TN


def readings(table: pa.Table, *, step_ns: int = 0) -> Readings:
    """Readings of a long table on a grid.

    Inputs: columns `time` (int64, ns since 1970), `entity`, `metric` (string), `value` (float64; null and NaN: no
    reading), and, where relations have readings of their own, `to` (string; null or empty: of the entity alone).
    `step_ns`: length of an interval; 0: the median distance of readings that follow each other in their series.
    Returns: `Readings`; intervals begin at the first reading and at multiples of the step after it.
    Errors: DataError if no row has a reading, or if no series has two of them to tell a step from; UsageError if the
    grid has more than `CELLS_MAX` cells.
    """
    table = table.filter(pc.fill_null(pc.is_finite(table["value"]), False))
    if not table.num_rows:
        raise DataError("metrics", "at least one row with a finite value", "none")
    time_R = table["time"].to_numpy()
    series, series_R = _series(table)
    step_ns = step_ns or _step_ns(time_R, series_R)
    bin_R = (time_R - time_R.min()) // step_ns
    bin_T, row_R = np.unique(bin_R, return_inverse=True)
    value_TS = _means(row_R * len(series) + series_R, table["value"].to_numpy(), len(bin_T), len(series))
    first_T = np.full(len(bin_T), np.iinfo(np.int64).max)
    last_T = np.full(len(bin_T), np.iinfo(np.int64).min)
    np.minimum.at(first_T, row_R, time_R)
    np.maximum.at(last_T, row_R, time_R)
    return Readings(first_T, last_T, step_ns, series, value_TS)


def _series(table: pa.Table) -> tuple[tuple[Series, ...], Ints]:
    """The series of a table, and of which of them each row is."""
    names, codes = [], np.zeros(table.num_rows, dtype=np.int64)
    for column in ("metric", "entity", "to"):
        given = table[column] if column in table.column_names else pa.nulls(table.num_rows, pa.string())
        coded = pc.dictionary_encode(pa.concat_arrays(_chunks(pc.fill_null(given, ""))))
        names.append(coded.dictionary.to_pylist())
        codes = codes * len(names[-1]) + coded.indices.to_numpy(zero_copy_only=False)
    found_S, series_R = np.unique(codes, return_inverse=True)
    places = np.unravel_index(found_S, [len(each) for each in names])
    series = tuple(
        Series(names[0][metric], names[1][entity], names[2][to]) for metric, entity, to in zip(*places, strict=True)
    )
    return series, series_R.astype(np.int64)


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _step_ns(time_R: Ints, series_R: Ints) -> int:
    order = np.lexsort((time_R, series_R))
    apart_R = np.diff(time_R[order])
    within_R = apart_R[(np.diff(series_R[order]) == 0) & (apart_R > 0)]
    if not within_R.size:
        raise DataError("metrics", "a series with readings at two times or more", "one reading of each")
    return int(np.median(within_R))


def _means(cell_R: Ints, value_R: Matrix, rows: int, columns: int) -> Matrix:
    cells = rows * columns
    if cells > CELLS_MAX:
        raise UsageError(
            f"{rows:,} intervals of {columns:,} series are {cells:,} cells, more than {CELLS_MAX:,}: take longer "
            "intervals, fewer series, or less time"
        )
    count = np.bincount(cell_R, minlength=cells)
    total = np.bincount(cell_R, weights=value_R, minlength=cells)
    mean: Matrix = np.divide(total, count, out=np.full(cells, np.nan), where=count > 0)
    return mean.reshape(rows, columns)
