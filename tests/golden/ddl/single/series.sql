CREATE TABLE IF NOT EXISTS leadline.series
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `series` UInt128 CODEC(ZSTD(1)),
    `name` LowCardinality(String) CODEC(ZSTD(1)),
    `entity_kind` LowCardinality(String) CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `unit` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `labels` Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    `first_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `last_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `type` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `host` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `source` LowCardinality(String) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, cluster, series)
TTL toDateTime(fromUnixTimestamp64Nano(last_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20;
