"""Where every wall second of a job went, and to whom."""
