"""Laws that every declared table, counter and right keeps."""

from __future__ import annotations

import pytest

from leadline.model.counters import COUNTERS, Counter, UnknownCounterError, accepted, counter, refused
from leadline.model.ids import ENTITY_KINDS
from leadline.model.principal import ALLOWED, OPERATE, READ, WRITE, Principal, Role
from leadline.model.tables import BY_NAME, TABLES, Identity, Table, Type
from leadline.model.units import UNITS, canonical_unit


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table(table: Table) -> None:
    assert BY_NAME[table.name] is table
    assert table.doc.endswith(".")
    assert table.keep_hours >= 1
    assert table.column(table.time).type is Type.I64
    assert not table.column(table.time).nullable
    assert {"tenant", "cluster"} <= set(table.key)
    given = {column.name for column in table.given}
    assert "tenant" not in given
    assert "batch" not in given
    for column in table.columns:
        assert column.doc, column.name
        assert column.unit is None or column.unit in UNITS, column.name
        if column.name.endswith("_ns"):
            assert column.unit == "ns", column.name
            assert column.type in (Type.I64, Type.F64), column.name  # F64: spreads, which have fractions


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_key_says_what_the_identity_needs(table: Table) -> None:
    added = {
        Identity.KEY: set(),
        Identity.BATCH: {"batch", "batch_row"},
        Identity.REVISION: {"analysis"},
    }[table.identity]
    assert added <= set(table.key)
    assert not {"version", "revision"} & set(table.key), "a later judgement takes the place of an earlier one"


@pytest.mark.parametrize("item", COUNTERS, ids=lambda item: f"{item.family}-{item.reason}")
def test_every_counter(item: Counter) -> None:
    assert counter(item.family, item.reason) is item
    assert item.doc.endswith(".")
    assert item.do.endswith(".")
    assert item.reason == item.reason.lower()


def test_counters_are_declared_once() -> None:
    assert len({(item.family, item.reason) for item in COUNTERS}) == len(COUNTERS)
    assert refused("malformed").family == "ingest_refused"
    assert accepted("samples").unit == "samples"
    with pytest.raises(UnknownCounterError, match="no counter"):
        refused("nobody_declared_this")


def test_roles_only_add_rights() -> None:
    read, write, operate = (Principal(role=role) for role in (Role.TENANT_READ, Role.TENANT_WRITE, Role.OPERATOR))
    assert [who.may(READ) for who in (read, write, operate)] == [True, True, True]
    assert [who.may(WRITE) for who in (read, write, operate)] == [False, True, True]
    assert [who.may(OPERATE) for who in (read, write, operate)] == [False, False, True]
    assert set(ALLOWED) == set(Role)


def test_entity_kinds_and_units() -> None:
    assert len(set(ENTITY_KINDS)) == len(ENTITY_KINDS)
    assert canonical_unit("By") == "bytes"
    assert canonical_unit("furlong") == "furlong"
    assert canonical_unit("ms") == "ms", "a value is never rescaled, so its unit is not either"
