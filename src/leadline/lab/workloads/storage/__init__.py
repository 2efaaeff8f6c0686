"""The storage host of the lab: the program on it, its log, and its client in a rank."""
