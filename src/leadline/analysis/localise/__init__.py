"""Where packets vanish that nobody counts: flows that suffer, the links they share, and packets that do not add up."""
