"""The command line as data, read once: it loads every verb."""

from __future__ import annotations

import pytest

from leadline.cli.manual.commands import Command, program


@pytest.fixture(scope="session")
def whole() -> Command:
    return program()
