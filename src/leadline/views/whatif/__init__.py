"""What each worker, stage and cause costs a job, from its operation traces."""
