"""Parts of the sFlow bench."""
