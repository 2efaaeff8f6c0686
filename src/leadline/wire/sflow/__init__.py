"""sFlow version 5."""
