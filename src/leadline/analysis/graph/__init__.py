"""The dependency graph: what stands on what, when, and who says so."""
