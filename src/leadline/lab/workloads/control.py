"""The control file of a rank: a small JSON object that faults write and the rank reads once per step.

It is replaced whole (write, then rename), so a reader sees the old or the new one. The rank calls `changed()` between
steps; as long as the file stays the same that costs one `stat`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_control(path: Path, settings: Mapping[str, Any]) -> None:
    """Replace the file. {} means: behave normally."""
    text = json.dumps(dict(settings), sort_keys=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


class Control:
    """The rank's side. A missing or broken file means: behave normally."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self.settings: dict[str, Any] = {}

    def changed(self) -> bool:
        """Re-read if the file was replaced; True if the settings differ from before."""
        if not self._path:
            return False
        try:
            status = os.stat(self._path)
            # The inode too: two writes within one tick of the file system's clock have the same time.
            seen = (status.st_mtime_ns, status.st_ino)
            if seen == self._seen:
                return False
            with open(self._path) as file:
                settings = json.load(file)
        except (OSError, ValueError):
            return False
        before, self._seen = self.settings, seen
        self.settings = settings if isinstance(settings, dict) else {}
        return self.settings != before

    def number(self, name: str) -> float:
        """A setting as a number; 0.0 if it is not set or no number (JSON of Python's may say NaN and Infinity)."""
        value = self.settings.get(name, 0.0)
        try:
            return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
        except OverflowError:  # a whole number of 400 digits
            return 0.0

    def flag(self, name: str) -> bool:
        """Whether a setting is set, and not to false, 0 or nothing."""
        return bool(self.settings.get(name))

    def text(self, name: str) -> str:
        """A setting as text; "" if it is not set or none."""
        value = self.settings.get(name)
        return value if isinstance(value, str) else ""
