"""`GET /api/v1/samples`: what one entity measured over a span, as a plot shows it: binned, counters as rates.

    series, metric_sample ──> streams of the metric        step ──> step.seconds, step.loss, ...
    its peers (same metric, same kind) ──> median          collective ──> collective.lateness_seconds

`step.*`, `collective.*` and `telemetry.silent` are the names that anomalies give to what is told otherwise than as a
metric; so every anomaly that stands as evidence can be drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from leadline.model.errors import UsageError
from leadline.model.ids import parse_entity_id
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION, json_rows

SPAN_NS = 3600 * S  # looked at, where nothing else is asked for
SPAN_NS_MAX = 400 * 24 * 3600 * S
POINTS_MAX = 2000
STREAMS_MAX = 20  # told, by their labels; `streams_total` counts all of them
PEERS_MAX = 512  # of which the median is taken
BEFORE_NS = 120 * S  # a counter's first rate needs a value before the span
Bins = NDArray[np.int64]
Values = NDArray[np.float64]

# What `step.*` is made of; null where a step does not tell it.
_STEP = {
    "seconds": "(end_ns - start_ns - ifNull(checkpoint_ns, 0)) / 1e9",
    **{f"{phase}_seconds": f"{phase}_ns / 1e9" for phase in ("data", "forward", "backward", "optimizer", "checkpoint")},
    "samples": "samples", "tokens": "tokens", "loss": "loss",
}  # fmt: skip
STEP_METRICS = tuple(f"step.{name}" for name in _STEP)
LATENESS, SILENT = "collective.lateness_seconds", "telemetry.silent"
_UNITS = {"bytes": "By", "seconds": "s", "ratio": "1", "packets": "{packet}", "": "1"}


class StreamAnswer(BaseModel):
    """One stream: mean, smallest and largest of each bin; of a counter only the rate, as `mean`."""

    series: str
    tenant: str
    labels: dict[str, str]
    mean: list[float | None]
    low: list[float | None] | None
    high: list[float | None] | None


class PeersAnswer(BaseModel):
    """What `count` others of its kind measured: of each bin their median, and the 10th and 90th percentile."""

    count: int
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]


class SamplesAnswer(BaseModel):
    """`t_ns`: the newest sample of each bin that has any; `rate`: whether values are increases per second."""

    schema_version: int = Field(alias="schema")
    metric: str
    entity: str
    unit: str
    rate: bool
    from_ns: int
    to_ns: int
    bin_ns: int
    t_ns: list[int]
    streams: list[StreamAnswer]
    streams_total: int
    peers: PeersAnswer | None
    why: str


def samples_answer(
    store: Store, asked: Asked, metric: str, entity: str, from_ns: int, points: int = 300, peers: bool = False
) -> dict[str, Any]:
    """What `/api/v1/samples` says of [from_ns, asked.at_ns). Errors: UsageError for an entity that is none."""
    reader = _Reader(store, asked, metric, entity, from_ns, points)
    if metric in STEP_METRICS:
        found = reader.steps(metric.removeprefix("step."), peers)
    elif metric == LATENESS:
        found = reader.lateness(peers)
    elif metric == SILENT:
        found = reader.heard()
    else:
        found = reader.metric(peers)
    return {
        "schema": SCHEMA_VERSION, "metric": metric, "entity": entity, "from_ns": from_ns, "to_ns": asked.at_ns,
        "bin_ns": reader.bin_ns, **found,
    }  # fmt: skip


class _Reader:
    """Rows of one metric of one entity, by bin."""

    def __init__(self, store: Store, asked: Asked, metric: str, entity: str, from_ns: int, points: int) -> None:
        self._store, self._asked = store, asked
        self._metric, self._entity, self._id = metric, entity, parse_entity_id(entity)
        self._from_ns, self._to_ns = from_ns, asked.at_ns
        self.bin_ns = max(1, -(-(self._to_ns - from_ns) // points))

    def _query(self, sql: str, **parameters: object) -> pa.Table:
        every = {**self._asked.parameters(sql), **parameters}
        return self._store.query(sql, {name: each for name, each in every.items() if f"{{{name}:" in sql})

    def _where(self, time: str, before_ns: int = 0) -> str:
        span = f"{time} >= {self._from_ns - before_ns} AND {time} < {self._to_ns}"
        return " AND ".join([*self._asked.conditions(), span])

    def _bin(self, time: str) -> str:
        """The number of a bin; below 0 before the span."""
        return f"toInt64(floor(({time} - {self._from_ns}) / {self.bin_ns}))"

    # --- metrics ---

    def metric(self, peers: bool) -> dict[str, Any]:
        """Streams of a metric, and what its peers measured."""
        own, total = self._series("entity = {entity:String}", STREAMS_MAX)
        if not own:
            return _nothing(
                f"no stream {self._metric} of {self._entity}; `leadline show series` lists the metrics that there are"
            )
        counter = own[0]["type"] == "counter" or (own[0]["type"] is None and self._metric.endswith("_total"))
        # Streams that differ by more than their entity have no common median.
        others, _ = self._series(_PEERS, PEERS_MAX) if peers and total == 1 else ([], 0)
        rows = self._sampled([*own, *others], counter)
        own_keys = [row["key"] for row in own]
        labels = {row["key"]: row["labels"] for row in own}
        unit = metric_unit(own[0]["unit"] or "", self._metric, counter)
        found = self._told(rows, own_keys, labels, {row["key"]: row["tenant"] for row in own}, counter)
        return {**found, "unit": unit, "rate": counter, "streams_total": total}

    def _series(self, which: str, most: int) -> tuple[list[dict[str, Any]], int]:
        where = " AND ".join([*self._asked.conditions(), "name = {metric:String}", which])
        sql = (
            "SELECT toString(series) AS number, toString(tenant) AS tenant, "
            "toString(cluster) AS cluster, labels, toString(type) AS type, toString(unit) AS unit, "
            f"count() OVER () AS total FROM leadline.{SERIES.name} WHERE {where} "
            f"ORDER BY last_ns DESC, number LIMIT {most}"
        )
        rows = json_rows(self._query(sql, metric=self._metric, entity=self._entity, kind=self._id.kind))
        for row in rows:
            row["key"] = (row["tenant"], row["cluster"], row["number"])
        return sorted(rows, key=lambda row: (json.dumps(row["labels"]), row["key"])), int(
            rows[0]["total"]
        ) if rows else 0

    def _sampled(self, series: Sequence[Mapping[str, Any]], counter: bool) -> Mapping[object, _Binned]:
        """Samples by stream and bin. A tenant's ids are its own, so that tenant and cluster belong to the key."""
        owners = sorted({(row["tenant"], row["cluster"]) for row in series})
        sql = (
            f"SELECT toString(tenant) AS tenant, toString(cluster) AS cluster, toString(series) AS number, "
            f"{self._bin('time_ns')} AS bin, {_STATISTICS} FROM (SELECT *, time_ns AS at, value AS x "
            f"FROM leadline.{METRIC_SAMPLE.name} WHERE tenant IN {{tenants:Array(String)}} "
            "AND cluster IN {clusters:Array(String)} AND series IN {ids:Array(UInt128)} "
            f"AND {self._where('time_ns', BEFORE_NS if counter else 0)} AND isFinite(value)) "
            "GROUP BY tenant, cluster, number, bin ORDER BY bin"
        )
        found = self._query(
            sql, tenants=[each[0] for each in owners], clusters=[each[1] for each in owners],
            ids=[int(row["number"]) for row in series],
        )  # fmt: skip
        keys = list(zip(*(found.column(name).to_pylist() for name in ("tenant", "cluster", "number")), strict=True))
        return _binned(found, keys, counter)

    def heard(self) -> dict[str, Any]:
        """How many samples came of an entity, all its streams together, per second."""
        where = " AND ".join([*self._asked.conditions(), "entity = {entity:String}"])
        streams = f"SELECT tenant, cluster, series FROM leadline.{SERIES.name} WHERE {where}"
        sql = (
            f"SELECT '' AS k, {self._bin('time_ns')} AS bin, max(time_ns) AS last_ns, count() AS n "
            f"FROM leadline.{METRIC_SAMPLE.name} WHERE (tenant, cluster, series) IN ({streams}) "
            f"AND {self._where('time_ns')} GROUP BY bin ORDER BY bin SETTINGS final = 0"
        )
        rows = json_rows(self._query(sql, entity=self._entity))
        bins = -(-(self._to_ns - self._from_ns) // self.bin_ns)
        count = np.zeros(bins)
        for row in rows:
            count[min(int(row["bin"]), bins - 1)] += row["n"]
        mean = [round(each, 6) for each in (count / (self.bin_ns / S)).tolist()] if rows else []
        times = [self._from_ns + place * self.bin_ns for place in range(len(mean))]
        stream: dict[str, Any] = {"series": "", "tenant": "", "labels": {}, "mean": mean, "low": None, "high": None}
        return {
            "unit": "{sample}/s", "rate": True, "t_ns": times, "streams": [stream] if rows else [], "streams_total": 1,
            "peers": None, "why": "" if rows else f"no data from {self._entity} in this span",
        }  # fmt: skip

    # --- steps and collectives ---

    def steps(self, what: str, peers: bool) -> dict[str, Any]:
        """Of a rank its steps, with those of the other ranks as peers; of a job all ranks together."""
        job, rank = self._rank()
        more = "" if rank is None or peers else " AND rank = {rank:Int64}"
        steps = (
            f"SELECT rank, step, end_ns AS ended, toFloat64({_STEP[what]}) AS took FROM leadline.{STEP.name} "
            f"WHERE job = {{job:String}}{more} AND {self._where('end_ns')} AND isFinite(took)"
        )
        rows = f"SELECT rank, ended AS at, took AS x, took AS least, took AS most FROM ({steps})"
        if rank is None:
            # Ranks end a step at about one time, in one bin or two. By the minute too: a job that began again from a
            # checkpoint has the same numbers twice.
            rows = (
                "SELECT max(ended) AS at, avg(took) AS x, min(took) AS least, max(took) AS most "
                f"FROM ({steps}) GROUP BY step, intDiv(ended, {60 * S})"
            )
        of_rank = "''" if rank is None else "toString(rank)"
        statistics = _STATISTICS.replace("min(x)", "min(least)").replace("max(x)", "max(most)")
        sql = (
            f"SELECT {of_rank} AS k, {self._bin('at')} AS bin, {statistics} FROM ({rows}) GROUP BY k, bin ORDER BY bin"
        )
        unit = "s" if what.endswith("seconds") else "1"
        return self._of_ranks(self._query(sql, job=job, rank=int(rank or 0)), job, rank, unit)

    def lateness(self, peers: bool) -> dict[str, Any]:
        """How long after the median rank a rank came to its collectives; as the analysis `anomaly` counts it."""
        job, rank = self._rank()
        calls = (
            "SELECT comm, seq, rank, min(enqueued_ns) AS came_ns "
            f"FROM leadline.{COLLECTIVE.name} WHERE job = {{job:String}} AND {self._where('enqueued_ns')} "
            "GROUP BY comm, seq, rank SETTINGS final = 0"
        )
        middles = (
            "SELECT groupArray((rank, came_ns)) AS ranks, arraySort(groupArray(came_ns)) AS sorted, "
            f"sorted[intDiv(length(sorted) + 1, 2)] AS middle_ns FROM ({calls}) GROUP BY comm, seq HAVING count() >= 3"
        )
        more = "" if rank is None or peers else "WHERE k = {name:String} "
        of_rank = "toString(each.1)" if rank else "''"
        sql = (
            f"SELECT k, {self._bin('at')} AS bin, {_STATISTICS} FROM (SELECT arrayJoin(ranks) AS each, "
            f"{of_rank} AS k, each.2 AS at, (at - middle_ns) / 1e9 AS x FROM ({middles})) {more}"
            "GROUP BY k, bin ORDER BY bin"
        )
        return self._of_ranks(self._query(sql, job=job, name=rank or ""), job, rank, "s")

    def _rank(self) -> tuple[str, str | None]:
        """Job and rank of the entity. Errors: UsageError where it is neither."""
        if self._id.kind == "job":
            return self._id.name, None
        job, _, rank = self._id.name.rpartition("/")
        if self._id.kind != "rank" or not job or not rank.isdecimal():
            raise UsageError(
                f"{self._metric} is for jobs and ranks, such as `rank:bert-7/3`; got {self._entity[:200]!r}"
            )
        return job, rank

    def _of_ranks(self, found: pa.Table, job: str, rank: str | None, unit: str) -> dict[str, Any]:
        rows = _binned(found, found.column("k").to_pylist(), counter=False)
        own = [rank or ""] if (rank or "") in rows else []
        told = self._told(rows, own, {rank or "": {}}, {}, counter=False)
        why = "" if own else f"no steps or collectives of {self._entity} in this span"
        return {**told, "unit": unit, "rate": False, "streams_total": len(own), "why": why}

    # --- what is told ---

    def _told(
        self, rows: Mapping[object, _Binned], own: Sequence[object], labels: Mapping[object, Mapping[str, str]],
        tenants: Mapping[object, str], counter: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """Streams and the median of their peers, on one time axis: the bins that one of them has."""
        mine = [rows[key] for key in own if key in rows]
        bins = np.unique(np.concatenate([each.bin_B for each in mine])) if mine else np.zeros(0, np.int64)
        bins = bins[bins >= 0]
        last_T = np.full(len(bins), self._from_ns, np.int64)
        for each in mine:
            place_B, known_B = _places(bins, each.bin_B)
            np.maximum.at(last_T, place_B[known_B], each.last_B[known_B])
        streams = [
            {
                "series": f"{int(key[2]):032x}" if isinstance(key, tuple) else "",
                "tenant": tenants.get(key, ""), "labels": dict(labels[key]), "mean": _on(bins, rows[key], "mean_B"),
                "low": None if counter else _on(bins, rows[key], "low_B"),
                "high": None if counter else _on(bins, rows[key], "high_B"),
            }
            for key in own if key in rows
        ]  # fmt: skip
        others = [each for key, each in rows.items() if key not in set(own)]
        why = "" if streams else f"no sample of {self._metric} of {self._entity} in this span"
        return {"t_ns": last_T.tolist(), "streams": streams, "peers": _peers(bins, others), "why": why}


_PEERS = "entity_kind = {kind:String} AND entity != {entity:String}"
_STATISTICS = (
    "avg(x) AS mean, min(x) AS low, max(x) AS high, argMin(x, at) AS first_value, min(at) AS first_ns, "
    "argMax(x, at) AS last_value, max(at) AS last_ns"
)


class _Binned:
    """One stream by bin, in order of time."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], counter: bool) -> None:
        self.bin_B: Bins = columns["bin"]
        self.last_B: Bins = columns["last_ns"]
        self.low_B: Values = columns["low"]
        self.high_B: Values = columns["high"]
        self.mean_B: Values = _rates(columns) if counter else columns["mean"]


def _rates(columns: Mapping[str, NDArray[Any]]) -> Values:
    """Increase per second from the last value of the bin before; of the first bin from its own first value.

    A counter that went back began again at 0 (as Prometheus' `rate` has it). NaN where there is no value before.
    """
    last, last_ns = columns["last_value"], columns["last_ns"]
    before = np.concatenate([columns["first_value"][:1], last[:-1]])
    apart_s = (last_ns - np.concatenate([columns["first_ns"][:1], last_ns[:-1]])) / S
    more = np.where(last >= before, last - before, last)
    rate: Values = np.divide(more, apart_s, out=np.full(len(more), np.nan), where=apart_s > 0)
    return rate


def _binned(found: pa.Table, keys: Sequence[object], counter: bool) -> dict[object, _Binned]:
    """Rows of a query that are in order of their bin, by their stream."""
    places: dict[object, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    names = ("bin", "mean", "low", "high", "first_value", "first_ns", "last_value", "last_ns")
    columns = {name: found.column(name).to_numpy() for name in names}
    return {
        key: _Binned({name: values[some] for name, values in columns.items()}, counter) for key, some in places.items()
    }


def _places(bins: Bins, bin_B: Bins) -> tuple[Bins, NDArray[np.bool_]]:
    """Where each bin stands among `bins`, and whether it does."""
    if not len(bins):
        return np.zeros(len(bin_B), np.int64), np.zeros(len(bin_B), bool)
    place_B = np.minimum(np.searchsorted(bins, bin_B), len(bins) - 1)
    return place_B, bins[place_B] == bin_B


def _row(bins: Bins, stream: _Binned, name: str) -> Values:
    row = np.full(len(bins), np.nan)
    place_B, known_B = _places(bins, stream.bin_B)
    row[place_B[known_B]] = getattr(stream, name)[known_B]
    return row


def _on(bins: Bins, stream: _Binned, name: str) -> list[float | None]:
    return _plain(_row(bins, stream, name))


def _plain(row: Values) -> list[float | None]:
    return [float(f"{each:.6g}") if np.isfinite(each) else None for each in row.tolist()]


def _peers(bins: Bins, others: Sequence[_Binned]) -> dict[str, Any] | None:
    if not others or not len(bins):
        return None
    whole = np.stack([_row(bins, each, "mean_B") for each in others])
    some_T = ~np.isnan(whole).all(axis=0)
    found = np.full((3, len(bins)), np.nan)
    if some_T.any():
        found[:, some_T] = np.nanpercentile(whole[:, some_T], [50, 10, 90], axis=0)
    return {"count": len(others), "median": _plain(found[0]), "low": _plain(found[1]), "high": _plain(found[2])}


def _nothing(why: str) -> dict[str, Any]:
    return {"unit": "1", "rate": False, "t_ns": [], "streams": [], "streams_total": 0, "peers": None, "why": why}


def metric_unit(unit: str, metric: str, counter: bool) -> str:
    """In UCUM, as OpenTelemetry writes units; where the sender tells none, by the end of the name."""
    if not unit:
        plain = metric.removesuffix("_total")
        ends = {"_bytes": "By", "_seconds": "s", "_celsius": "Cel", "_ratio": "1", "Octets": "By"}
        unit = next((each for end, each in ends.items() if plain.endswith(end)), "1")
    unit = _UNITS.get(unit, unit)
    if unit == "bytes/s":
        return "By/s"
    if not counter:
        return unit
    return {"s": "1", "1": "1/s"}.get(unit, f"{unit}/s")
