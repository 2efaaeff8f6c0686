"""Expectations: what was promised of each layer, and which seconds kept it."""
