"""Since which iteration a worker is slow."""
