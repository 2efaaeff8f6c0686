"""What runs in the lab: real training and real traffic, several at once.

A workload is one class here (see `base`), started by a scenario; its ranks run a module of their own
(`<name>_rank`), because a rank is a process on some host, not a thread of ours. To add one: its files, a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.lab.workloads.base import Workload
from leadline.lab.workloads.bert import Bert
from leadline.lab.workloads.bulk import Bulk
from leadline.lab.workloads.finetune import Finetune
from leadline.lab.workloads.incast import Incast
from leadline.lab.workloads.pipeline import Pipeline
from leadline.lab.workloads.ray_job import Ray
from leadline.lab.workloads.recommendation import Recommendation
from leadline.lab.workloads.rings import Rings
from leadline.lab.workloads.serve import Serve
from leadline.lab.workloads.vision import Vision

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "bert": Bert,
    "vision": Vision,
    "recommendation": Recommendation,
    "finetune": Finetune,
    "pipeline": Pipeline,
    "serve": Serve,
    "rings": Rings,
    "bulk": Bulk,
    "incast": Incast,
    "ray": Ray,
}
