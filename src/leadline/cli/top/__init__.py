"""`leadline top`: the terminal interface."""
