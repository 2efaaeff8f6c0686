"""Faults of links, switches and routes."""
