CREATE TABLE IF NOT EXISTS leadline.flow_sample
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `switch` LowCardinality(String) CODEC(ZSTD(1)),
    `in_port` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `out_port` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `rate` UInt64 CODEC(Delta, ZSTD(1)),
    `frame_bytes` UInt64 CODEC(Delta, ZSTD(1)),
    `protocol` Int64 CODEC(Delta, ZSTD(1)),
    `src_ip` String CODEC(ZSTD(1)),
    `dst_ip` String CODEC(ZSTD(1)),
    `src_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_port` Int64 CODEC(Delta, ZSTD(1)),
    `dst_qp` Nullable(Int64) CODEC(Delta, ZSTD(1)),
    `dscp` Int64 CODEC(Delta, ZSTD(1)),
    `ecn` Int64 CODEC(Delta, ZSTD(1)),
    `dropped` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `flow` UInt128 CODEC(ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, flow, time_ns, switch, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(72)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
