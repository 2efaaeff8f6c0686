"""Faults of hardware that namespaces lack, replayed as counters and log lines."""
