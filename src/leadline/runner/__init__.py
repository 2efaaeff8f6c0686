"""Loads columns, calls analyses, stores verdicts; holds what has just come in, for what cannot wait."""
