"""The `serve` workload: batched inference, and the clients that measure its latency."""
