CREATE TABLE IF NOT EXISTS leadline.event
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `entity_kind` LowCardinality(String) CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `severity` LowCardinality(String) CODEC(ZSTD(1)),
    `code` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `message` String CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    `source` LowCardinality(String) CODEC(ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, entity, time_ns, kind, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
