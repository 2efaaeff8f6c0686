"""Settings of the runner."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """What is judged, and from what. `leadline replay` sets these."""

    replay_file: str = field(
        default="",
        metadata={
            "doc": "Incident bundle to replay; then no telemetry is taken and nothing ages. Empty: live telemetry."
        },
    )
    replay_speed: float = field(
        default=1.0,
        metadata={"doc": "How many recorded seconds pass in one second; 0: as fast as the store takes them.", "min": 0},
    )
