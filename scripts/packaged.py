"""Build hook of the package: a wheel or an sdist without the page or the docs is no Leadline, so building it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = {"page": "scripts/build-page", "docs": "scripts/build-docs"}  # below src/leadline/server; and what builds it


class Packaged(BuildHookInterface[Any]):
    """Looks before anything is packed. An editable installation serves what is built later."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Errors: SystemExit, naming what is missing and how to get it."""
        if version == "editable":
            return
        server = Path(self.root) / "src" / "leadline" / "server"
        missing = [f"{what} ({how})" for what, how in NEEDED.items() if not (server / what / "index.html").is_file()]
        if missing:
            raise SystemExit(f"the package needs what is built before it: {', '.join(missing)}; or scripts/build-wheel")
