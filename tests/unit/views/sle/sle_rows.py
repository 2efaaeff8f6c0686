"""Hand-made verdicts of `sle` and `sle-hours` in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.model.tables import BY_NAME
from leadline.store import Store
from leadline.store.schema import arrow_table
from leadline.views.sle.spans import HOUR_NS, MINUTE_NS

END = 485_000 * HOUR_NS  # an hour's end, in 2025
GPU, PORT = "gpu:GPU-5c1e", "port:h3/eth0"


def held(entity: str, end_ns: int, good: float, bad: float, missing: float = 0.0, **more: Any) -> dict[str, Any]:
    """A row of `sle`: a minute, unless it says otherwise."""
    return {
        "tenant": "default", "cluster": "default", "expectation": "gpu-temperature", "layer": "gpu", "entity": entity,
        "end_ns": end_ns, "window_ns": MINUTE_NS, "good_s": good, "bad_s": bad, "missing_s": missing, "objective": 0.99,
        "lost_gpu_seconds": 0.0, "why_missing": "DCGM_FI_DEV_GPU_TEMP" if missing else None, "analysis": "sle",
        "version": 1, "revision": 0, **more,
    }  # fmt: skip


def hour(row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The same as a sum of an hour."""
    return {**row, "window_ns": HOUR_NS, "analysis": "sle-hours", **more}


def loss(row: Mapping[str, Any], classifier: str, seconds: float, **more: Any) -> dict[str, Any]:
    """A row of `sle_loss` that belongs to one of `sle`."""
    names = {column.name for column in BY_NAME["sle_loss"].columns}
    return {
        **{name: value for name, value in row.items() if name in names}, "classifier": classifier,
        "metric": "DCGM_FI_DEV_GPU_TEMP", "culprit": row["entity"], "bound": "absolute", "seconds": seconds, **more,
    }  # fmt: skip


def append(store: Store, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of a table."""
    table = BY_NAME[name]
    store.append(table, arrow_table(table, {each.name: [row[each.name] for row in rows] for each in table.columns}))
