"""What an emulated GPU says of itself, from what the rank on it really does. A model, and told as one.

Measured: how long the rank wanted to compute (`busy_ratio`: it ran or waited for a CPU) and its resident memory.
Derived, by arithmetic that a real GPU obeys in outline:

    SM clock      idle clock while nothing is to do, else the highest clock times `clock_factor` of a throttle
    power         idle + (highest - idle) * busy * (clock / highest clock) ** 2     (power goes with f V**2, V with f)
    temperature   first order: it approaches ambient + resistance * power with time constant `tau_s`
    energy        the integral of power
    memory        the rank's resident memory, as if it lay on the GPU

What has no counterpart in a process (ECC, NVLink, PCIe replays, tensor pipes) is no part of the model; some of it is
replayed, see `overlay`. Pure: the caller brings the time and the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.errors import DataError

# Bits of the clock event reasons (nvml.h, nvmlClocksEventReason*).
REASONS = {"idle": 0x1, "power": 0x4, "hw_slowdown": 0x8, "thermal": 0x20, "hw_thermal": 0x40, "power_brake": 0x80}
_HOT = ("thermal", "hw_thermal")
_BUSY_LEAST = 0.02  # below this the clock falls back: a process that only waits still wakes now and then


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """Constants of the model. They resemble a large data-centre GPU and belong to none."""

    model_name: str = "Leadline emulated GPU 80GB"
    idle_w: float = 70.0
    power_max_w: float = 700.0
    sm_idle_mhz: float = 345.0
    sm_max_mhz: float = 1980.0
    memory_mhz: float = 2619.0
    memory_mib: float = 81559.0
    ambient_c: float = 28.0
    resistance_c_per_w: float = 0.07  # 77 C at full power
    tau_s: float = 20.0
    slowdown_c: float = 87.0  # where a GPU begins to slow itself down for heat


@dataclass(frozen=True, slots=True)
class Control:
    """What a fault tells the model about one GPU (`gpu_control.json`)."""

    throttle: str = ""  # a name of REASONS
    clock_factor: float = 1.0
    xid: int = 0
    duplicate_of: str = ""
    lost: bool = False  # off the bus: its exporter does not list it any more


@dataclass(frozen=True, slots=True)
class Gpu:
    """One emulated GPU at one moment."""

    at_s: float
    temperature_c: float
    power_w: float
    sm_mhz: float
    busy_ratio: float = 0.0
    memory_mib: float = 0.0
    energy_mj: float = 0.0  # millijoules since it was first seen
    thermal_violation_ns: float = 0.0
    power_violation_ns: float = 0.0
    reasons: int = REASONS["idle"]
    xid: int = 0  # the last one


def idle_gpu(spec: GpuSpec, now_s: float) -> Gpu:
    """A GPU that has done nothing for long."""
    temperature = spec.ambient_c + spec.resistance_c_per_w * spec.idle_w
    return Gpu(now_s, temperature, spec.idle_w, spec.sm_idle_mhz)


def later(spec: GpuSpec, gpu: Gpu, now_s: float, busy_ratio: float, memory_bytes: int, control: Control) -> Gpu:
    """The GPU at `now_s`, if it was busy by `busy_ratio` (0 to 1) since it was seen last.

    Power is taken as constant over the time between; the temperature's approach to it is exact for any length.
    """
    assert now_s >= gpu.at_s, "readings are fed in time order"
    passed_s = now_s - gpu.at_s
    busy = min(1.0, max(0.0, busy_ratio))
    idle = busy < _BUSY_LEAST
    sm_mhz = spec.sm_idle_mhz if idle else max(spec.sm_idle_mhz, spec.sm_max_mhz * control.clock_factor)
    power_w = spec.idle_w + (spec.power_max_w - spec.idle_w) * busy * (sm_mhz / spec.sm_max_mhz) ** 2
    settled_c = spec.ambient_c + spec.resistance_c_per_w * power_w
    if control.throttle in _HOT:
        # It is hot because its cooling fails, so it stays at the slowdown temperature although it draws less.
        settled_c = max(settled_c, spec.slowdown_c + 1.0)
    decay = math.exp(-passed_s / spec.tau_s)
    throttled_ns = passed_s * 1e9 if control.throttle else 0.0
    hot = control.throttle in _HOT
    return replace(
        gpu,
        at_s=now_s,
        temperature_c=settled_c + (gpu.temperature_c - settled_c) * decay,
        power_w=power_w,
        sm_mhz=sm_mhz,
        busy_ratio=busy,
        memory_mib=min(spec.memory_mib, memory_bytes / 2**20),
        energy_mj=gpu.energy_mj + power_w * passed_s * 1000.0,
        thermal_violation_ns=gpu.thermal_violation_ns + (throttled_ns if hot else 0.0),
        power_violation_ns=gpu.power_violation_ns + (0.0 if hot else throttled_ns),
        reasons=(REASONS["idle"] if idle else 0) | REASONS.get(control.throttle, 0),
        xid=control.xid or gpu.xid,
    )


def controls_from(found: object, where: str) -> dict[str, Control]:
    """The control of each GPU, by UUID, from the parsed control file. Errors: DataError."""
    if not isinstance(found, Mapping):
        raise DataError(where, "an object of GPU UUIDs", type(found).__name__)
    return {str(uuid): _control(each, f"{where}: {uuid}") for uuid, each in found.items()}


def _control(given: Any, where: str) -> Control:
    if not isinstance(given, Mapping):
        raise DataError(where, "an object", type(given).__name__)
    unknown = set(given) - set(Control.__dataclass_fields__)
    if unknown:
        raise DataError(
            where, f"keys of {', '.join(Control.__dataclass_fields__)}", ", ".join(map(str, sorted(unknown)))
        )
    control = Control(**given)
    if control.throttle not in ("", *REASONS) or not isinstance(control.duplicate_of, str):
        raise DataError(where, f"a throttle of {', '.join(REASONS)}", repr(control.throttle))
    number = isinstance(control.clock_factor, int | float) and not isinstance(control.clock_factor, bool)
    if not number or not 0 < control.clock_factor <= 1:
        raise DataError(where, "a clock_factor over 0 and up to 1", repr(control.clock_factor))
    if not isinstance(control.lost, bool):
        raise DataError(where, "true or false as lost", repr(control.lost))
    if not isinstance(control.xid, int) or isinstance(control.xid, bool):
        raise DataError(where, "a number as xid", repr(control.xid))
    return control


def pci_address(uuid: str) -> str:
    """PCI address of an emulated GPU as the kernel log writes it (`0000:9b:00`), the same in every process.

    Derived from the UUID, so that no list has to be kept; two GPUs of one host meet once in 65,536.
    """
    digits = uuid.removeprefix("GPU-").replace("-", "").ljust(4, "0")
    return f"00{digits[:2]}:{digits[2:4]}:00"
