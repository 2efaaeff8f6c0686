"""A folder that `leadline run` puts on the PYTHONPATH of a job."""
