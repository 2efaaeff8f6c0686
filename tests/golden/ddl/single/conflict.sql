CREATE TABLE IF NOT EXISTS leadline.conflict
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `start_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `end_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `claims` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `sources` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `used` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `count` UInt64 CODEC(Delta, ZSTD(1)),
    `text` String CODEC(ZSTD(1)),
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
TTL toDateTime(fromUnixTimestamp64Nano(seen_ns, 'UTC'), 'UTC') + toIntervalHour(2160)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
