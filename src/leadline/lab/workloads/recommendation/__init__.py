"""The `recommendation` workload: embedding tables spread over the ranks."""
