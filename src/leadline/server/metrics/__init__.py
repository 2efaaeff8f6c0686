"""Leadline's own metrics: what each is called and means, what it is read from, `/metrics`."""
