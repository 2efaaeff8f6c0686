"""The probe mesh as the agent has it: a prober in a process of its own, told of its peers, read line by line.

prober.py    starts it, tells it of peers, reads its lines, starts it anew
lines.py     its lines -> typed records; pure
packet.py    the packet that travels between probers; pure
fit.py       the clock of a peer against ours, in plain Python; pure
fallback.py  a prober in Python, for where there is none in C
recorded.py  files of raw stamps -> records; pure
"""
