"""The minutes of two entities in an hour, as the analysis `sle` writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests.builders.expectations import MINUTE, T0
from tests.builders.fabrics import S
from tests.builders.small_job import table

HOUR_S = 3600
HOUR = replace(MINUTE, from_ns=T0 - T0 % (HOUR_S * S), to_ns=T0 - T0 % (HOUR_S * S) + HOUR_S * S)
Row = dict[str, Any]


def minute(entity: str, end_s: int, good: float, bad: float, missing: float, **more: Any) -> Row:
    """One row of `sle`, whose minute ends so many seconds after the hour's begin."""
    told = {"expectation": "gpu-temperature", "layer": "gpu", "entity": entity, "end_ns": HOUR.from_ns + end_s * S}
    told |= {"window_ns": 60 * S, "good_s": good, "bad_s": bad, "missing_s": missing, "objective": 0.99}
    told |= {"lost_gpu_seconds": 0.5, "why_missing": "DCGM_FI_DEV_GPU_TEMP" if missing else None}
    return {**told, "analysis": "sle", **more}


def loss(entity: str, end_s: int, seconds: float, classifier: str = "hot", **more: Any) -> Row:
    """One row of `sle_loss`."""
    told = {"expectation": "gpu-temperature", "layer": "gpu", "entity": entity, "end_ns": HOUR.from_ns + end_s * S}
    told |= {"window_ns": 60 * S, "classifier": classifier, "metric": "DCGM_FI_DEV_GPU_TEMP", "culprit": entity}
    return {**told, "bound": "absolute", "seconds": seconds, "analysis": "sle", **more}


def minutes() -> dict[str, pa.Table]:
    """An hour in which one GPU was hot for a while, then silent; and the row of an hour, which is not summed again."""
    held = [minute("gpu:GPU-0", 60 * number, 60.0, 0.0, 0.0) for number in range(1, 60)]
    held += [minute("gpu:GPU-1", 60, 10.0, 50.0, 0.0), minute("gpu:GPU-1", 120, 0.0, 20.0, 40.0)]
    held += [minute("gpu:GPU-1", 1800, 9.0, 9.0, 9.0, window_ns=HOUR_S * S, analysis="sle-hours")]
    lost = [loss("gpu:GPU-1", 60, 30.0), loss("gpu:GPU-1", 60, 20.0, "hotter"), loss("gpu:GPU-1", 120, 20.0)]
    lost += [loss("gpu:GPU-1", 1800, 9.0, window_ns=HOUR_S * S, analysis="sle-hours")]
    return {"sle": table("sle", held), "sle_loss": table("sle_loss", lost)}
