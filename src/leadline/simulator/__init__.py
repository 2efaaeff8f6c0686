"""A fleet of any size from a seed: the lab's tables, faults and truth without a kernel."""
