"""Slow and plain decoders that the fast ones are compared with."""
