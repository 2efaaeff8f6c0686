CREATE TABLE IF NOT EXISTS leadline.expectation
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `expectation` LowCardinality(String) CODEC(ZSTD(1)),
    `layer` LowCardinality(String) CODEC(ZSTD(1)),
    `from_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `to_ns` Nullable(Int64) CODEC(GCD, Delta, ZSTD(1)),
    `spec` String CODEC(ZSTD(1)),
    `source` LowCardinality(String) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, cluster, expectation, from_ns)
TTL toDateTime(fromUnixTimestamp64Nano(ifNull(to_ns, 4102444800000000000), 'UTC'), 'UTC') + toIntervalHour(9600)
SETTINGS ttl_only_drop_parts = 0, old_parts_lifetime = 480, max_cleanup_delay_period = 60;
