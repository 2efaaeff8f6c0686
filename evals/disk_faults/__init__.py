"""Faults of the disk below a running store: a library that makes them, the product under it, what counts."""
