CREATE TABLE IF NOT EXISTS leadline.analysis_run
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `part` LowCardinality(String) CODEC(ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `rows_in` UInt64 CODEC(Delta, ZSTD(1)),
    `rows_out` UInt64 CODEC(Delta, ZSTD(1)),
    `digest` UInt128 CODEC(ZSTD(1)),
    `took_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `error` String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, analysis, end_ns, part, window_ns)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
