CREATE TABLE IF NOT EXISTS leadline.edge_fit
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `src` LowCardinality(String) CODEC(ZSTD(1)),
    `dst` LowCardinality(String) CODEC(ZSTD(1)),
    `dst_clock` LowCardinality(String) CODEC(ZSTD(1)),
    `src_port` Int64 CODEC(Delta, ZSTD(1)),
    `class` Int64 CODEC(Delta, ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `probe_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `ahead_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `report_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `offset_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `rate_ppb` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `bound_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `width_ns` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `noise_ns` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `probes` UInt64 CODEC(Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `stamp` LowCardinality(String) CODEC(ZSTD(1)),
    `there_min_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `there_p50_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `there_p99_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `there_queue_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `there_sent` UInt64 CODEC(Delta, ZSTD(1)),
    `there_lost` UInt64 CODEC(Delta, ZSTD(1)),
    `back_min_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `back_p50_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `back_p99_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `back_queue_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `back_sent` UInt64 CODEC(Delta, ZSTD(1)),
    `back_lost` UInt64 CODEC(Delta, ZSTD(1)),
    `stall_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, src, dst, end_ns, src_port, class, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(24)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
