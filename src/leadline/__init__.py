"""Leadline: finds what slows or breaks a distributed training job, and says how it knows."""

__version__ = "0.1.0"
