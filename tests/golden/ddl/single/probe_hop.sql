CREATE TABLE IF NOT EXISTS leadline.probe_hop
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `src` LowCardinality(String) CODEC(ZSTD(1)),
    `dst` LowCardinality(String) CODEC(ZSTD(1)),
    `src_port` Int64 CODEC(Delta, ZSTD(1)),
    `class` Int64 CODEC(Delta, ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `hop` Int64 CODEC(Delta, ZSTD(1)),
    `address` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, src, dst, time_ns, src_port, class, hop, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(24)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
