CREATE TABLE IF NOT EXISTS leadline.watermark
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `reported_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `to_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `sender` LowCardinality(String) CODEC(ZSTD(1)),
    `job` LowCardinality(String) CODEC(ZSTD(1)),
    `ranks` Int64 CODEC(Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `heard_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `took_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(reported_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, host, sender, job, reported_ns, clock)
TTL toDateTime(fromUnixTimestamp64Nano(reported_ns, 'UTC'), 'UTC') + toIntervalHour(48)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
