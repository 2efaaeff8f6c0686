"""The page of a host's GPUs as dcgm-exporter gives it: names, labels, HELP and TYPE are its own. Pure.

Only fields that the model has are there; a real page has some more (docs/lab/telemetry.md).
Source: NVIDIA/dcgm-exporter, etc/default-counters.csv and internal/pkg/rendermetrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from leadline.lab.telemetry.exposition import Labels, Row, families, page
from leadline.lab.telemetry.gpu_model import Gpu, GpuSpec
from leadline.lab.telemetry.kernel_log import XID_WORDS

DRIVER_VERSION = "0.0-leadline-lab"

_ROWS: tuple[Row, ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns)."),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns)."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons (bitmask)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
)


class Shown(NamedTuple):
    """One GPU as its exporter shows it: number within the host, the UUID it claims, its PCI address, its state."""

    number: int
    uuid: str
    pci: str
    gpu: Gpu


def gpu_page(host: str, spec: GpuSpec, shown: Iterable[Shown]) -> bytes:
    """The exposition page of a host's GPUs."""
    values: dict[str, list[tuple[Labels, float]]] = {}
    for each in shown:
        labels: Labels = (
            ("gpu", str(each.number)),
            ("UUID", each.uuid),
            ("pci_bus_id", f"0000{each.pci}.0".upper()),
            ("device", f"nvidia{each.number}"),
            ("modelName", spec.model_name),
            ("Hostname", host),
            ("DCGM_FI_DRIVER_VERSION", DRIVER_VERSION),
        )
        for name, value in _values(spec, each.gpu).items():
            values.setdefault(name, []).append((labels, value))
        words = "No Error" if not each.gpu.xid else XID_WORDS.get(each.gpu.xid, "unknown error")
        told = (*labels, ("err_code", str(each.gpu.xid)), ("err_msg", words))
        values.setdefault("DCGM_FI_DEV_XID_ERRORS", []).append((told, each.gpu.xid))
    return page(families(_ROWS, values))


def _values(spec: GpuSpec, gpu: Gpu) -> dict[str, float]:
    used_mib = round(gpu.memory_mib)
    return {
        "DCGM_FI_DEV_SM_CLOCK": round(gpu.sm_mhz),
        "DCGM_FI_DEV_MEM_CLOCK": spec.memory_mhz,
        "DCGM_FI_DEV_GPU_TEMP": round(gpu.temperature_c),
        "DCGM_FI_DEV_POWER_USAGE": round(gpu.power_w, 3),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": int(gpu.energy_mj),
        "DCGM_FI_DEV_GPU_UTIL": round(gpu.busy_ratio * 100),
        "DCGM_FI_DEV_POWER_VIOLATION": int(gpu.power_violation_ns),
        "DCGM_FI_DEV_THERMAL_VIOLATION": int(gpu.thermal_violation_ns),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": gpu.reasons,
        "DCGM_FI_DEV_FB_FREE": round(spec.memory_mib) - used_mib,
        "DCGM_FI_DEV_FB_USED": used_mib,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(gpu.busy_ratio, 6),
    }
