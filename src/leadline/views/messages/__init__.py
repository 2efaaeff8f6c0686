"""The messages of a job, and its rings."""
