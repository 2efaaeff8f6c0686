"""The analysis `sle-hours`: the minutes of `sle` summed by the hour, so that 24 h and 30 d are read from few rows.

Seconds are whole, and GPU seconds multiples of 2**-20: their sums are exact, and do not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Floats, Ints, codes, floats, ints, named
from leadline.analysis.sle.sle import TICKS, WINDOW_S
from leadline.analysis.spec import Read, S, Verdicts, Window, analysis
from leadline.model.tables.accounts import SLE, SLE_LOSS

HOUR_S = 3600
_HELD = ("tenant", "expectation", "entity")
_LOSS = (*_HELD, "classifier", "metric", "culprit", "bound")


@analysis(
    name="sle-hours",
    version=1,
    reads=(
        Read(
            SLE,
            columns=(
                *_HELD, "layer", "end_ns", "window_ns", "good_s", "bad_s", "missing_s", "objective", "lost_gpu_seconds",
                "why_missing",
            ),
        ),
        Read(SLE_LOSS, columns=(*_LOSS, "layer", "end_ns", "window_ns", "seconds")),
    ),
    writes=(SLE, SLE_LOSS),
    window_s=HOUR_S,
    late_s=HOUR_S,
)  # fmt: skip
def sle_hours(sle: pa.Table, sle_loss: pa.Table, *, window: Window) -> Verdicts:
    """Good, bad and missing seconds by the hour, and their classifiers: the sums of the minutes.

    Objective and layer are those of the hour's last minute; what is missing is what most of the missing seconds lacked.
    """
    return {"sle": _held(_minutes(sle), window), "sle_loss": _losses(_minutes(sle_loss), window)}


def _minutes(rows: pa.Table) -> pa.Table:
    """The rows of minutes: hours stand in the same table."""
    return rows.filter(pc.equal(rows["window_ns"], WINDOW_S * S))


def _held(rows: pa.Table, window: Window) -> dict[str, Any]:
    names, group_N, count = _groups(rows, _HELD)
    layer = codes(rows, "layer")
    last_G = _last(group_N, ints(rows, "end_ns"), floats(rows, "objective"), layer.code_N)
    sums = {name: _sum(floats(rows, name), group_N, count, 1.0) for name in ("good_s", "bad_s", "missing_s")}
    return {
        **names,
        **sums,
        "layer": named(layer.code_N[last_G], layer.names),
        "end_ns": np.full(count, window.to_ns),
        "window_ns": np.full(count, window.window_ns),
        "objective": np.clip(np.nan_to_num(floats(rows, "objective")[last_G]), 0.0, 1.0),
        "lost_gpu_seconds": _sum(floats(rows, "lost_gpu_seconds"), group_N, count, TICKS),
        "why_missing": _why(rows, group_N, count),
    }


def _losses(rows: pa.Table, window: Window) -> dict[str, Any]:
    names, group_N, count = _groups(rows, _LOSS)
    layer = codes(rows, "layer")
    last_G = _last(group_N, ints(rows, "end_ns"), floats(rows, "seconds"), layer.code_N)
    return {
        **names,
        "layer": named(layer.code_N[last_G], layer.names),
        "end_ns": np.full(count, window.to_ns),
        "window_ns": np.full(count, window.window_ns),
        "seconds": _sum(floats(rows, "seconds"), group_N, count, 1.0),
    }


def _groups(rows: pa.Table, by: Sequence[str]) -> tuple[dict[str, pa.Array], Ints, int]:
    """The distinct texts of these columns as columns, and the group of each row."""
    parts = [codes(rows, name) for name in by]
    key_GB, group_N = np.unique(np.column_stack([part.code_N for part in parts]), axis=0, return_inverse=True)
    columns = {name: named(key_GB[:, place], parts[place].names) for place, name in enumerate(by)}
    return columns, group_N.reshape(-1), len(key_GB)


def _sum(value_N: Floats, group_N: Ints, groups: int, ticks: float) -> Floats:
    """Sums by group, of multiples of 1 / ticks; exact."""
    whole_N = np.rint(np.nan_to_num(np.clip(value_N, 0.0, 1e9)) * ticks).astype(np.int64)
    total_G = np.zeros(groups, np.int64)
    np.add.at(total_G, group_N, whole_N)
    return total_G / ticks


def _last(group_N: Ints, end_N: Ints, value_N: Floats, layer_N: Ints) -> Ints:
    """The row of each group that ends last; of several the one with the largest value, then layer."""
    order_N = np.lexsort((layer_N, value_N, end_N, group_N))
    last_N = np.ones(len(order_N), bool)
    last_N[:-1] = group_N[order_N][1:] != group_N[order_N][:-1]
    return order_N[last_N]


def _why(rows: pa.Table, group_N: Ints, groups: int) -> pa.Array:
    """What most of the missing seconds of each group lacked; of equals the first by name; null where none is."""
    why, missing_N = codes(rows, "why_missing"), np.nan_to_num(np.clip(floats(rows, "missing_s"), 0.0, 1e9))
    told_N = np.flatnonzero((why.code_N >= 0) & (missing_N > 0))
    pair_P2, place_N = np.unique(np.column_stack([group_N[told_N], why.code_N[told_N]]), axis=0, return_inverse=True)
    seconds_P = _sum(missing_N[told_N], place_N.reshape(-1), len(pair_P2), 1.0)
    order_P = np.lexsort((-pair_P2[:, 1], seconds_P, pair_P2[:, 0]))  # the most seconds come last
    found_G = np.full(groups, -1, np.int64)
    found_G[pair_P2[order_P, 0]] = pair_P2[order_P, 1]
    return named(found_G, why.names)
