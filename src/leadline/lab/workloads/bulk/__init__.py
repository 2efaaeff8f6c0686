"""The `bulk` workload: storage and shuffle traffic between hosts."""
