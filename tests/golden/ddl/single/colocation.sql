CREATE TABLE IF NOT EXISTS leadline.colocation
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `others` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `probability` Float64 CODEC(Delta, ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `start_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `end_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `evidence` String CODEC(ZSTD(1)),
    `seen_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `overrules` UInt128 EPHEMERAL 0,
    `stamp` UInt128 MATERIALIZED greatest(bitOr(bitShiftLeft(toUInt128(seen_ns), 64), bitOr(bitShiftLeft(toUInt128(version), 32), toUInt128(if(revision < 0, -1 - revision, revision)))), overrules + 1) CODEC(ZSTD(1)),
    `taken_back` UInt8 MATERIALIZED revision < 0
)
ENGINE = ReplacingMergeTree(stamp, taken_back)
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, entity, start_ns, kind, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC') + toIntervalHour(2160)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, max_cleanup_delay_period = 60, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
