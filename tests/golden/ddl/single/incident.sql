CREATE TABLE IF NOT EXISTS leadline.incident
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `incident` String CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `job` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `jobs` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `symptom` LowCardinality(String) CODEC(ZSTD(1)),
    `start_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `end_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `bound_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `reported_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `state` LowCardinality(String) CODEC(ZSTD(1)),
    `verdict` LowCardinality(String) CODEC(ZSTD(1)),
    `missing` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `lost_gpu_seconds` Float64 CODEC(Delta, ZSTD(1)),
    `suppressed` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    `symptoms` String CODEC(ZSTD(1)),
    `seen_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1)),
    `overrules` UInt128 EPHEMERAL 0,
    `stamp` UInt128 MATERIALIZED greatest(bitOr(bitShiftLeft(toUInt128(seen_ns), 64), bitOr(bitShiftLeft(toUInt128(version), 32), toUInt128(if(revision < 0, -1 - revision, revision)))), overrules + 1) CODEC(ZSTD(1)),
    `taken_back` UInt8 MATERIALIZED revision < 0
)
ENGINE = ReplacingMergeTree(stamp, taken_back)
ORDER BY (tenant, cluster, incident, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
