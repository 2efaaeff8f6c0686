"""What there is to hold against bounds: metric series, and what steps, collectives, the ledger, clocks and ECMP say.

All become the same: R streams, each with an entity, a name, and samples in order of time (`seconds.Samples`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Floats, Ints, codes, floats, ids, ints
from leadline.analysis.sle.scope import Entities
from leadline.analysis.sle.seconds import NS_MIN, Samples, in_order
from leadline.model.ids import name_of
from leadline.model.units import S

LOSSES = 20  # steps that `loss_spread` looks at
COUNTER = "counter"
# A span of this many ns is more than a look-back; rows and times below it sort as one number.
_TIME_BITS = 41


@dataclass(frozen=True, slots=True)
class Streams:
    """R streams of values."""

    entity_R: Ints
    metric_R: Ints  # into `metrics`
    metrics: list[str]
    samples: Samples
    host_R: Ints  # entity of the host that a series names, -1 where it names none
    counter_R: Bools
    labels: Callable[[Ints], list[tuple[tuple[str, str], ...]]]  # of some streams, in order of name


def no_labels(rows_K: Ints) -> list[tuple[tuple[str, str], ...]]:
    """The labels of streams that are no series."""
    return [()] * len(rows_K)


def streams_of(entity_N: Ints, name: str, time_N: Ints, since_N: Ints, value_N: Floats) -> Streams:
    """One stream of each entity that has rows; those of entity -1 are left out."""
    keep_N = (entity_N >= 0) & (time_N > NS_MIN) & (since_N > NS_MIN) & (time_N < -NS_MIN)
    entity_R, row_N = np.unique(entity_N[keep_N], return_inverse=True)
    count = len(entity_R)
    samples = in_order(row_N.reshape(-1), count, time_N[keep_N], since_N[keep_N], value_N[keep_N])
    none_R = np.full(count, -1, np.int64)
    return Streams(entity_R, np.zeros(count, np.int64), [name], samples, none_R, np.zeros(count, bool), no_labels)


# --- metrics ----------------------------------------------------------------------------------------------------


def metric_streams(
    series: pa.Table, sample: pa.Table, entities: Entities, wanted: Callable[[str, str], bool], from_ns: int, to_ns: int
) -> Streams:
    """The series that are wanted (by name and kind of entity) and have samples in [from, to)."""
    chosen = np.flatnonzero(_wanted(series, wanted))
    entity_K = entities.numbers(series, "entity")[chosen]
    host_K = entities.numbers(series, "host", "host:")[chosen]
    name, kind = codes(series, "name"), codes(series, "type")
    key_K = _keys(series, _tenants(series, sample))[chosen]
    order_K = np.lexsort((entity_K, name.code_N[chosen], key_K))
    first_K = np.ones(len(order_K), bool)
    first_K[1:] = key_K[order_K][1:] != key_K[order_K][:-1]
    rows_R = order_K[first_K]  # of the same series twice one counts
    key_R = key_K[rows_R]
    samples = _samples(sample, _tenants(series, sample), key_R, from_ns, to_ns)
    full_R = np.flatnonzero(np.diff(samples.begin_R) > 0)
    at_R = chosen[rows_R][full_R]

    def labels(rows_K: Ints) -> list[tuple[tuple[str, str], ...]]:
        maps = series["labels"].take(pa.array(at_R[rows_K], pa.int64())).to_pylist()
        return [tuple(sorted((key, value or "") for key, value in each or ())) for each in maps]

    return Streams(
        entity_K[rows_R][full_R], name.code_N[at_R], name.names, samples.of(full_R), host_K[rows_R][full_R],
        kind.code_N[at_R] == kind.places().get(COUNTER, -2), labels,
    )  # fmt: skip


def _wanted(series: pa.Table, wanted: Callable[[str, str], bool]) -> Bools:
    name, kind = codes(series, "name"), codes(series, "entity_kind")
    width = len(kind.names) + 1
    pair_N = (name.code_N + 1) * width + kind.code_N + 1
    pair_U, back_N = np.unique(pair_N, return_inverse=True)
    found_U = np.zeros(len(pair_U), bool)
    for place, pair in enumerate(pair_U.tolist()):
        text, of = pair // width - 1, pair % width - 1
        found_U[place] = text >= 0 and wanted(name.names[text], kind.names[of] if of >= 0 else "")
    return found_U[back_N.reshape(-1)] if len(pair_U) else np.zeros(0, bool)


def _tenants(*tables: pa.Table) -> dict[str, int]:
    names = sorted({name for table in tables for name in codes(table, "tenant").names})
    return {name: place for place, name in enumerate(names)}


def _keys(table: pa.Table, tenants: dict[str, int]) -> NDArray[np.uint64]:
    """Tenant and series as one number. Ids are hashes, so 64 bits of them tell 10**5 series apart but for 3e-10."""
    tenant = codes(table, "tenant")
    place_T = np.array([tenants[name] for name in tenant.names] + [len(tenants)], np.uint64)
    id_N2 = ids(table, "series")
    mixed: NDArray[np.uint64] = id_N2[:, 0] ^ (id_N2[:, 1] * np.uint64(0x9E3779B97F4A7C15))
    return mixed ^ (place_T[tenant.code_N] * np.uint64(0xC2B2AE3D27D4EB4F))


def _samples(table: pa.Table, tenants: dict[str, int], key_R: NDArray[np.uint64], from_ns: int, to_ns: int) -> Samples:
    """Samples of the series with these keys, which are in order."""
    rows = len(key_R)
    key_N, time_N = _keys(table, tenants), ints(table, "time_ns")
    row_N = np.searchsorted(key_R, key_N)
    kept_N = np.flatnonzero((row_N < rows) & (time_N >= from_ns) & (time_N < to_ns))
    kept_N = kept_N[key_R[row_N[kept_N]] == key_N[kept_N]]
    row_N, time_N, value_N = row_N[kept_N], time_N[kept_N], floats(table, "value")[kept_N]
    if to_ns - from_ns >= 1 << _TIME_BITS or rows >= 1 << (62 - _TIME_BITS):
        return in_order(row_N, rows, time_N, time_N, value_N)
    place_N = (row_N << _TIME_BITS) | (time_N - from_ns)  # a fifth of the time of sorting by two columns
    order_N = np.argsort(place_N, kind="stable")
    place_N = place_N[order_N]
    if len(place_N) and (place_N[1:] == place_N[:-1]).any():
        return in_order(row_N, rows, time_N, time_N, value_N)
    row_N, time_N = row_N[order_N], time_N[order_N]
    begin_R = np.searchsorted(row_N, np.arange(rows + 1)).astype(np.int64)
    return Samples(begin_R, time_N, time_N, value_N[order_N])


# --- what is not a metric ---------------------------------------------------------------------------------------


def ranks_of(table: pa.Table, entities: Entities) -> Ints:
    """The rank of each row of a table with `tenant`, `job` and `rank`, as an entity."""
    job_N, rank_N = entities.numbers(table, "job", "job:"), ints(table, "rank")
    pair_U2, back_N = np.unique(np.column_stack([job_N, rank_N]), axis=0, return_inverse=True)
    found_U = np.full(len(pair_U2), -1, np.int64)
    for place, (job, rank) in enumerate(pair_U2.tolist()):
        if job >= 0:
            name = f"rank:{name_of(entities.names[job])}/{rank}"
            found_U[place] = entities.number(entities.tenants[job], name)
    return found_U[back_N.reshape(-1)] if len(pair_U2) else np.zeros(0, np.int64)


def step_streams(step: pa.Table, rank_N: Ints, field: str) -> Streams:
    """A field of the steps of each rank: seconds, the loss, or how much it moved over the last steps."""
    begin_N, end_N = ints(step, "start_ns"), ints(step, "end_ns")
    whole_N = end_N >= begin_N
    if field in ("step_s", "age_s"):
        with np.errstate(over="ignore"):
            value_N = (end_N - begin_N) / S
    elif field in ("loss", "loss_spread"):
        value_N = floats(step, "loss")
        told_N = pc.is_valid(step["loss"]).to_numpy()
        whole_N &= told_N
        value_N = np.where(np.isfinite(value_N), value_N, np.inf)  # a loss that is no number is above any bound
    else:
        value_N = floats(step, field.removesuffix("_s") + "_ns") / S
        whole_N &= ~np.isnan(value_N)
    entity_N = np.where(whole_N, rank_N, -1)
    found = streams_of(entity_N, f"step.{field}", end_N, begin_N, value_N)
    return _spread(found) if field == "loss_spread" else found


def _spread(losses: Streams) -> Streams:
    """(largest - smallest) / median size of the last steps' losses; streams with fewer steps have no value yet."""
    samples = losses.samples
    value_N = np.full(len(samples.value_N), np.nan)
    if len(value_N) >= LOSSES:
        last_N = np.lib.stride_tricks.sliding_window_view(samples.value_N, LOSSES)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread_N = np.ptp(last_N, axis=1) / np.median(np.abs(last_N), axis=1)
        inside_N = samples.row_N[LOSSES - 1 :] == samples.row_N[: len(spread_N)]
        value_N[LOSSES - 1 :] = np.where(inside_N, np.where(np.isnan(spread_N), 0.0, spread_N), np.nan)
    kept_N = np.flatnonzero(~np.isnan(value_N))
    entity_N = losses.entity_R[samples.row_N[kept_N]]
    return streams_of(entity_N, losses.metrics[0], samples.time_N[kept_N], samples.since_N[kept_N], value_N[kept_N])


