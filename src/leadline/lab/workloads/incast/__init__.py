"""The `incast` workload: one host asks all others at once, and their answers meet at its port."""
