CREATE TABLE IF NOT EXISTS leadline.action
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `action` String CODEC(ZSTD(1)),
    `incident` Nullable(String) CODEC(ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `mode` LowCardinality(String) CODEC(ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `actor` LowCardinality(String) CODEC(ZSTD(1)),
    `reason` String CODEC(ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `before` String CODEC(ZSTD(1)),
    `after` String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, time_ns, action, state)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
