"""All targets. A new way in gets a line here; tests/fuzz/test_corpora.py holds this list against the ways in."""

from __future__ import annotations

from tests.fuzz.target import Target

TARGETS = (
    Target("remote_write_1", "metrics", kernels=True),
    Target("remote_write_2", "metrics", kernels=True),
    Target("otlp_metrics", "metrics", kernels=True),
    Target("otlp_metrics_json", "metrics", kernels=True),
    Target("otlp_logs", "metrics"),
    Target("otlp_logs_json", "metrics"),
    Target("exposition", "metrics", kernels=True),
    Target("openmetrics", "metrics", kernels=True),
    Target("body", "metrics"),
    Target("ndjson", "tables"),
    Target("rows_json", "tables"),
    Target("arrow", "tables", bytes_max=8192),
    Target("ring", "tables", bytes_max=8192),
    Target("ring_segments", "tables", bytes_max=8192),
    Target("sflow", "network", kernels=True),
    Target("netlink", "network"),
    Target("kernel_log", "network"),
    Target("proc_files", "proc"),
    Target("spool", "network"),
    Target("lldp", "network"),
    Target("http", "network"),
    Target("probe_packet", "mesh"),
    Target("prober_line", "mesh"),
    Target("probe_record", "mesh"),
    Target("trace", "files"),
    Target("bundle", "files", bytes_max=16384),
    Target("bundle_table", "files", bytes_max=8192),
    Target("sql", "questions", bytes_max=1024),
    Target("explanation", "questions"),
)
BY_NAME = {target.name: target for target in TARGETS}
