"""How a figure is told: what it depends on, the figures, as one JSON object or a table (see docs/architecture.md)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass
from typing import Any

_VERSIONS_OF = ("leadline", "chdb-core", "clickhouse-connect", "numpy", "pyarrow", "numba")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `value` is null if it could not be taken; then `reason` says why."""

    figure: str
    value: float | None
    unit: str
    target: float | None = None
    better: str = "higher"  # or "lower"
    anchor: dict[str, Any] | None = None  # {"of": whose, "value": theirs}, for a figure beside somebody else's
    reason: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; null without a target or a value."""
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.better == "higher" else self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        out = {**asdict(self), "met": self.met}
        return {key: value for key, value in out.items() if value is not None or key in ("value", "target", "met")}


def conditions(seed: int | None = None, **more: Any) -> dict[str, Any]:
    """What the figures depend on: cores, load before the run, versions, seed, and what the caller adds."""
    versions = {"python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "versions": versions,
        "seed": seed,
        **more,
    }


def tell(name: str, taken_under: dict[str, Any], figures: list[Figure], as_json: bool) -> None:
    """Print the figures: one JSON object as the last line, or a table."""
    if as_json:
        told = {"name": name, "conditions": taken_under, "figures": [figure.as_json() for figure in figures]}
        print(json.dumps(told, sort_keys=False))
        return
    print(f"{name}: {', '.join(f'{key}={value}' for key, value in taken_under.items() if key != 'versions')}")
    width = max((len(figure.figure) for figure in figures), default=0)
    for figure in figures:
        value = (
            "-" if figure.value is None else f"{figure.value:,.4g}" if figure.value < 1000 else f"{figure.value:,.0f}"
        )
        note = {None: "", True: "  met", False: "  NOT MET"}[figure.met]
        target = "" if figure.target is None else f"  (target {figure.target:,g}, {figure.better} is better)"
        beside = "" if figure.anchor is None else f"  beside {figure.anchor['of']}: {figure.anchor['value']}"
        why = "" if figure.reason is None else f"  {figure.reason}"
        print(f"  {figure.figure:<{width}}  {value:>12} {figure.unit}{target}{note}{beside}{why}")
