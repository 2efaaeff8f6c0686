"""Who may speak of what: every table and every kind of entity has a line."""

from __future__ import annotations

import pytest

from leadline.model.ids import ENTITY_KINDS
from leadline.model.speakers import KINDS, OF_EVERYBODY, SPOKEN, Who, host_in, placed_as, who
from leadline.model.tables import BY_NAME, TABLES, Identity


def test_every_table_and_every_kind_has_a_line() -> None:
    assert set(SPOKEN) == set(BY_NAME)
    assert set(KINDS) == set(ENTITY_KINDS)
    assert set(BY_NAME) >= OF_EVERYBODY


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_that_decide_are_columns_of_the_table(table: object) -> None:
    assert isinstance(table, type(TABLES[0]))
    said = SPOKEN[table.name]
    assert {*said.entities, *said.hosts} <= {column.name for column in table.columns}
    if table.identity is Identity.REVISION:
        assert said.by is Who.LEADLINE, "verdicts are no sender's to say"
    if said.by is Who.TENANT:
        assert not said.to_all, "a job is its own tenant's"


@pytest.mark.parametrize(
    ("entity", "host", "placed", "by"),
    [
        ("host:h1", "h1", "host:h1", Who.HOLDER),
        ("port:h1/eth0", "h1", "port:h1/eth0", Who.HOLDER),
        ("process:h1/70", "h1", "process:h1/70", Who.HOLDER),
        ("gpu:GPU-5c1e", "", "gpu:GPU-5c1e", Who.HOLDER),
        ("gpu:h1/0", "h1", "gpu:h1/0", Who.HOLDER),
        ("nvlink:GPU-5c1e/3", "", "gpu:GPU-5c1e", Who.HOLDER),
        ("nvlink:h1/0/3", "h1", "gpu:h1", Who.HOLDER),
        ("qp:10.1.1.1/300", "", "address:10.1.1.1", Who.HOLDER),
        ("qp:fd00::1/300", "", "address:fd00::1", Who.HOLDER),
        ("rank:bert-1/0", "", "rank:bert-1/0", Who.TENANT),
        ("link:leaf1/e1~spine1/e1", "", "link:leaf1/e1~spine1/e1", Who.PROVIDER),
        ("rack:r1", "", "rack:r1", Who.PROVIDER),
        ("", "", "", Who.PROVIDER),
    ],
)
def test_where_things_are_and_who_may_speak_of_them(entity: str, host: str, placed: str, by: Who) -> None:
    assert (host_in(entity), placed_as(entity), who(entity)) == (host, placed, by)
