"""What runs in the lab: real training and real traffic, several at once.

A workload is one class here (see `base`), started by a scenario; its ranks run a module of their own
(`<name>_rank`), because a rank is a process on some host, not a thread of ours.
"""

from leadline.lab.workloads.base import Workload
from leadline.lab.workloads.bert import Bert
from leadline.lab.workloads.rings import Rings

WORKLOADS: list[type[Workload]] = [
    Bert,  # data-parallel training, checkpoints, evaluation
    Rings,  # collectives benchmark over TCP or RoCEv2 framing
]

# As scenarios name them.
BY_NAME = {kind.__name__.lower(): kind for kind in WORKLOADS}
