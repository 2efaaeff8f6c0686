"""Delays between hosts as a matrix and over time, clocks with their fits: of made rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.mesh.clocks import NO_CLOCK, clock_answer
from leadline.views.mesh.pairs import HOSTS_MAX, mesh_answer, pair_answer
from leadline.views.mesh.routers import Routers, finding_of
from leadline.views.mesh.types import ClockAnswer, MeshAnswer, PairAnswer
from leadline.views.mesh.windows import LOOK_NS, NO_DELAY

S = 10**9
END = 1_750_000_000 * S
PROVIDER = {"tenant": "provider", "cluster": "default", "analysis": "clock", "version": 1, "revision": 1}
PROVIDER_S = {"tenant": "provider", "cluster": "default"}
BETA = Principal("beta", "default", Role.TENANT_READ)
PROVIDERS = Principal("provider", "default", Role.TENANT_READ)


def delay(src: str, dst: str, p50: int, *, ago_s: float = 0, **more: Any) -> dict[str, Any]:
    return row(
        "delay", **{**PROVIDER, "src": src, "dst": dst, "src_port": None, "class": 0, "end_ns": END - round(ago_s * S),
        "window_ns": 10 * S, "min_ns": p50 - 1000, "p50_ns": p50, "p99_ns": 2 * p50, "queue_p99_ns": p50 + 1000,
        "lost": 0.0, "count": 100, "bound_ns": 200, **more},
    )  # fmt: skip


def fit(host: str, offset: int, bound: int, *, ago_s: float = 0, **more: Any) -> dict[str, Any]:
    return row(
        "clock_fit", **{**PROVIDER, "host": host, "clock": "realtime", "end_ns": END - round(ago_s * S),
        "offset_ns": offset, "rate_ppb": 12.5, "bound_ns": bound, "noise_ns": 40.0, "island": 1, "state": "fitted",
        **more},
    )  # fmt: skip


def hop(address: str, ago_s: int = 10) -> dict[str, Any]:
    at = {"time_ns": END - ago_s * S, "hop": len(address)}
    return row("probe_hop", **PROVIDER_S | {"src": "h1", "dst": "h2", "address": address, **at})


ROWS = {
    "probe_hop": [hop("10.201.1.0"), hop("10.201.2.10"), hop("10.201.2.10", 20), hop(""), hop("10.9.9.9", 301),
                  hop("10.201.30.10")],
    "relation": [
        row("relation", **PROVIDER_S | {"child": f"address:{address}", "parent": parent, "kind": "in",
                                        "from_ns": END - 3600 * S, "to_ns": to_ns})
        for address, parent, to_ns in (
            ("10.201.1.0", "swport:spine1/Ethernet1", None), ("10.201.2.10", "port:h1/eth0", None),
            ("10.201.30.10", "swport:spine2/Ethernet1", END - 301 * S),
        )
    ],
    "delay": [
        delay("h1", "h2", 9_000, ago_s=20),  # older than the next
        delay("h1", "h2", 5_000, revision=0),
        delay("h1", "h2", 7_000),  # judged again: this one counts
        delay("h1", "h2", 1_000, window_ns=60 * S),  # a longer window that ends with it
        delay("h2", "h1", 6_000, bound_ns=None),
        # Without a row of all ports the ports' rows count together.
        delay("h2", "h10", 4_000, src_port=1, count=300, lost=0.0),
        delay("h2", "h10", 8_000, src_port=2, count=100, lost=0.5),
        delay("h10", "h2", 4_000, src_port=1, count=0, lost=1.0),
        delay("h1", "h10", 3_000, ago_s=LOOK_NS / S + 1),  # too old to be now
        delay("h1", "h2", 50_000, **{"class": 46}),
        delay("b1", "b2", 2_000, tenant="beta"),
        *(delay(f"h{at}", f"h{at + 1}", 1_000 + at, tenant="large") for at in range(HOSTS_MAX + 10)),
    ],
    "clock_fit": [
        fit("h1", 100, 900, ago_s=5), fit("h1", 50, 300), fit("h2", -70, 800, island=2),
        fit("h3", 0, 10, state="lost"), fit("h4", 0, 10, ago_s=LOOK_NS / S + 1), fit("b1", 1, 1, tenant="beta"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("mesh"), ROWS) as store:
        yield store


def mesh(store: Store, measure: Any = "p50", who: Principal | None = None, **more: Any) -> dict[str, Any]:
    found = mesh_answer(store, Asked(who or PROVIDERS, "default", END), measure, **more)
    MeshAnswer.model_validate(found)
    return found


def test_what_is_lost_is_known_where_no_delay_is(store: Store) -> None:
    assert mesh(store, "lost")["values"][2][1] == 1.0


def test_matrix_is_of_the_newest_windows_senders_as_rows(store: Store) -> None:
    found = mesh(store)
    assert found["hosts"] == ["h1", "h2", "h10"], "by number, not by letter"
    assert found["values"] == [[None, 7_000, None], [6_000, None, 5_000], [None, None, None]]
    assert found["silent"] == [(2, 1)], "h10 to h2: probed, and nothing arrived, so that there is no delay to tell"
    assert found["bounds_ns"][0][1] == 200
    assert found["bounds_ns"][1][0] is None
    assert (found["unit"], found["traffic_class"], found["why"]) == ("ns", 0, "")
    assert found["classes"] == [{"value": 0, "pairs": 4}, {"value": 46, "pairs": 1}]
    assert found["from_ns"] == END - 10 * S


@pytest.mark.parametrize(
    ("measure", "there"),
    [("queue_p50", 1_000), ("queue", 9_000), ("p50", 5_000), ("p99", 16_000), ("min", 3_000), ("lost", 0.25)],
)
def test_ports_of_a_pair_count_together(store: Store, measure: str, there: float) -> None:
    found = mesh(store, measure)
    assert found["values"][1][2] == pytest.approx(there)
    assert found["unit"] == ("ratio" if measure == "lost" else "ns")


def test_another_class_is_another_matrix(store: Store) -> None:
    found = mesh(store, traffic_class=46)
    assert (found["hosts"], found["values"]) == (["h1", "h2"], [[None, 50_000], [None, None]])
    assert mesh(store, traffic_class=7)["why"] == NO_DELAY


def test_a_tenant_sees_its_own_mesh_only(store: Store) -> None:
    assert mesh(store, who=BETA)["hosts"] == ["b1", "b2"]
    assert [each["host"] for each in clock_answer(store, Asked(BETA, "", END))["clocks"]] == ["b1"]
    pair = pair_answer(store, Asked(BETA, "default", END), END - LOOK_NS, "h1", "h2", None)
    assert (pair["there"], pair["back"]) == ([], [])


def test_a_pair_over_time_both_ways(store: Store) -> None:
    found = pair_answer(store, Asked(PROVIDERS, "default", END), END - 60 * S, "h1", "h2", 0)
    PairAnswer.model_validate(found)
    assert [each["p50_ns"] for each in found["there"]] == [9_000, 7_000], "oldest first, of the shortest windows"
    assert [each["p50_ns"] for each in found["back"]] == [6_000]
    nothing = pair_answer(store, Asked(PROVIDERS, "default", END), END - S, "h1", "h3", 0)
    assert nothing["why"]


def test_clocks_newest_fit_least_certain_first(store: Store) -> None:
    found = clock_answer(store, Asked(PROVIDERS, "", END))
    ClockAnswer.model_validate(found)
    told = [(each["host"], each["offset_ns"], each["state"]) for each in found["clocks"]]
    assert told == [("h3", 0, "lost"), ("h2", -70, "fitted"), ("h1", 50, "fitted")]
    assert (found["worst_bound_ns"], found["islands"]) == (800, 2), "of clocks that are not lost"


def test_without_rows_it_is_said_why(store: Store) -> None:
    nobody = Asked(Principal("gamma", role=Role.TENANT_READ), "", END)
    assert mesh_answer(store, nobody, "p99")["why"] == NO_DELAY
    assert mesh_answer(store, nobody, "p99")["values"] == []
    assert clock_answer(store, nobody)["why"] == NO_CLOCK


def test_a_mesh_that_is_too_large_keeps_the_worst(store: Store) -> None:
    found = mesh(store, who=Principal("large", role=Role.TENANT_READ))
    assert (len(found["hosts"]), found["hosts_total"]) == (HOSTS_MAX, HOSTS_MAX + 11)
    assert found["hosts"][-1] == f"h{HOSTS_MAX + 10}"
    assert "h0" not in found["hosts"]


def test_routers_of_which_nobody_tells_whose_they_are_are_named_to_who_can_mend_it(store: Store) -> None:
    found = mesh(store, who=Principal("provider", "default", Role.OPERATOR))
    assert found["routers_total"] == 3
    assert found["routers_unplaced"] == ["10.201.2.10", "10.201.30.10"], "a host's port places none, nor what has ended"
    assert mesh(store)["routers_total"] == 0


def test_doctor_names_them_to_the_operator_and_says_what_to_do(store: Store) -> None:
    looks, operator = Routers(), Principal("provider", "default", Role.OPERATOR)
    (found,) = looks.findings(store, Asked(operator, "", END))
    assert "2 of 3 addresses that answer the probes' traces" in found["text"]
    assert "(10.201.2.10, 10.201.30.10)" in found["text"]
    assert "address:ADDRESS in swport:SWITCH/PORT" in found["do"]
    assert looks.findings(store, Asked(PROVIDERS, "", END)) == []
    later = Asked(operator, "", END + 400 * S)
    assert looks.findings(store, later) == [], "nothing has answered for five minutes"


def test_many_are_told_as_some_and_more() -> None:
    (found,) = finding_of(9, [f"10.0.0.{number}" for number in range(5)])
    assert "(10.0.0.0, 10.0.0.1, 10.0.0.2 and 2 more)" in found["text"]
    assert finding_of(9, []) == []
