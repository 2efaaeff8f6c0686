"""What is judged: R streams of numbers, each of an entity and a metric, from series and from steps and collectives.

series, metric_sample ──┐
step ───────────────────┼──> Streams: entity, metric, kind, and samples in order of stream and time ──> `grids`
collective ─────────────┘
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.anomaly.kinds import Kind, metric_kind
from leadline.analysis.columns import Bools, Codes, Floats, Ints, codes, floats, ids, ints
from leadline.analysis.spec import S
from leadline.model.ids import kind_of

VALUE_MAX = 1e150  # what is larger is no measurement, and its square is not finite
SPAN_MAX_NS = 1 << 41  # of the samples that one window looks at: rows and times below it sort as one number


@dataclass(slots=True)
class Names:
    """Things by number, in the order in which they were named: (tenant, text)."""

    keys: list[tuple[str, str]] = field(default_factory=list)
    _number: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, tenant: str, text: str) -> int:
        """The number of a thing; a new one if it was not named before."""
        found = self._number.setdefault((tenant, text), len(self.keys))
        if found == len(self.keys):
            self.keys.append((tenant, text))
        return found


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of R streams, in order of stream and time: those of r are begin_R[r] to begin_R[r + 1]."""

    begin_R: Ints  # R + 1
    time_N: Ints
    value_N: Floats


@dataclass(frozen=True, slots=True)
class Streams:
    """R streams. `kinds[kind_R[r]]` is how r is judged; `label_R` numbers `labels`, the labels that tell it from the
    entity's other streams of its name (empty where it is the only one)."""

    entity_R: Ints  # into `entities`
    metric_R: Ints  # into `metrics`
    label_R: Ints  # into `labels`
    role_R: Ints  # `label_R` with numbers made alike, so that those of one role on other entities have the same
    counter_R: Bools
    entities: Names
    metrics: list[str]
    kinds: list[Kind]  # of each metric
    labels: list[str]
    samples: Samples
    bound_R: Ints  # of the clock of its entity, ns; -1: not known

    def __len__(self) -> int:
        return len(self.entity_R)


def in_order(row_N: Ints, rows: int, time_N: Ints, value_N: Floats) -> Samples:
    """Samples in order; of several of one stream and time the one with the largest value counts."""
    good_N = np.isfinite(value_N) & (np.abs(value_N) < VALUE_MAX) & (row_N >= 0)
    if not good_N.all():
        row_N, time_N, value_N = row_N[good_N], time_N[good_N], value_N[good_N]
    order_N = _order(row_N, rows, time_N, value_N)
    if order_N is not None:
        row_N, time_N, value_N = row_N[order_N], time_N[order_N], value_N[order_N]
    last_N = np.ones(len(row_N), bool)
    last_N[:-1] = (row_N[1:] != row_N[:-1]) | (time_N[1:] != time_N[:-1])
    if not last_N.all():
        row_N, time_N, value_N = row_N[last_N], time_N[last_N], value_N[last_N]
    begin_R = np.searchsorted(row_N, np.arange(rows + 1)).astype(np.int64)
    return Samples(begin_R, np.ascontiguousarray(time_N), np.ascontiguousarray(value_N))


def _order(row_N: Ints, rows: int, time_N: Ints, value_N: Floats) -> Ints | None:
    """The order by row, time, value; None where it is that already, as the rows of a store often are."""
    base_ns = int(time_N.min()) if len(time_N) else 0
    last_ns = int(time_N.max()) if len(time_N) else 0
    if last_ns - base_ns >= SPAN_MAX_NS or rows >= 1 << 21:
        return np.lexsort((value_N, time_N, row_N))
    place_N = (row_N << 41) | (time_N - base_ns)  # one number: a fifth of the time of sorting by two columns
    if (place_N[1:] > place_N[:-1]).all():
        return None
    order_N = np.argsort(place_N, kind="stable")
    ordered_N = place_N[order_N]
    return np.lexsort((value_N, place_N)) if (ordered_N[1:] == ordered_N[:-1]).any() else order_N


# --- metrics ----------------------------------------------------------------------------------------------------


