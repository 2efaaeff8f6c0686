"""Calls of analyses beside each other: which windows may be judged at the same time, and calls on a Ray cluster."""
