"""The ledger from operation traces: dependency graph, replay, what-if."""
