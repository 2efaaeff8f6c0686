"""Metrics of simulated fleets: which there are (`catalogue`), their streams and values (`streams`)."""
