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
    `revision` Int64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(`seen_ns`)
ORDER BY (tenant, cluster, incident, position, analysis, version, revision)
TTL toDateTime(fromUnixTimestamp64Nano(start_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480;
