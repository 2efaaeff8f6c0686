CREATE TABLE IF NOT EXISTS leadline.operation
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `job` LowCardinality(String) CODEC(ZSTD(1)),
    `rank` Int64 CODEC(Delta, ZSTD(1)),
    `stage` Int64 CODEC(Delta, ZSTD(1)),
    `dp_rank` Int64 CODEC(Delta, ZSTD(1)),
    `step` Int64 CODEC(Delta, ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `start_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `duration_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `seq` UInt64 CODEC(Delta, ZSTD(1)),
    `micro_batch` Nullable(Int64) CODEC(Delta, ZSTD(1)),
    `chunk` Nullable(Int64) CODEC(Delta, ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, job, step, rank, kind, seq, start_ns, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC') + toIntervalHour(720)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
