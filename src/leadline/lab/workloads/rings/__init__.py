"""The `rings` workload: a collectives benchmark in the manner of nccl-tests."""