def metric_streams(series: pa.Table, sample: pa.Table, from_ns: int, to_ns: int) -> Streams:
    """The series of known entities that say something of health, with their samples in [from, to).

    What a program says of itself (`service:...`) is told of the host that it runs on. Of the same series twice one
    counts.
    """
    name, kind_name, host = codes(series, "name"), codes(series, "type"), codes(series, "host")
    entity, tenant = codes(series, "entity"), codes(series, "tenant")
    kinds = [metric_kind(each) for each in name.names]
    judged_S = np.array([*(each is not None for each in kinds), False], bool)[name.code_N]
    judged_S &= (entity.code_N >= 0) & np.array([*map(bool, entity.names), False])[entity.code_N]
    chosen_K = np.flatnonzero(judged_S)
    key_K = _keys(series, tenant.names)[chosen_K]
    # Ids are hashes: 64 bits of them tell 10**5 series apart but for 3e-10.
    order_K = np.lexsort((name.code_N[chosen_K], entity.code_N[chosen_K], host.code_N[chosen_K], key_K))
    first_K = np.ones(len(order_K), bool)
    first_K[1:] = key_K[order_K][1:] != key_K[order_K][:-1]
    row_R, key_R = chosen_K[order_K[first_K]], key_K[order_K[first_K]]
    samples = _samples(sample, tenant.names, key_R, from_ns, to_ns)
    full_R = np.flatnonzero(np.diff(samples.begin_R) > 0)
    row_R = row_R[full_R]
    samples = Samples(samples.begin_R[np.append(full_R, len(key_R))], samples.time_N, samples.value_N)
    entities = Names()
    entity_R = _entities(entities, entity.names, tenant.names, host.names,
                         entity.code_N[row_R], tenant.code_N[row_R], host.code_N[row_R])  # fmt: skip
    _of_switches(series, row_R, entities, entity_R, name)
    metric_R, metrics = _renumbered(name.code_N[row_R], name.names)
    is_counter = {place for place, text in enumerate(kind_name.names) if text == "counter"}
    untold = {place for place, text in enumerate(kind_name.names) if text == "unknown"} | {-1}
    type_R = kind_name.code_N[row_R]
    total_R = np.array([text.endswith("_total") for text in metrics] + [False])[metric_R]
    counter_R = np.isin(type_R, list(is_counter)) | (np.isin(type_R, list(untold)) & total_R)
    label_R, role_R, labels = _labels(series, row_R, entity_R, metric_R)
    return Streams(entity_R, metric_R, label_R, role_R, counter_R, entities, metrics,
                   [_known(each) for each in metrics], labels, samples, np.full(len(row_R), -1, np.int64))  # fmt: skip


def _known(name: str) -> Kind:
    found = metric_kind(name)
    assert found is not None, f"{name} is judged, and has no kind"
    return found


def _renumbered(code_N: Ints, names: list[str]) -> tuple[Ints, list[str]]:
    used_U, place_N = np.unique(code_N, return_inverse=True)
    return place_N.reshape(-1).astype(np.int64), [names[each] for each in used_U.tolist()]


def _entities(
    entities: Names, names: list[str], tenants: list[str], hosts: list[str],
    entity_R: Ints, tenant_R: Ints, host_R: Ints,
) -> Ints:  # fmt: skip
    width, more = len(tenants) + 1, len(hosts) + 1
    service = np.array([*(kind_of(text) == "service" for text in names), False], bool)
    host_R = np.where(service[entity_R], host_R, -1)
    pair_R = (entity_R * width + tenant_R + 1) * more + host_R + 1
    pair_U, back_R = np.unique(pair_R, return_inverse=True)
    found_U = np.zeros(len(pair_U), np.int64)
    for place, pair in enumerate(pair_U.tolist()):
        rest, host = divmod(pair, more)
        entity, tenant = divmod(rest, width)
        text = f"host:{hosts[host - 1]}" if host and hosts[host - 1] else names[entity]
        found_U[place] = entities.number(tenants[tenant - 1] if tenant else "", text)
    found_R: Ints = found_U[back_R.reshape(-1)]
    return found_R


