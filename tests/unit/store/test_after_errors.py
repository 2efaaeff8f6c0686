"""A statement that fails half way leaves nothing behind for the next one, whoever asks."""

from __future__ import annotations

import pytest

from leadline.model.errors import LeadlineError
from leadline.model.principal import Principal, Role
from leadline.store import Limits, Store

ONE, OTHER = (Principal(tenant=name, role=Role.TENANT_READ) for name in ("one", "other"))
# Each writes rows before it fails.
HALF_WAY = "SELECT number, throwIf(number = 500000) FROM numbers(1000000)"
TOO_MANY = "SELECT arrayJoin(range(300000)) AS x FROM (SELECT 1)"


def test_our_own_statements(store: Store) -> None:
    for _ in range(store.config.readers + 1):
        with pytest.raises(LeadlineError, match="throwIf"):
            store.query(HALF_WAY)
        for _ in range(store.config.readers + 1):
            assert store.query("SELECT 7 AS seven").to_pylist() == [{"seven": 7}]


def test_users_of_two_tenants(store: Store) -> None:
    limits = Limits(rows=1000, seconds=30)
    for _ in range(store.config.readers + 1):
        with pytest.raises(LeadlineError, match="more than 1000 rows"):
            store.query_as(ONE, TOO_MANY, limits=limits)
        for _ in range(store.config.readers + 1):
            assert store.query_as(OTHER, "SELECT 7 AS seven", limits=limits).to_pylist() == [{"seven": 7}]


def test_rows_made_from_no_table_count_too(store: Store) -> None:
    with pytest.raises(LeadlineError, match="more than 1000 rows"):
        store.query_as(ONE, "SELECT arrayJoin(range(1001)) AS x", limits=Limits(rows=1000))