def ledger_streams(ledger: pa.Table, entities: Entities, category: str) -> Streams:
    """The share of each job's seconds that went to a category, or was lost, by window of the ledger."""
    job_N, end_N = entities.numbers(ledger, "job", "job:"), ints(ledger, "end_ns")
    name = codes(ledger, "category")
    seconds_N = _ticks(floats(ledger, "seconds"))
    if category == "lost":
        part_N = _ticks(floats(ledger, "lost_seconds"))
    else:
        part_N = np.where(name.code_N == name.places().get(category, -2), seconds_N, 0)
    key_U3, back_N = np.unique(np.column_stack([job_N, end_N, ints(ledger, "window_ns")]), axis=0, return_inverse=True)
    back_N = back_N.reshape(-1)
    whole_U, part_U = np.zeros(len(key_U3), np.int64), np.zeros(len(key_U3), np.int64)
    np.add.at(whole_U, back_N, seconds_N)
    np.add.at(part_U, back_N, part_N)
    entity_U = np.where(whole_U > 0, key_U3[:, 0], -1)
    share_U = np.clip(part_U / np.maximum(whole_U, 1), 0.0, 1.0)
    since_U = key_U3[:, 1] - np.clip(key_U3[:, 2], 0, 3600 * S)
    return streams_of(entity_U, f"ledger.{category}", key_U3[:, 1], since_U, share_U)


