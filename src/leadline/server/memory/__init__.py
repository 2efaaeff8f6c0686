"""The memory of the server process: how much it may be, and what goes first when it is too much."""
