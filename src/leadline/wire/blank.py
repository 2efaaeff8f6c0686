"""Markers for "no value", as they arrive: numbers that are no measurements.

node_exporter tells the speed of an interface that has none (a bridge, a port without a link) as -1 Mbit/s.
DCGM reports a field it could not read as one of four sentinels per width: blank, not found, not supported, no
permission. dcgm-exporter usually leaves them out, but not always, and then a temperature is 9223372036854775794.
The decoders keep such numbers (they cannot know whose they are); the way in applies this to streams by their names.

Sources: Linux, Documentation/ABI/testing/sysfs-class-net, speed; NVIDIA/DCGM, dcgmlib/dcgm_structs.h: DCGM_INT32_BLANK,
DCGM_INT64_BLANK, DCGM_FP64_BLANK and the three that follow each. DCGM tests `value >= BLANK`; we compare with the
sentinels only, because exported counters (NVLink bytes, energy) are 64-bit numbers that rightly pass 2**31 and 2**47.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

BELOW_ZERO = ("node_network_speed_bytes",)  # streams of which a value below 0 is a marker


class Blank(IntEnum):
    """How a stream says that it has no value."""

    NONE = 0
    DCGM = 1  # by one of the sentinels
    BELOW_ZERO = 2


def blank_of(name: str) -> Blank:
    """How streams of this name say it."""
    if name.startswith("DCGM_"):
        return Blank.DCGM
    return Blank.BELOW_ZERO if name in BELOW_ZERO else Blank.NONE


def is_blank(kind_N: NDArray[np.uint8], value_N: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are markers.

    Inputs: `Blank` of the stream of each value (N,), float64 (N,). Returns: bool (N,). NaN is no marker.
    """
    with np.errstate(invalid="ignore"):  # Prometheus' stale marker is a signalling NaN
        below_N = (kind_N == Blank.BELOW_ZERO) & (value_N < 0)
    blank_N: NDArray[np.bool_] = (kind_N == Blank.DCGM) & is_dcgm_blank(value_N) | below_N
    return blank_N


_INT32 = 0x7FFFFFF0
_FP64 = 140737488355328.0  # 2**47
_INT64 = 2.0**63  # what 0x7ffffffffffffff0 and the three after it all are as float64


def is_dcgm_blank(value_N: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are a DCGM sentinel.

    Inputs: float64 (N,), in the unit of their stream. Returns: bool (N,). NaN is not a sentinel.
    """
    int32_N = (value_N >= _INT32) & (value_N <= _INT32 + 3)
    fp64_N = (value_N >= _FP64) & (value_N <= _FP64 + 3)
    with np.errstate(invalid="ignore"):  # Prometheus' stale marker is a signalling NaN
        whole_N = value_N == np.floor(value_N)
    blank_N: NDArray[np.bool_] = ((int32_N | fp64_N) & whole_N) | (value_N == _INT64)
    return blank_N
