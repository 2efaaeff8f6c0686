"""Metric streams and their values."""

from __future__ import annotations

from leadline.model.tables.spec import (
    DAY,
    F64,
    I64,
    MAP,
    SYM,
    U64,
    U128,
    Column,
    Identity,
    Partition,
    Table,
)

SERIES = Table(
    "series",
    doc="One metric stream: its name, its labels and the entity it describes.",
    own=(
        Column("series", U128, None, "id: 128-bit hash over the sorted labels, first that of the name"),
        Column("name", SYM, None, "metric name, as it came"),
        Column("entity_kind", SYM, None, "kind of the entity it describes; empty if not recognised"),
        Column("entity", SYM, None, "entity it describes, `gpu:GPU-5c1e`; empty if not recognised"),
        Column("unit", SYM, None, "unit of the values, where the sender says it", nullable=True),
        Column("labels", MAP, None, "all labels as they came, without the name"),
        Column("first_ns", I64, "ns", "first sample seen"),
        Column("last_ns", I64, "ns", "last sample seen; brought up to date at most once an hour"),
        Column("type", SYM, None, "counter, gauge, histogram, summary, info; null if unknown", nullable=True),
        Column("host", SYM, None, "host the entity belongs to, where the labels say it", nullable=True),
        Column("source", SYM, None, "how it arrived: remote-write, scrape, otlp, agent"),
    ),
    order=("series",),
    time="last_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="exporters, OTLP, remote-write, agent",
    partition=Partition.NONE,
)

METRIC_SAMPLE = Table(
    "metric_sample",
    doc="One value of one metric stream. A second sample with the same series and time replaces the first.",
    own=(
        Column("series", U128, None, "the stream, see `series`"),
        Column("time_ns", I64, "ns", "time the sender gave it"),
        Column("value", F64, None, "the value; Prometheus' stale marker is kept as the NaN it is"),
    ),
    order=("series", "time_ns"),
    time="time_ns",
    keep_hours=30 * DAY,
    identity=Identity.KEY,
    written_by="exporters, OTLP, remote-write, agent",
    partition=Partition.DAY,
)

METRIC_ROLLUP = Table(
    "metric_rollup",
    doc="A metric stream by 5 minutes, made shortly before its raw samples are dropped.",
    own=(
        Column("series", U128, None, "the stream, see `series`"),
        Column("time_ns", I64, "ns", "begin of the 5 minutes"),
        Column("count", U64, "1", "samples that are numbers (stale markers and NaN are left out)"),
        Column("minimum", F64, None, "smallest value"),
        Column("maximum", F64, None, "largest value"),
        Column("sum", F64, None, "sum of values"),
        Column("last", F64, None, "last value: what a counter's increase is computed from"),
    ),
    order=("series", "time_ns"),
    time="time_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="store",
)
