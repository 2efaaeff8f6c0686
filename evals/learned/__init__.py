"""Weights of causes fitted on simulated cases: candidates, model, the table that ships."""
