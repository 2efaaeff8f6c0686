"""Flows of a job and the paths between ranks."""
