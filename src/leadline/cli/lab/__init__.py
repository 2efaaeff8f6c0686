"""`leadline lab ...`: the emulated cluster, its faults, and simulated fleets."""
