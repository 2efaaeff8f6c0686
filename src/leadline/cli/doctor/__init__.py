"""`leadline doctor`, a file for each question: how a server does; what the agent can read here; which metrics are worth
sending; how large a server must be."""
