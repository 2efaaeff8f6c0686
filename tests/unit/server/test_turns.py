"""Turns to query: a tenant takes its own, never those kept for operators."""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import copy_context

import pytest

from leadline.model.errors import BusyError
from leadline.model.principal import Principal, Role
from leadline.server.api import QUERIES_KEPT, QUERIES_MAX, QUERIES_OF_A_TENANT_MAX, _asking, _Turns


def take(turns: _Turns, held: ExitStack, tenant: str, role: Role = Role.TENANT_READ) -> bool:
    """Whether that tenant gets another turn, which `held` keeps."""

    def asked() -> bool:
        _asking.set(Principal(tenant, role=role))
        try:
            held.enter_context(turns.turn())
        except BusyError:
            return False
        return True

    return copy_context().run(asked)


def test_tenants_take_no_more_than_theirs() -> None:
    turns, tenants = _Turns(QUERIES_MAX, QUERIES_OF_A_TENANT_MAX, QUERIES_KEPT), ExitStack()
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


def test_who_asks_is_a_tenant_until_it_is_known() -> None:
    turns = _Turns(2, 1, 1)

    def twice() -> None:
        with turns.turn(), turns.turn():
            pass

    with pytest.raises(BusyError, match="1 queries of the tenant"):
        copy_context().run(twice)
