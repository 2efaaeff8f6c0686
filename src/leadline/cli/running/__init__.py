"""`leadline run`: a job and what watches it. Standard library only: it works where just the agent is installed."""
