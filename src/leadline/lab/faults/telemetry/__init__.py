"""Faults of what observes: clocks, exporters, samplers."""
