CREATE TABLE IF NOT EXISTS leadline.clock_fit
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `clock` LowCardinality(String) CODEC(ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `offset_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `rate_ppb` Float64 CODEC(Delta, ZSTD(1)),
    `bound_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `noise_ns` Float64 CODEC(Delta, ZSTD(1)),
    `island` Int64 CODEC(Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `overrules` UInt128 EPHEMERAL 0,
    `stamp` UInt128 MATERIALIZED greatest(bitOr(bitShiftLeft(toUInt128(version), 32), toUInt128(if(revision < 0, -1 - revision, revision))), overrules + 1) CODEC(ZSTD(1)),
    `taken_back` UInt8 MATERIALIZED revision < 0
)
ENGINE = ReplacingMergeTree(stamp, taken_back)
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, host, end_ns, clock, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(720)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
