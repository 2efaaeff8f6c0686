"""The `ray` workload: a real Ray cluster over the lab's hosts, and collectives between its actors."""
