"""What runs in the lab: real training and real traffic, several at once.

A workload is one class here (see `base`), started by a scenario; its ranks run a module of their own
(`<name>_rank`), because a rank is a process on some host, not a thread of ours. To add one: its files, a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.lab.workloads.base import Workload
from leadline.lab.workloads.bert import Bert
from leadline.lab.workloads.bulk import Bulk
from leadline.lab.workloads.rings import Rings

WORKLOADS: dict[str, Callable[..., Workload]] = {"bert": Bert, "rings": Rings, "bulk": Bulk}
