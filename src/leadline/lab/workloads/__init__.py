"""What runs in the lab: real training and real traffic, several at once.

A workload is one class here (see `base`), started by a scenario; its ranks run a module of their own
(`<name>_rank`), because a rank is a process on some host, not a thread of ours.
"""
