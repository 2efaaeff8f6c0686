"""Every test here talks to a real server process; programs that are missing make a skip that says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PROGRAMS = ("prometheus", "prometheus-node-exporter", "prometheus-alertmanager", "curl")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.senders)
            if missing:
                item.add_marker(
                    pytest.mark.skip(reason=f"not installed: {', '.join(missing)} (scripts/install-programs)")
                )
