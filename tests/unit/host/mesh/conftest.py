from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.host.mesh.native import Native, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of leadline-prober and its library."""
    return build(tmp_path_factory.mktemp("prober"), "all")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs with sanitizers."""
    return build(tmp_path_factory.mktemp("sanitized"), "sanitized") / "sanitized"


@pytest.fixture(scope="session")
def native(built: Path) -> Native:
    return Native(built / "libleadlineprobe.so")
