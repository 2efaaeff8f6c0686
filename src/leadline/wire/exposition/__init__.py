"""Prometheus exposition pages and OpenMetrics."""
