"""Symptoms: jobs that stall, crash or are slow, and expectations that burn."""
