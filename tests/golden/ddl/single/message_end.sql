CREATE TABLE IF NOT EXISTS leadline.message_end
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `job` LowCardinality(String) CODEC(ZSTD(1)),
    `comm` LowCardinality(String) CODEC(ZSTD(1)),
    `channel` Int64 CODEC(Delta, ZSTD(1)),
    `seq` UInt64 CODEC(Delta, ZSTD(1)),
    `step` Int64 CODEC(Delta, ZSTD(1)),
    `side` LowCardinality(String) CODEC(ZSTD(1)),
    `rank` Int64 CODEC(Delta, ZSTD(1)),
    `peer` Int64 CODEC(Delta, ZSTD(1)),
    `bytes` UInt64 CODEC(Delta, ZSTD(1)),
    `begin_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `flow` Nullable(UInt128) CODEC(ZSTD(1)),
    `batch` UInt128 CODEC(ZSTD(1)),
    `batch_row` UInt64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(begin_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, job, comm, seq, channel, step, side, rank, peer, batch, batch_row)
TTL toDateTime(fromUnixTimestamp64Nano(begin_ns, 'UTC'), 'UTC') + toIntervalHour(48)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
