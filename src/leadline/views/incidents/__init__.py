"""Incidents: their causes, what to do, marks, reports."""
