"""Time between hosts: one-way delays as a matrix, by host and of messages; how each clock is fitted."""
