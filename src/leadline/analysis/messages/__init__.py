"""Transfers inside collectives: their two ends joined, and what each edge of the ring took."""