def _ticks(seconds_N: Floats) -> Ints:
    """Seconds as whole ticks of the ledger, so that their sums do not depend on order."""
    return np.rint(np.nan_to_num(np.clip(seconds_N, 0.0, 1e6)) * 2.0**20).astype(np.int64)


def clock_streams(clock_fit: pa.Table, entities: Entities, field: str) -> Streams:
    """How well each host's clock is known, or how far it is off, by window of the solver."""
    end_N = ints(clock_fit, "end_ns")
    with np.errstate(over="ignore"):
        value_N = np.abs(ints(clock_fit, "bound_ns" if field == "bound_s" else "offset_ns").astype(np.float64)) / S
    return streams_of(entities.numbers(clock_fit, "host", "host:"), f"clock.{field}", end_N, end_N - 10 * S, value_N)


def ecmp_streams(ecmp: pa.Table, entities: Entities) -> Streams:
    """How evenly each switch spread bytes, by window; its least even group that has flows enough to be even."""
    end_N, flows_N = ints(ecmp, "end_ns"), ints(ecmp, "flows")
    links_N = pc.fill_null(pc.list_value_length(ecmp["links"]), 0).to_numpy().astype(np.int64)
    few_N = flows_N < 4 * links_N  # three balls into four bins are not even, and nobody's fault
    uneven_N = np.where(few_N, 0.0, 1.0 - np.nan_to_num(floats(ecmp, "efficiency"), nan=1.0))
    since_N = end_N - np.clip(ints(ecmp, "window_ns"), 0, 3600 * S)
    found = streams_of(entities.numbers(ecmp, "switch", "switch:"), "ecmp.efficiency", end_N, since_N, uneven_N)
    even = Samples(found.samples.begin_R, found.samples.time_N, found.samples.since_N, 1.0 - found.samples.value_N)
    return Streams(found.entity_R, found.metric_R, found.metrics, even, found.host_R, found.counter_R, no_labels)
