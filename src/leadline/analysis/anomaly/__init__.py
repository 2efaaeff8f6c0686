"""Metrics outside their own past or their peers."""
