"""Back-ups of the store that this server owns."""
