"""Clocks: steps of our own, how those of hosts map to cluster time, and a coarse fit where none is known."""
