"""The `vision` workload: image classification."""
