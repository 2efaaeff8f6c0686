"""What tenants say of things that are not theirs is stored and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.foreign_rows import relation

from leadline.ingest.sources import Sender
from leadline.model.principal import Principal
from leadline.model.tables import BY_NAME, Type

from .conftest import Bench, one

EVENT, RELATION = BY_NAME["event"], BY_NAME["relation"]
BLANK: dict[Type, Any] = {Type.I64: 0, Type.U64: 0, Type.U128: 1, Type.F64: 0.0, Type.MAP: {}, Type.SYMS: []}
BOB, ACME, PROVIDER = (Principal(tenant) for tenant in ("bob", "acme", "default"))


def send(bench: Bench, name: str, rows: list[dict[str, Any]], who: Principal, batch: int = 1) -> None:
    table = BY_NAME[name]
    whole = [{table.time: bench.clock(), **row} for row in rows]
    columns = {
        column.name: [row.get(column.name, None if column.nullable else BLANK.get(column.type, "")) for row in whole]
        for column in table.given
    }
    sender = Sender(who.tenant, "rows", "test")
    bench.intake.rows(table, columns, len(rows), batch, who, sender).done.result(5)


def not_yours(bench: Bench) -> int:
    return bench.refused().get("not_yours", 0)


@pytest.fixture
def let(bench: Bench) -> Bench:
    """The provider has two hosts; acme holds one."""
    since = bench.clock() - 10**9
    told = [
        relation("host:h1", "held-by", "tenant:acme", since),
        relation("port:h2/eth0", "in", "host:h2", since),
        relation("gpu:GPU-1", "in", "host:h1", since),
        relation("address:10.1.1.1", "in", "port:h1/eth0", since),
    ]
    send(bench, "relation", told, PROVIDER)
    return bench


@pytest.mark.parametrize(
    ("entity", "host", "acme", "bob"),
    [
        ("host:h1", "h1", 0, 1),
        ("host:h2", "", 1, 1),
        ("gpu:GPU-1", "", 0, 1),
        ("gpu:GPU-9", "", 0, 0),  # nobody else has it
        ("rank:bert-1/0", "h1", 0, 1),
        ("rank:bert-1/0", "", 0, 0),
        ("rank:bert-1/0", "elsewhere", 0, 0),
        ("link:leaf1/e1~spine1/e1", "", 1, 1),
        ("", "", 0, 0),
    ],
)
def test_events_about_what_others_hold_are_counted(let: Bench, entity: str, host: str, acme: int, bob: int) -> None:
    send(let, "event", [{"entity": entity, "host": host, "kind": "xid"}], ACME)
    assert not_yours(let) == acme
    send(let, "event", [{"entity": entity, "host": host, "kind": "xid"}], BOB)
    send(let, "event", [{"entity": entity, "host": host, "kind": "xid"}], PROVIDER)
    assert not_yours(let) == acme + bob
    assert len(let.store.rows("event")) == 3


def test_all_tables_that_a_sender_may_send_are_counted(let: Bench) -> None:
    send(let, "relation", [relation("qp:10.1.1.1/300", "owns", "rank:j/4", let.clock()) for _ in range(2)], BOB)
    send(let, "flow_sample", [{"switch": "leaf1"}], ACME)
    send(let, "step", [{"job": "j", "host": "h1"}, {"job": "j", "host": "b1"}], BOB)
    send(let, "probe", [{"src": "b1", "dst": "h2"}], BOB)
    send(let, "watermark", [{"host": "h1", "job": "bert-1"}], BOB)
    assert not_yours(let) == 2 + 1 + 1 + 1 + 1


def test_new_streams_are_counted_once(let: Bench) -> None:
    for at in range(3):
        for who in (ACME, BOB, PROVIDER):
            let.send(one({"__name__": "node_load1", "instance": "h1:9100"}, let.clock() + at), who)
    assert not_yours(let) == 1


def test_a_hold_that_ended_is_one_no_more(let: Bench) -> None:
    end_ns = let.clock() - 1
    send(let, "relation", [relation("host:h1", "held-by", "tenant:acme", end_ns - 10**9, end_ns)], PROVIDER, batch=2)
    send(let, "event", [{"entity": "host:h1"}], ACME)
    assert not_yours(let) == 1


def test_without_a_provider_nothing_is_anybody_elses(bench: Bench) -> None:
    send(bench, "event", [{"entity": "host:h1"}, {"entity": "link:a~b"}], ACME)
    send(bench, "relation", [relation("host:h1", "held-by", "tenant:bob", bench.clock())], BOB)
    assert not_yours(bench) == 0


def test_what_is_whose_is_known_again_after_a_restart(let: Bench, make: Callable[..., Bench]) -> None:
    again = make(store=let.store)
    send(again, "event", [{"entity": "gpu:GPU-1", "kind": "xid"}], BOB)
    assert not_yours(again) == 1
