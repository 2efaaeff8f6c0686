CREATE TABLE IF NOT EXISTS leadline.mark
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `incident` String CODEC(ZSTD(1)),
    `entity` LowCardinality(String) CODEC(ZSTD(1)),
    `rule` LowCardinality(String) CODEC(ZSTD(1)),
    `mark` LowCardinality(String) CODEC(ZSTD(1)),
    `actor` LowCardinality(String) CODEC(ZSTD(1)),
    `reason` String CODEC(ZSTD(1)),
    `time_ns` Int64 CODEC(GCD, Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, cluster, incident, time_ns, entity, rule, actor)
TTL toDateTime(fromUnixTimestamp64Nano(time_ns, 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
