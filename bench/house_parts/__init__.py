"""What the figures of the house are taken from, a file for each kind."""
