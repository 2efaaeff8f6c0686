"""Kernel log lines, and the events they stand for."""
