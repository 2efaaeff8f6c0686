"""One machine under two names is told, with both names and what mends it; machines that look alike are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.same_machine import KEPT_NS, NOW_NS, Double, SameMachines, Told, doubles, findings_of

S = 10**9
NOW = 1_750_000_000 * S
ACME, BETA = (Principal(name, "default", Role.TENANT_READ) for name in ("acme", "beta"))


def told(*hosts: str, agents: tuple[str, ...] = (), system: dict[str, str] | None = None, **holders: str) -> Told:
    return Told(frozenset(hosts), frozenset(agents), system or {}, holders)


def pairs(one: Told) -> list[tuple[str, str]]:
    return [(each.keep, each.other) for each in doubles(one)]


def test_a_short_name_and_its_full_one_are_one_machine() -> None:
    assert doubles(told("n12", "n12.example.com", "n13")) == [
        Double("n12", "n12.example.com", "n12.example.com is n12 with its domain")
    ]
    # Whatever the agent says is kept: what Prometheus calls a target is mended in one place.
    assert pairs(told("n12", "n12.example.com", agents=("n12.example.com",))) == [("n12.example.com", "n12")]


@pytest.mark.parametrize(
    "hosts",
    [
        ("n1", "n12"), ("n12.a", "n12.b"), ("n12", "n12.a", "n12.b"), ("10", "10.0.0.7"), ("rack.n1", "rack.n2"),
        ("n12",),
    ],
)  # fmt: skip
def test_names_that_look_alike_are_two_machines(hosts: tuple[str, ...]) -> None:
    assert pairs(told(*hosts)) == []


def test_the_system_says_its_own_name() -> None:
    one = told("10.0.0.7", "n12", "n13", agents=("n12",), system={"10.0.0.7": "n12", "n13": "n13"})
    assert doubles(one) == [Double("n12", "10.0.0.7", "10.0.0.7 calls itself n12 in node_uname_info")]
    assert pairs(told("127.0.0.1", "n12", system={"127.0.0.1": "n12.example.com"})) == [("n12", "127.0.0.1")]
    # Nobody else speaks of that name: it is one host, called as its target is.
    assert pairs(told("10.0.0.7", system={"10.0.0.7": "n12"})) == []
    # Made from one image, and nobody gave them names.
    assert pairs(told("10.0.0.7", "10.0.0.8", "n1", system={"10.0.0.7": "n1", "10.0.0.8": "n1"})) == []
    assert pairs(told("10.0.0.7", "localhost", system={"10.0.0.7": "localhost.localdomain"})) == []


def test_an_agent_says_its_addresses() -> None:
    one = told("10.0.0.7", "n12", agents=("n12",), **{"10.0.0.7": "n12", "10.0.0.8": "n13"})
    assert doubles(one) == [Double("n12", "10.0.0.7", "n12 has the address 10.0.0.7")]


def test_a_finding_names_both_and_the_setting_that_mends_it() -> None:
    (one,) = findings_of([Double("n12", "10.0.0.7", "n12 has the address 10.0.0.7")])
    assert one["state"] == "warning"
    assert one["text"].startswith("n12 and 10.0.0.7 are one machine under two names (n12 has the address 10.0.0.7); ")
    assert "the label `nodename: n12`" in one["do"]
    assert "agent.host" in one["do"]
    (many,) = findings_of([Double(f"n{at}", f"10.0.0.{at}", "x") for at in range(5)])
    assert many["text"].startswith(
        "5 machines have two names each (n0 and 10.0.0.0, n1 and 10.0.0.1, n2 and 10.0.0.2, ...)"
    )
    assert findings_of([]) == []


# --- in a store -----------------------------------------------------------------------------------------------------


def series(number: int, host: str, name: str = "node_load1", tenant: str = "acme", **labels: str) -> dict[str, Any]:
    return row(
        "series", series=number, name=name, entity=f"host:{host}", entity_kind="host", host=host, first_ns=1,
        last_ns=NOW - 60 * S, source="scrape", tenant=tenant, labels=labels,
    )  # fmt: skip


def sample(number: int, ago_s: float, tenant: str = "acme") -> dict[str, Any]:
    return row("metric_sample", series=number, time_ns=NOW - round(ago_s * S), value=1.0, tenant=tenant)


def held(address: str, host: str, **more: Any) -> dict[str, Any]:
    return row("relation", child=f"address:{address}", parent=f"port:{host}/eth0", kind="in", from_ns=1,
               source="agent", confidence=1.0, tenant="acme", **more)  # fmt: skip


ROWS = {
    "series": [
        series(1, "10.0.0.7", "node_uname_info", nodename="n12"), series(2, "n12", "leadline_agent_info"),
        series(3, "10.0.0.8"), series(4, "n13", "leadline_agent_info"),
        series(5, "n14"), series(6, "n14.example.com"),  # the second was mended: its samples are old
        series(7, "n15", tenant="beta"), series(8, "n15.example.com", tenant="acme"),  # of two tenants
        series(9, "10.0.0.9"), series(10, "n16"), series(11, "n17"),
    ],
    "metric_sample": [*(sample(number, 5) for number in (1, 2, 3, 4, 5, 8, 9, 10, 11)), sample(6, NOW_NS / S + 60),
                      sample(7, 5, "beta")],
    "relation": [held("10.0.0.8", "n13"), held("10.0.0.9", "n16"), held("10.0.0.9", "n17"),
                 held("10.0.0.7", "n14", to_ns=2)],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("machines"), ROWS) as store:
        yield store


def texts(store: Store, who: Principal, looks: SameMachines | None = None, now_ns: int = NOW) -> list[str]:
    found = (looks or SameMachines()).findings(store, Asked(who, "", now_ns), now_ns)
    return [each["text"].partition(" are ")[0] for each in found]


def test_what_is_told_now_in_the_store(store: Store) -> None:
    expected = ["n12 and 10.0.0.7", "n13 and 10.0.0.8"]
    assert texts(store, Principal()) == expected
    assert texts(store, ACME) == expected
    assert texts(store, BETA) == []


def test_an_answer_stands_for_a_minute(store: Store) -> None:
    looks = SameMachines()
    first = texts(store, ACME, looks)
    later = NOW + KEPT_NS + NOW_NS  # by then nobody was heard for ten minutes
    assert texts(store, ACME, looks, NOW + KEPT_NS - S) == first
    assert texts(store, BETA, looks) == []  # another's answer is another's
    assert texts(store, ACME, looks, later) == []
