"""What runs in the lab: real training and real traffic, several at once.

A workload is a folder with one class (`job.py`, see `base`), started by a scenario; its ranks run a module of their own
(`rank.py`), because a rank is a process on some host, not a thread of ours. To add one: its folder, a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.lab.workloads.base import Workload
from leadline.lab.workloads.bert.job import Bert
from leadline.lab.workloads.bulk.job import Bulk
from leadline.lab.workloads.finetune.job import Finetune
from leadline.lab.workloads.incast.job import Incast
from leadline.lab.workloads.pipeline.job import Pipeline
from leadline.lab.workloads.ray_cluster.job import Ray
from leadline.lab.workloads.recommendation.job import Recommendation
from leadline.lab.workloads.rings.job import Rings
from leadline.lab.workloads.serve.job import Serve
from leadline.lab.workloads.vision.job import Vision

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
