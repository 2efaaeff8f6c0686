"""Users' statements on their way to the engine: read in a process of its own, run in turns."""
