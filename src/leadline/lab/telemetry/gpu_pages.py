"""The page of a host's GPUs as dcgm-exporter gives it: names, labels, HELP and TYPE are its own. Pure.

Only fields that the model has or a replay plays are there; a real page has some more (docs/lab/telemetry.md).
Source: NVIDIA/dcgm-exporter, etc/default-counters.csv and internal/pkg/rendermetrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
    # Only replayed, see `overlay`: healthy until a fault plays them.
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
    (
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
    ),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed"),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether remapping of rows is pending"),
    (
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "counter",
        "Total number of NVLink flow-control CRC errors.",
    ),
    ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink data CRC errors."),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries."),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink recovery errors."),
)
_NOTHING: Mapping[str, float] = MappingProxyType({})


class Shown(NamedTuple):
    """One GPU as its exporter shows it: number within the host, the UUID it claims, its PCI address, its state; and
    what is only replayed, by metric."""

    number: int
    uuid: str
    pci: str
    gpu: Gpu
    replayed: Mapping[str, float] = _NOTHING


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
        for name, value in (*_values(spec, each.gpu).items(), *each.replayed.items()):
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
