"""Orders of operators and schedulers, and what they cover."""

from __future__ import annotations

from leadline.analysis.cause.suppression import EARLY_NS, HOLDS_NS, Order, orders, suppressed
from leadline.model.incidents import Suppressed

S = 10**9


def event(kind: str, at_s: int, entity: str = "host:h1", **attributes: str) -> dict[str, object]:
    return {"kind": kind, "time_ns": at_s * S, "entity": entity, "attributes": list(attributes.items())}


def test_an_order_holds_until_its_end_is_told() -> None:
    told = [event("maintenance-end", 300), event("maintenance", 100), event("log", 150), event("drain-end", 200)]
    assert orders(told) == [Order(Suppressed.MAINTENANCE, "host:h1", 100 * S, 300 * S)]
    assert orders([event("maintenance", 100), event("host-ready", 250)])[0].to_ns == 250 * S
    assert orders([event("maintenance", 100), event("host-ready", 250, "host:h2")])[0].to_ns > 250 * S


def test_one_without_an_end_does_not_hold_for_ever() -> None:
    (order,) = orders([event("drain", 100)])
    assert order.to_ns == 100 * S + HOLDS_NS[Suppressed.DRAIN]
    (told,) = orders([event("drain", 100, until_ns=str(160 * S))])
    assert told.to_ns == 160 * S
    (nonsense,) = orders([event("drain", 100, until_ns="tomorrow")])
    assert nonsense == order


def test_only_what_began_while_it_held_and_stands_on_it_is_covered() -> None:
    asked = orders([event("maintenance", 100), event("maintenance-end", 300)])
    assert suppressed(asked, {"host:h1", "job:bert"}, 200 * S) is Suppressed.MAINTENANCE
    assert suppressed(asked, {"host:h2", "job:bert"}, 200 * S) is None
    assert suppressed(asked, {"host:h1"}, 300 * S) is None
    assert suppressed(asked, {"host:h1"}, 100 * S - EARLY_NS) is Suppressed.MAINTENANCE
    assert suppressed(asked, {"host:h1"}, 100 * S - EARLY_NS - 1) is None


def test_the_last_order_is_named() -> None:
    asked = orders([event("maintenance", 100), event("preemption", 150, "job:bert")])
    assert suppressed(asked, {"host:h1", "job:bert"}, 160 * S) is Suppressed.PREEMPTION
