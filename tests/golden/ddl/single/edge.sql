CREATE TABLE IF NOT EXISTS leadline.edge
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `job` LowCardinality(String) CODEC(ZSTD(1)),
    `comm` LowCardinality(String) CODEC(ZSTD(1)),
    `src_rank` Int64 CODEC(Delta, ZSTD(1)),
    `dst_rank` Int64 CODEC(Delta, ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `messages` UInt64 CODEC(Delta, ZSTD(1)),
    `unpaired` UInt64 CODEC(Delta, ZSTD(1)),
    `conflicting` UInt64 CODEC(Delta, ZSTD(1)),
    `bytes` Float64 CODEC(Delta, ZSTD(1)),
    `held_s` Float64 CODEC(Delta, ZSTD(1)),
    `collectives_s` Float64 CODEC(Delta, ZSTD(1)),
    `transfer_p50_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `transfer_p99_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `delay_p50_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `delay_p99_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `bound_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `flow` Nullable(UInt128) CODEC(ZSTD(1)),
    `flows` Int64 CODEC(Delta, ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `overrules` UInt128 EPHEMERAL 0,
    `stamp` UInt128 MATERIALIZED greatest(bitOr(bitShiftLeft(toUInt128(version), 32), toUInt128(if(revision < 0, -1 - revision, revision))), overrules + 1) CODEC(ZSTD(1)),
    `taken_back` UInt8 MATERIALIZED revision < 0
)
ENGINE = ReplacingMergeTree(stamp, taken_back)
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, job, comm, end_ns, window_ns, src_rank, dst_rank, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(720)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
