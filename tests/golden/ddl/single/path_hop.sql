CREATE TABLE IF NOT EXISTS leadline.path_hop
(
    `tenant` LowCardinality(String) CODEC(ZSTD(1)),
    `cluster` LowCardinality(String) CODEC(ZSTD(1)),
    `flow` UInt128 CODEC(ZSTD(1)),
    `end_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `window_ns` Int64 CODEC(GCD, Delta, ZSTD(1)),
    `hop` Int64 CODEC(Delta, ZSTD(1)),
    `link` LowCardinality(String) CODEC(ZSTD(1)),
    `probability` Float64 CODEC(Delta, ZSTD(1)),
    `alternative` Int64 CODEC(Delta, ZSTD(1)),
    `analysis` LowCardinality(String) CODEC(ZSTD(1)),
    `version` Int64 CODEC(Delta, ZSTD(1)),
    `revision` Int64 CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC'))
ORDER BY (tenant, cluster, flow, end_ns, window_ns, alternative, hop, link, analysis, version, revision)
TTL toDateTime(fromUnixTimestamp64Nano(end_ns, 'UTC'), 'UTC') + toIntervalHour(336)
SETTINGS ttl_only_drop_parts = 1, old_parts_lifetime = 480, merge_selector_base = 20, min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1;
