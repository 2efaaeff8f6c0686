"""The demonstration that `make up` shows."""
