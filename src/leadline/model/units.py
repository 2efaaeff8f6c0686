"""Units a column or a metric may carry, and how OpenTelemetry (UCUM) and Prometheus spell them."""

from __future__ import annotations

S = 10**9  # ns of a second: all stored times are whole ns

NS = "ns"
SECONDS = "s"
BYTES = "bytes"
BPS = "bits/s"
BYTES_PER_SECOND = "bytes/s"
RATIO = "ratio"  # 0 to 1
PERCENT = "%"
PPB = "ppb"
HERTZ = "Hz"
CELSIUS = "Cel"
WATTS = "W"
JOULES = "J"
VOLTS = "V"
AMPERES = "A"
COUNT = "1"
PACKETS = "packets"
GPU_SECONDS = "gpu_s"
MONEY = "money"

UNITS = (
    NS, SECONDS, BYTES, BPS, BYTES_PER_SECOND, RATIO, PERCENT, PPB, HERTZ, CELSIUS, WATTS, JOULES, VOLTS,
    AMPERES, COUNT, PACKETS, GPU_SECONDS, MONEY,
)  # fmt: skip

# Only spellings that mean the same quantity at the same scale: a value is never rescaled on the way in, so
# "ms" or "MiB" stay what the sender called them.
SPELLINGS: dict[str, str] = {
    "seconds": SECONDS,
    "By": BYTES,
    "byte": BYTES,
    "By/s": BYTES_PER_SECOND,
    "bit/s": BPS,
    "percent": PERCENT,
    "hertz": HERTZ,
    "celsius": CELSIUS,
    "watts": WATTS,
    "joules": JOULES,
    "volts": VOLTS,
    "amperes": AMPERES,
    "{packet}": PACKETS,
    "{packets}": PACKETS,
}


def gpu_time(gpu_seconds: float | None) -> str:
    """Lost GPU time: `1.32 GPU-h`, below an hour `85 GPU-s`; `-` for None."""
    if gpu_seconds is None:
        return "-"
    hours = gpu_seconds / 3600
    if hours >= 1000:
        return f"{hours:,.0f} GPU-h"
    if hours >= 1:
        return f"{hours:.3g} GPU-h"
    return f"{gpu_seconds:,.0f} GPU-s" if gpu_seconds >= 100 else f"{gpu_seconds:.3g} GPU-s"


def canonical_unit(text: str) -> str:
    """Our word for a unit as a sender spelled it; a unit we do not know is kept as it came."""
    return SPELLINGS.get(text, text)
