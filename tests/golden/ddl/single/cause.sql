CREATE TABLE IF NOT EXISTS leadline.cause
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `incident` String CODEC(ZSTD(1)),
    `position` Int64 CODEC(Delta, ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `rule` LowCardinality(String) CODEC(ZSTD(1)),
    `chosen` Bool CODEC(ZSTD(1)),
    `layer` LowCardinality(String) CODEC(ZSTD(1)),
    `class` LowCardinality(String) CODEC(ZSTD(1)),
    `probability` Float64 CODEC(Delta, ZSTD(1)),
    `start_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `score` String CODEC(ZSTD(1)),
    `evidence` String CODEC(ZSTD(1)),
    `action` LowCardinality(String) CODEC(ZSTD(1)),
    `action_cost` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `saves` Nullable(Float64) CODEC(Delta, ZSTD(1)),
    `waiting_cost` Float64 CODEC(Delta, ZSTD(1)),
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
ORDER BY (tenant, cluster, incident, position, analysis)
TTL toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
