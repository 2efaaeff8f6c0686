"""Incidents, sent to receivers as they begin, change and end."""
