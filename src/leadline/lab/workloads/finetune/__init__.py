"""The `finetune` workload: a short job that starts from a model on storage."""
