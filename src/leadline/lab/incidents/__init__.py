"""Incidents that the lab recorded, with their truth beside them: for tests, and for who has no root for a lab.

Each was made by `leadline lab run NAME --record`, see docs/lab/incidents.md. To add one: its two files in this folder.
"""

from __future__ import annotations

from pathlib import Path

from leadline.model.errors import UsageError

HERE = Path(__file__).parent
SHOWN = "demo"  # the one that `leadline up --demo` plays without root


def incidents() -> dict[str, Path]:
    """The bundles by name."""
    return {path.stem: path for path in sorted(HERE.glob("*.leadline"))}


def incident(name: str) -> Path:
    """A bundle by name. Errors: UsageError naming those that there are."""
    found = incidents()
    if name not in found:
        raise UsageError(f"no recorded incident {name!r}; there are {', '.join(found) or 'none in this installation'}")
    return found[name]
