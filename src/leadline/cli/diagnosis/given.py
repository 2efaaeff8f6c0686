"""What `leadline diagnose --metrics` was given. By itself, because the analysis takes a second to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_FOR = "5m"  # short enough that what caused it is still going on, long enough for five readings of a minute each


@dataclass(frozen=True, slots=True)
class Given:
    """Options, as text."""

    metrics: Path
    relations: Path | None = None
    entity: str = ""  # that is slow or fails
    at: str = ""
    lasting: str = DEFAULT_FOR
    normal: Sequence[str] = ()  # FROM/TO
    roles: Sequence[str] = ()  # METRIC=ROLE
    symptom_metric: str = ""
    step: str = ""
