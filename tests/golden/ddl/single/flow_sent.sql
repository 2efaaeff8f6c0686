CREATE TABLE IF NOT EXISTS leadline.flow_sent
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `flow` UInt128 CODEC(ZSTD(1)),
    `protocol` Int64 CODEC(Delta, ZSTD(1)),
    `src_ip` String CODEC(ZSTD(1)),
    `dst_ip` String CODEC(ZSTD(1)),
    `src_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_qp` Nullable(Int64) CODEC(Delta, ZSTD(1)),
    `packets` UInt64 CODEC(Delta, ZSTD(1)),
    `again` UInt64 CODEC(Delta, ZSTD(1)),
    `needless` Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    `timeouts` Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    `bytes` UInt64 CODEC(Delta, ZSTD(1)),
    `acked_bytes` Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    `busy_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `rtt_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `rtt_var_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `rtt_min_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `delivery_bps` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, flow, time_ns, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(72)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
