"""The `pipeline` workload: pipeline-parallel training with 1F1B, one stage per host."""
