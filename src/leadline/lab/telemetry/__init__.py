"""The telemetry of an emulated cluster, in the wire formats of the real thing. docs/lab/telemetry.md."""

from leadline.lab.telemetry.plan import TelemetryConfig
from leadline.lab.telemetry.start import Telemetry

__all__ = ["Telemetry", "TelemetryConfig"]
