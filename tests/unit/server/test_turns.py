"""Turns to query: a tenant takes its own, never those kept for operators."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from leadline.model.errors import BusyError
from leadline.model.principal import Principal, Role
from leadline.server.serving import QUERIES_KEPT, QUERIES_MAX, QUERIES_OF_A_TENANT_MAX, Turns


def take(turns: Turns, held: ExitStack, tenant: str, role: Role = Role.TENANT_READ) -> bool:
    """Whether that tenant gets another turn, which `held` keeps."""
    try:
        held.enter_context(turns.turn(Principal(tenant, role=role)))
    except BusyError:
        return False
    return True


def test_tenants_take_no_more_than_theirs() -> None:
    turns, tenants = Turns(), ExitStack()
    with tenants:
        greedy = [take(turns, tenants, "greedy") for _ in range(QUERIES_MAX)]
        assert greedy.count(True) == QUERIES_OF_A_TENANT_MAX
        others = [take(turns, tenants, f"t{n}") for n in range(QUERIES_MAX)]
        assert others.count(True) == QUERIES_MAX - QUERIES_KEPT - QUERIES_OF_A_TENANT_MAX
        operators = [take(turns, tenants, "default", Role.OPERATOR) for _ in range(QUERIES_MAX)]
        assert operators.count(True) == QUERIES_KEPT
    with ExitStack() as again:
        assert take(turns, again, "greedy")
    assert not turns._taken


def test_a_tenant_that_holds_its_turn_gets_no_other() -> None:
    turns, tenant = Turns(2, 1, 1), Principal("acme", role=Role.TENANT_READ)
    with turns.turn(tenant), pytest.raises(BusyError, match="1 queries of the tenant"), turns.turn(tenant):
        pass
