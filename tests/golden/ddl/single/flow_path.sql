CREATE TABLE IF NOT EXISTS leadline.flow_path
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `flow` UInt128 CODEC(ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `job` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `src_rank` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `dst_rank` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `src` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `dst` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `src_ip` String CODEC(ZSTD(1)),
    `dst_ip` String CODEC(ZSTD(1)),
    `protocol` Int64 CODEC(Delta, ZSTD(1)),
    `src_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_qp` Nullable(Int64) CODEC(Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `probability` Float64 CODEC(Delta, ZSTD(1)),
    `alternatives` Int64 CODEC(Delta, ZSTD(1)),
    `samples` UInt64 CODEC(Delta, ZSTD(1)),
    `contradicting` UInt64 CODEC(Delta, ZSTD(1)),
    `bytes` Float64 CODEC(Delta, ZSTD(1)),
    `low` Float64 CODEC(Delta, ZSTD(1)),
    `high` Float64 CODEC(Delta, ZSTD(1)),
    `why` String CODEC(ZSTD(1)),
    `busiest` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `busiest_bytes` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `overrules` UInt128 EPHEMERAL 0,
    `stamp` UInt128 MATERIALIZED greatest(bitOr(bitShiftLeft(toUInt128(version), 32), toUInt128(if(revision < 0, -1 - revision, revision))), overrules + 1) CODEC(ZSTD(1)),
    `taken_back` UInt8 MATERIALIZED revision < 0
)
ENGINE = ReplacingMergeTree(stamp, taken_back)
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, flow, end_ns, window_ns, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(336)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
