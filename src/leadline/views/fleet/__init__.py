"""Every host with its place, state and measures."""
