"""Faults of the training program: its input, its steps, its processes."""
