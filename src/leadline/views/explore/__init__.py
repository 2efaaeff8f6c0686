"""Any stored metric: its streams by label, grouped, as lines or as a band."""
