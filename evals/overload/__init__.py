"""More than the machine can take: what is told, what is counted, what is lost."""
