"""The unit of a metric's values, as far as its name tells it.

A sender that names its unit (OTLP, OpenMetrics) is believed; this is for those that only have a name. Nothing is
rescaled: `DCGM_FI_DEV_FB_USED` is in MiB and stays so.

Sources: Prometheus, "Metric and label naming" (base units as suffix); dcgm-exporter, etc/default-counters.csv;
NCCL Inspector, README; and `model.nic_counters` for ports.
"""

from __future__ import annotations

import re
from functools import lru_cache

from leadline.model.nic_counters import NIC_COUNTERS
from leadline.model.units import (
    AMPERES,
    BPS,
    BYTES,
    BYTES_PER_SECOND,
    CELSIUS,
    COUNT,
    HERTZ,
    JOULES,
    NS,
    PACKETS,
    PERCENT,
    RATIO,
    SECONDS,
    VOLTS,
    WATTS,
)

# Whole names that are exact, or whose suffix would mislead; read before the suffixes.
UNITS_BY_NAME: tuple[tuple[str, str], ...] = (
    ("node_network_speed_bytes", BYTES_PER_SECOND),
    ("nccl_.*bandwidth_gbs", "GB/s"),
    ("nccl_.*algobw_gbs", "GB/s"),
    ("DCGM_FI_DEV_.*_CLOCK", "MHz"),
    ("DCGM_FI_DEV_.*_TEMP", CELSIUS),
    ("DCGM_FI_DEV_POWER_USAGE(_INSTANT)?", WATTS),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT.*", WATTS),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ"),
    ("DCGM_FI_DEV_.*_UTIL_RATIO", RATIO),  # DCGM 4.6 names
    ("DCGM_FI_DEV_.*_UTIL", PERCENT),
    ("DCGM_FI_DEV_FB_USED_PERCENT", RATIO),  # a fraction in spite of its name
    ("DCGM_FI_DEV_FB_(TOTAL|FREE|USED|RESERVED)", "MiB"),
    ("DCGM_FI_DEV_.*_VIOLATION", NS),
    ("DCGM_FI_DEV_(PCIE_REPLAY_COUNTER|.*_ERROR_COUNT_.*|.*_ERROR_COUNT|.*_REMAPPED_ROWS|ECC_.*_TOTAL|RETIRED_.*)", COUNT),
    ("DCGM_FI_PROF_(PCIE|NVLINK)_(TX|RX)_BYTES", BYTES_PER_SECOND),
    ("DCGM_FI_PROF_.*_(ACTIVE|OCCUPANCY)", RATIO),
    ("DCGM_EXP_.*_COUNT", COUNT),
    ("if(In|Out)Octets", BYTES),
    ("if(In|Out)(.*Pkts|Discards|Errors|UnknownProtos)", PACKETS),
    ("ifSpeed", BPS),
    ("dot3Stats.*", COUNT),
)  # fmt: skip

# The last words of a name, longest first where one ends another.
UNITS_BY_SUFFIX: tuple[tuple[str, str], ...] = (
    ("_bytes_per_second", BYTES_PER_SECOND),
    ("_timestamp_seconds", SECONDS),
    ("_milliseconds", "ms"),
    ("_microseconds", "us"),
    ("_nanoseconds", NS),
    ("_seconds", SECONDS),
    ("_ns", NS),
    ("_bytes", BYTES),
    ("_bits", "bits"),
    ("_packets", PACKETS),
    ("_ratio", RATIO),
    ("_percent", PERCENT),
    ("_celsius", CELSIUS),
    ("_hertz", HERTZ),
    ("_volts", VOLTS),
    ("_amperes", AMPERES),
    ("_watts", WATTS),
    ("_joules", JOULES),
    ("_count", COUNT),
    ("_bucket", COUNT),
)

_PORT_PREFIX = "(?:(?:node_)?(?:infiniband_|ethtool_)|rdma_|ib_|hw_counters_)?"

_WHOLE_NAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(name), unit)
    for name, unit in (
        *UNITS_BY_NAME,
        *((f"{_PORT_PREFIX}(?:{c.name})(?:_total)?", c.unit) for c in NIC_COUNTERS),
    )
)


@lru_cache(maxsize=8192)  # names, not streams: a busy site has some thousand
def unit_of(name: str) -> str | None:
    """The unit that a metric's name tells, or None. Dots are read as underscores.

    `_total` and `_sum` say nothing about the unit and are taken off first; `_count` and `_bucket` count.
    """
    name = name.replace(".", "_")
    for pattern, unit in _WHOLE_NAMES:
        if pattern.fullmatch(name):
            return unit
    if name.endswith("_info"):
        return None
    for empty_suffix in ("_total", "_sum"):
        name = name.removesuffix(empty_suffix)
    for suffix, unit in UNITS_BY_SUFFIX:
        if name.endswith(suffix):
            return unit
    return None
