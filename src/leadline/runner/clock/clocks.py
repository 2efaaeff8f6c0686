"""Host time to cluster time, with the clock fits that were known by then.

A row keeps the time its host saw. A fit (`clock_fit`) says how far the host's clock was off at the end of a window, and
how fast that changes. The row is mapped by the newest fit that was not later than itself, so that it falls at the same
cluster time whichever window reads it, whenever that is judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.tables import Table

Ints = NDArray[np.int64]

# A fit older than this says too little about a clock that drifts 10 ppm: it may be 36 ms off.
FIT_AGE_NS = 3600 * 10**9
# What is needed of `clock_fit`.
FIT_COLUMNS = ("tenant", "cluster", "clock", "end_ns", "offset_ns", "rate_ppb", "bound_ns", "state")
_NONE = np.int64(-1)  # stands for no bound


def is_clocked(table: Table) -> bool:
    """Whether rows of the table carry times of their host's clock."""
    return table.host_row and any(column.clocked for column in table.columns)


@dataclass(frozen=True, slots=True)
class Margins:
    """How far host time may be from cluster time, ns: host time lies in [cluster + low, cluster + high]."""

    low_ns: int = 0
    high_ns: int = 0


def margins(fits: pa.Table) -> Margins:
    """The span of the offsets of some fits, what drift adds within `FIT_AGE_NS` included."""
    if not fits.num_rows:
        return Margins()
    drift = np.abs(fits["rate_ppb"].to_numpy()) * (FIT_AGE_NS / 1e9)
    offset = fits["offset_ns"].to_numpy()
    return Margins(min(0, int((offset - drift).min()) - 1), max(0, int((offset + drift).max()) + 1))


def in_cluster_time(table: Table, rows: pa.Table, fits: pa.Table) -> pa.Table:
    """Rows of a clocked table with their times in cluster time and the column `bound_ns`.

    Inputs: `rows` with `clock`, `table.time` and any of the clocked columns; `fits` with `FIT_COLUMNS`, of one
    cluster. A fit of offset o and rate r at its end e maps host time t to e + (t - e - o) / (1 + r). All times of a row
    use the fit of its `table.time`, so its durations stay what its clock measured, corrected by the rate alone.
    Returns: the rows; `bound_ns` int64, null where the clock has no fit in `FIT_AGE_NS` before the row (times are
    taken as they are) or has lost its reference (state `lost`).
    Accuracy: 1 ns of rounding on top of the fit's bound. Islands are not told apart: see `clock_fit.island`.
    """
    place_N = _fit_places(rows, table.time, fits)
    known_N = place_N >= 0
    end, offset = _ints(fits, "end_ns"), _ints(fits, "offset_ns")
    rate = fits["rate_ppb"].to_numpy() * 1e-9
    bound = np.where(_texts(fits, "state") == "lost", _NONE, _ints(fits, "bound_ns"))
    bound_N = np.full(rows.num_rows, _NONE)
    bound_N[known_N] = bound[place_N[known_N]]
    for column in table.columns:
        if column.clocked and column.name in rows.column_names:
            found = rows.column(column.name)
            null_N = found.is_null().to_numpy()
            host_N = pc.fill_null(found, 0).to_numpy().copy()
            at = place_N[known_N]
            host_N[known_N] = end[at] + np.rint((host_N[known_N] - (end + offset)[at]) / (1.0 + rate[at])).astype(int)
            mapped = pa.array(host_N, mask=null_N if found.null_count else None)
            rows = rows.set_column(rows.column_names.index(column.name), column.name, mapped)
    told = pa.array(bound_N, mask=bound_N == _NONE)
    if "bound_ns" in rows.column_names:
        return rows.set_column(rows.column_names.index("bound_ns"), "bound_ns", told)
    return rows.append_column("bound_ns", told)


def _fit_places(rows: pa.Table, time: str, fits: pa.Table) -> Ints:
    """For each row the place of its fit in `fits`, -1 where there is none. A pass over the rows of each clock."""
    place_N = np.full(rows.num_rows, -1, np.int64)
    if not fits.num_rows or not rows.num_rows:
        return place_N
    clocks = pc.unique(fits["clock"].cast(pa.string()))
    code_N = _codes(rows, clocks)
    code_F = _codes(fits, clocks)
    host_F = _ints(fits, "end_ns") + _ints(fits, "offset_ns")  # what the clock showed when the fit ended
    # By clock and time; of two fits that end together (none should) the place in `fits` decides nothing: the later
    # offset does, so that the order of rows does not matter.
    order_F = np.lexsort((_ints(fits, "offset_ns"), host_F, code_F))
    order_N = np.argsort(code_N, kind="stable")
    bounds_N = np.searchsorted(code_N[order_N], np.arange(len(clocks) + 1))
    bounds_F = np.searchsorted(code_F[order_F], np.arange(len(clocks) + 1))
    times_N = _ints(rows, time)
    for clock in range(len(clocks)):
        mine_N = order_N[bounds_N[clock] : bounds_N[clock + 1]]
        mine_F = order_F[bounds_F[clock] : bounds_F[clock + 1]]
        at = np.searchsorted(host_F[mine_F], times_N[mine_N], side="right") - 1
        near = (at >= 0) & (times_N[mine_N] - host_F[mine_F][at] <= FIT_AGE_NS)
        place_N[mine_N[near]] = mine_F[at[near]]
    return place_N


def _codes(table: pa.Table, clocks: pa.Array) -> Ints:
    """Place of each row's clock among `clocks`, -1 for one that is not there."""
    column = table["clock"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):  # names are few, rows are many
        place_C = pc.fill_null(pc.index_in(column.dictionary, value_set=clocks), -1).to_numpy()
        return np.asarray(place_C[column.indices.to_numpy(zero_copy_only=False)], np.int64)
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=clocks), -1).to_numpy(), np.int64)


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _texts(table: pa.Table, name: str) -> NDArray[np.object_]:
    return np.asarray(table[name].cast(pa.string()).to_numpy(zero_copy_only=False), object)
