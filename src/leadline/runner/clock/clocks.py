"""Host time to cluster time, with the clock fits that were known by then.

A row keeps the time its host saw. A fit (`clock_fit`) says how far the host's clock was off at the end of a window, and
how fast that changes. What probes say comes some 12 s after the time that it is about, so a row is mapped by the newest
of those fits that is `SETTLE_NS` older than the row, carried on by its rate with a bound that grows; where there is
none, by the newest coarse one (`coarse`) that was not later than itself. So it falls at the same cluster time whichever
window reads it, live or in a replay, as long as the clock is judged within that time.

    mesh fits    |----|----|----|........settle........ row
    coarse fits  |------------------------------------- row
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.tables import Table
from leadline.model.units import S
from leadline.runner.clock.coarse import BOUND_NS, COARSE

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# A coarse fit older than this says too little about a clock that drifts 10 ppm: it may be 36 ms off.
FIT_AGE_NS = 3600 * S
# How much older than a row a fit of the mesh is at least: its window of 5 s, 7 s of grace, and 3 s until it is judged.
SETTLE_NS = 15 * S
# How old it is at most: whoever judges clocks may be away for so long. Reading more each window costs more than it
# says. Source: judgement.
MESH_AGE_NS = 300 * S
# Of fits of the mesh, which come each second, only one in so many is read: all are carried on for longer than that.
MESH_EVERY_NS = 5 * S
# By how much the rate of a clock may change, ppb per second, and for how long it goes on changing: 1 ppm within half a
# minute, as when a fan starts. The bound of a fit that is carried on grows by that. Source: judgement.
DRIFT_PPB_PER_S, DRIFT_S = 35.0, 30.0
NO_BOUND_NS = 3600 * S  # told as bound of a clock whose offset may be anything. Source: definition.
LYING = "lying"  # state of fits of which not even the offset is to be used, as of those without a bound
# What is needed of `clock_fit`.
FIT_COLUMNS = (
    "tenant", "cluster", "clock", "end_ns", "offset_ns", "rate_ppb", "bound_ns", "state", "island", "analysis",
)  # fmt: skip
MESH = "clock"  # the analysis whose fits are of the mesh
_NONE = np.int64(-1)  # stands for no bound


def grown(bound_N: Floats, age_s_N: Floats) -> Floats:
    """Bounds of fits that are carried on for some seconds, ns."""
    most_N = np.minimum(age_s_N, DRIFT_S)
    more_N = DRIFT_PPB_PER_S * most_N**2 / 2 + DRIFT_PPB_PER_S * DRIFT_S * (age_s_N - most_N)
    out: Floats = np.ceil(bound_N + more_N)
    return out


def is_coarse(fits: pa.Table) -> NDArray[np.bool_]:
    """Which fits are of clocks that are plainly wrong, by the words of their hosts."""
    found = pc.equal(fits["analysis"].cast(pa.string()), COARSE)
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), bool)


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
    Returns: the rows; `bound_ns` int64, null where the clock has no fit that is young enough (times are taken as they
    are) or has lost its reference (state `lost`).
    Accuracy: 1 ns of rounding on top of the fit's bound, which is told as grown until the row. Hosts that are not on
    the largest island (`clock_fit.island` 0) are not mapped by it: their times cannot be compared with the others'.
    """
    if not rows.num_rows or not fits.num_rows:  # most tables of most windows
        return _with_bound(rows, pa.nulls(rows.num_rows, pa.int64()))
    coarse_F = is_coarse(fits)
    mesh_N, coarse_N = _mesh_places(rows, table.time, fits, ~coarse_F), _fit_places(
        rows, table.time, fits, coarse_F, 0, FIT_AGE_NS
    )  # fmt: skip
    end, offset = _ints(fits, "end_ns"), _ints(fits, "offset_ns")
    # A clock that was set since its last fit of the mesh is known by its words alone.
    both_N = (mesh_N >= 0) & (coarse_N >= 0)
    apart_N = np.abs(offset[mesh_N].astype(np.float64) - offset[coarse_N])
    mesh_N = np.where(both_N & (end[coarse_N] > end[mesh_N]) & (apart_N > 2 * BOUND_NS), -1, mesh_N)
    place_N = np.where(mesh_N >= 0, mesh_N, coarse_N)
    known_N = place_N >= 0
    rate = fits["rate_ppb"].to_numpy() * 1e-9
    at = place_N[known_N]
    bound_N = np.full(rows.num_rows, _NONE)
    age_s = (_ints(rows, table.time)[known_N] - (end + offset)[at]) / S
    told = np.where(
        coarse_F[at], _ints(fits, "bound_ns")[at], grown(_ints(fits, "bound_ns")[at].astype(np.float64), age_s)
    )
    unknown = (_texts(fits, "state") == "lost")[at] | (told >= NO_BOUND_NS)
    bound_N[known_N] = np.where(unknown, _NONE, told.astype(np.int64))
    for column in table.columns:
        if column.clocked and column.name in rows.column_names:
            found = rows.column(column.name)
            null_N = found.is_null().to_numpy()
            host_N = pc.fill_null(found, 0).to_numpy().copy()
            host_N[known_N] = end[at] + np.rint((host_N[known_N] - (end + offset)[at]) / (1.0 + rate[at])).astype(int)
            mapped = pa.array(host_N, mask=null_N if found.null_count else None)
            rows = rows.set_column(rows.column_names.index(column.name), column.name, mapped)
    return _with_bound(rows, pa.array(bound_N, mask=bound_N == _NONE))


def _with_bound(rows: pa.Table, bound_N: pa.Array) -> pa.Table:
    if "bound_ns" in rows.column_names:
        return rows.set_column(rows.column_names.index("bound_ns"), "bound_ns", bound_N)
    return rows.append_column("bound_ns", bound_N)


def _mesh_places(rows: pa.Table, time: str, fits: pa.Table, mesh_F: NDArray[np.bool_]) -> Ints:
    """As `_fit_places`, of settled fits; where the newest of them is not to be used there is none."""
    place_N = _fit_places(rows, time, fits, mesh_F, SETTLE_NS, MESH_AGE_NS)
    useless_F = (_texts(fits, "state") == LYING) | (_ints(fits, "island") != 0)
    useless_F |= _ints(fits, "bound_ns") >= NO_BOUND_NS
    return np.where((place_N >= 0) & useless_F[place_N], -1, place_N)


def _fit_places(
    rows: pa.Table, time: str, fits: pa.Table, of_F: NDArray[np.bool_], settle_ns: int, age_ns: int
) -> Ints:  # fmt: skip
    """For each row the place of its fit in `fits`, -1 where there is none. A pass over the rows of each clock."""
    place_N = np.full(rows.num_rows, -1, np.int64)
    if not of_F.any():
        return place_N
    chosen = np.flatnonzero(of_F)
    fits = fits.take(pa.array(chosen))
    clocks = pc.unique(fits["clock"].cast(pa.string()))
    code_N = _codes(rows, clocks)
    code_F = _codes(fits, clocks)
    # What the clock showed when the fit could be used.
    host_F = _ints(fits, "end_ns") + _ints(fits, "offset_ns") + settle_ns
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
        near = (at >= 0) & (times_N[mine_N] - host_F[mine_F][at] <= age_ns)
        place_N[mine_N[near]] = chosen[mine_F[at[near]]]
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
