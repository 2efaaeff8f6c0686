"""What every training workload shares: the job, its ranks, checkpoints, and what faults make them do."""
