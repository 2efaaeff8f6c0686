"""The simulator held against the lab: cases, what the lab measured of them, what the simulator says."""
