CREATE TABLE IF NOT EXISTS leadline.relation
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `child` LowCardinality(String) CODEC(ZSTD(1)),
    `parent` LowCardinality(String) CODEC(ZSTD(1)),
    `kind` LowCardinality(String) CODEC(ZSTD(1)),
    `from_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `to_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `source` LowCardinality(String) CODEC(ZSTD(1)),
    `confidence` Float64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(fromUnixTimestamp64Nano(from_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, child, kind, from_ns, parent, source)
TTL toDateTime(fromUnixTimestamp64Nano(ifNull(to_ns, 4102444800000000000), 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