def _of_switches(series: pa.Table, row_R: Ints, entities: Names, entity_R: Ints, name: Codes) -> None:
    """Put what is told of scrape targets that are switches (label `switch`) down to the switch, not to its address."""
    scraped = [place for place, text in enumerate(name.names) if text == "up" or text.startswith("scrape_")]
    of_target = np.flatnonzero(np.isin(name.code_N[row_R], scraped))
    maps = series["labels"].take(pa.array(row_R[of_target], pa.int64())).to_pylist()
    for place, labels in zip(of_target.tolist(), maps, strict=True):
        switch = dict(labels or ()).get("switch")
        if switch:
            tenant, _ = entities.keys[int(entity_R[place])]
            entity_R[place] = entities.number(tenant, f"switch:{switch}")


def _labels(series: pa.Table, row_R: Ints, entity_R: Ints, metric_R: Ints) -> tuple[Ints, Ints, list[str]]:
    """Labels that differ between an entity's streams of one name, as `key=value, ...`, and with their numbers alike."""
    label_R, role_R = np.zeros(len(row_R), np.int64), np.zeros(len(row_R), np.int64)
    _, group_R, count_G = np.unique(
        entity_R * (int(metric_R.max(initial=0)) + 1) + metric_R, return_inverse=True, return_counts=True
    )
    group_R = group_R.reshape(-1)
    many_K = np.flatnonzero(count_G[group_R] > 1)
    if not len(many_K):
        return label_R, role_R, [""]
    place_P, pair_P, pairs = _pairs(series, row_R[many_K])  # P = labels of all of these series
    group_P = group_R[many_K][place_P]
    key_P = group_P * len(pairs) + pair_P
    _, back_P, times_P = np.unique(key_P, return_inverse=True, return_counts=True)
    differs_P = times_P[back_P.reshape(-1)] < count_G[group_P]
    texts = [""] * len(many_K)
    some_P = np.flatnonzero(differs_P)
    for place, pair in zip(place_P[some_P].tolist(), pair_P[some_P].tolist(), strict=True):
        texts[place] = f"{texts[place]}, {pairs[pair]}" if texts[place] else pairs[pair]
    names = sorted({"", *texts})
    label_of = {each: place for place, each in enumerate(names)}
    roles = sorted({_alike(each) for each in names})
    role_L = np.array([roles.index(_alike(each)) for each in names], np.int64)
    label_R[many_K] = [label_of[each] for each in texts]
    role_R[:] = role_L[label_R]
    return label_R, role_R, names


def _alike(text: str) -> str:
    return re.sub(r"[0-9]+", "#", text)


def _pairs(series: pa.Table, row_K: Ints) -> tuple[Ints, Ints, list[str]]:
    """The labels of some series: which of them each is of, and its number among the distinct `key=value`; by series,
    and of each in the order of their texts, each once."""
    maps = series["labels"].take(pa.array(row_K, pa.int64())).combine_chunks()
    if isinstance(maps, pa.ChunkedArray):
        maps = pa.concat_arrays(maps.chunks) if maps.num_chunks else pa.array([], maps.type)
    place_P = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    keys, items = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    told = pc.binary_join_element_wise(keys.cast(pa.string()), pc.fill_null(items.cast(pa.string()), ""), "=")
    pair = codes(pa.table({"pair": told}), "pair")
    key_P = np.unique(place_P * (len(pair.names) + 1) + pair.code_N)
    place_P, pair_P = np.divmod(key_P, len(pair.names) + 1)
    return place_P, pair_P, pair.names


def _keys(table: pa.Table, tenants: list[str]) -> NDArray[np.uint64]:
    """Tenant and series as one number. Of one tenant in the order of the store, which is that of an id's bytes."""
    tenant = codes(table, "tenant")
    known = {name: place for place, name in enumerate(tenants)}
    place_T = np.array([known.get(name, len(tenants) + 1) for name in tenant.names] + [len(tenants)], np.uint64)
    id_N2 = ids(table, "series")
    mixed: NDArray[np.uint64] = id_N2[:, 0].byteswap()
    if len(tenants) > 1:
        mixed ^= place_T[tenant.code_N] * np.uint64(0xC2B2AE3D27D4EB4F)
    return mixed


