"""Where the time of a job went, what failed, and what it cost."""
