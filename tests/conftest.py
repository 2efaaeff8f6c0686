"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.builders.stores import opened_store

from leadline.store import Store

# Speed is measured in bench/: on a busy machine a property that takes 0.3 s once is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty embedded store with all tables, for the tests of one file. It keeps everything: rows are of any age."""
    with opened_store(tmp_path_factory.mktemp("store")) as made:
        yield made