def _samples(
    table: pa.Table, tenants: list[str], key_R: NDArray[np.uint64], from_ns: int, to_ns: int
) -> Samples:  # fmt: skip
    """Samples of the series with these keys, which are in order. Rows of one series that follow each other are looked
    up once: the store has them so."""
    rows = len(key_R)
    key_N, time_N = _keys(table, tenants), ints(table, "time_ns")
    if not rows or not len(key_N):
        return Samples(np.zeros(rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    first_N = np.ones(len(key_N), bool)
    first_N[1:] = key_N[1:] != key_N[:-1]
    begin_B = np.flatnonzero(first_N)  # B = runs of rows of one series
    key_B = key_N[begin_B]
    row_B = np.minimum(np.searchsorted(key_R, key_B), rows - 1)
    row_B = np.where(key_R[row_B] == key_B, row_B, -1)
    row_N = np.repeat(row_B, np.diff(np.append(begin_B, len(key_N))))
    row_N = np.where((time_N >= from_ns) & (time_N < to_ns), row_N, -1)
    return in_order(row_N, rows, time_N, floats(table, "value"))


# --- steps and collectives ----------------------------------------------------------------------------------------

_PHASES = ("data", "forward", "backward", "optimizer", "checkpoint")
_WORK = ("samples", "tokens")
_ORDER_S = 2**-30  # seconds are rounded to it, so that sums do not depend on their order


def ranks_of(table: pa.Table, entities: Names) -> Ints:
    """The rank of each row of a table with `tenant`, `job` and `rank`, as an entity; -1 where its job is not told."""
    tenant, job, rank_N = codes(table, "tenant"), codes(table, "job"), ints(table, "rank")
    rank_U, place_N = np.unique(rank_N, return_inverse=True)
    width, jobs = len(rank_U), len(job.names) + 1
    key_U, back_N = np.unique(
        ((tenant.code_N + 1) * jobs + job.code_N + 1) * width + place_N.reshape(-1), return_inverse=True
    )
    found_U = np.full(len(key_U), -1, np.int64)
    for place, key in enumerate(key_U.tolist()):
        whose, which = key // width // jobs - 1, key // width % jobs - 1
        rank = int(rank_U[key % width])
        if which >= 0 and job.names[which] and rank >= 0:
            found_U[place] = entities.number(
                tenant.names[whose] if whose >= 0 else "", f"rank:{job.names[which]}/{rank}"
            )
    found_N: Ints = found_U[back_N.reshape(-1)] if len(key_U) else np.zeros(0, np.int64)
    return found_N


@dataclass(frozen=True, slots=True)
class Derived:
    """Samples of one metric of some entities; `bound_N`: of the clock, -1 where it is not known."""

    metric: str
    entity_N: Ints
    time_N: Ints
    value_N: Floats
    bound_N: Ints


def step_streams(step: pa.Table, entities: Names, from_ns: int, to_ns: int) -> list[Derived]:
    """`step.seconds`, the seconds of each phase, and how much work it was, of each rank, at the end of the step."""
    begin_N, end_N = ints(step, "start_ns"), ints(step, "end_ns")
    entity_N = ranks_of(step, entities)
    whole_N = (end_N >= begin_N) & (begin_N > from_ns - SPAN_MAX_NS) & (end_N >= from_ns) & (end_N < to_ns)
    entity_N = np.where(whole_N, entity_N, -1)
    bound_N = ints(step, "bound_ns")
    length_N = np.where(whole_N, end_N - np.where(whole_N, begin_N, end_N), 0)
    found = []
    checkpoint_N = ints(step, "checkpoint_ns", 0)
    found.append(Derived("step.seconds", entity_N, end_N, (length_N - np.clip(checkpoint_N, 0, length_N)) / S, bound_N))
    for phase in _PHASES:
        value_N = floats(step, f"{phase}_ns") / S
        told_N = ~np.isnan(value_N)
        if told_N.any():
            found.append(Derived(f"step.{phase}_seconds", np.where(told_N, entity_N, -1), end_N, value_N, bound_N))
    for what in _WORK:
        value_N = floats(step, what)
        told_N = np.isfinite(value_N)
        if told_N.any():
            found.append(Derived(f"step.{what}", np.where(told_N, entity_N, -1), end_N, value_N, bound_N))
    return found


def collective_streams(collective: pa.Table, entities: Names, from_ns: int, to_ns: int) -> list[Derived]:
    """`collective.lateness_seconds` of each rank: how long after the median rank it came to a collective.

    Only collectives of which at least three ranks are known count, each rank once (its first row: asked for).
    """
    at_N = ints(collective, "enqueued_ns")
    entity_N = ranks_of(collective, entities)
    comm, seq_N = codes(collective, "comm"), ints(collective, "seq")
    tenant = codes(collective, "tenant")
    ok_N = (entity_N >= 0) & (at_N >= from_ns) & (at_N < to_ns) & (comm.code_N >= 0)
    rows = np.flatnonzero(ok_N)
    order = np.lexsort((at_N[rows], entity_N[rows], seq_N[rows], comm.code_N[rows], tenant.code_N[rows]))
    rows = rows[order]
    same_call = _same(tenant.code_N[rows], comm.code_N[rows], seq_N[rows])
    once = ~(same_call & _same(entity_N[rows]))
    rows = rows[once]
    call_N = np.cumsum(~_same(tenant.code_N[rows], comm.code_N[rows], seq_N[rows])) - 1
    by_time = np.lexsort((entity_N[rows], at_N[rows], call_N))
    rows, call_N = rows[by_time], call_N[by_time]
    count_C = np.bincount(call_N) if len(call_N) else np.zeros(0, np.int64)
    begin_C = np.cumsum(count_C) - count_C
    median_C = at_N[rows][begin_C + (count_C - 1) // 2] if len(rows) else np.zeros(0, np.int64)
    many = count_C[call_N] >= 3 if len(rows) else np.zeros(0, bool)
    rows, call_N = rows[many], call_N[many]
    late_N = (at_N[rows] - median_C[call_N]) / S
    bound_N = ints(collective, "bound_ns")[rows]
    return [Derived("collective.lateness_seconds", entity_N[rows], at_N[rows], late_N, bound_N)]


def _same(*columns: Ints) -> Bools:
    """Rows that are as the one before them in all these columns."""
    same = np.zeros(len(columns[0]), bool)
    if len(same):
        same[1:] = np.logical_and.reduce([each[1:] == each[:-1] for each in columns])
    return same


def with_derived(streams: Streams, derived: list[Derived]) -> Streams:
    """Streams of series and of what was derived, one after the other."""
    parts = [streams.samples]
    metrics, kinds = list(streams.metrics), list(streams.kinds)
    entity, metric, bound = [streams.entity_R], [streams.metric_R], [streams.bound_R]
    for each in derived:
        kept = np.flatnonzero(each.entity_N >= 0)
        entity_U, row_K = np.unique(each.entity_N[kept], return_inverse=True)
        samples = in_order(row_K.reshape(-1), len(entity_U), each.time_N[kept], each.value_N[kept])
        full = np.flatnonzero(np.diff(samples.begin_R) > 0)
        if not len(full):
            continue
        widest_U = np.full(len(entity_U), -1, np.int64)
        np.maximum.at(widest_U, row_K.reshape(-1), each.bound_N[kept])
        parts.append(Samples(samples.begin_R[np.append(full, len(entity_U))], samples.time_N, samples.value_N))
        entity.append(entity_U[full])
        metric.append(np.full(len(full), len(metrics)))
        bound.append(widest_U[full])
        metrics.append(each.metric)
        kinds.append(_known(each.metric))
    count = sum(len(each) for each in entity)
    begin = [np.zeros(1, np.int64)]
    at = 0
    for part in parts:
        begin.append(part.begin_R[1:] + at)
        at += len(part.time_N)
    more = count - len(streams)
    zeros = np.zeros(more, np.int64)
    return Streams(
        np.concatenate(entity), np.concatenate(metric), np.append(streams.label_R, zeros),
        np.append(streams.role_R, zeros), np.append(streams.counter_R, zeros.astype(bool)), streams.entities, metrics,
        kinds, streams.labels,
        Samples(np.concatenate(begin), np.concatenate([part.time_N for part in parts]),
                np.concatenate([part.value_N for part in parts])),
        np.concatenate(bound),
    )  # fmt: skip
