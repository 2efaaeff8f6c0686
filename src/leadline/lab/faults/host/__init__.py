"""Faults of hosts and storage: processor, memory, neighbours, the file system."""
