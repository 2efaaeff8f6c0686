"""Hosts by place with their delays, one host against its peers, slow queue pairs, doubtful clocks: of a made mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.mesh.mesh_rows import END, S, delay, fit, mesh_tables
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.mesh.board import STATES, board_answer, host_answer
from leadline.views.mesh.clocks import STALE_NS, WIDE_NS, clock_answer, doubts
from leadline.views.mesh.flows import NO_FIT, NO_MESSAGES, flows_answer
from leadline.views.mesh.types import BoardAnswer, ClockAnswer, FlowsDelayAnswer, HostAnswer
from leadline.views.mesh.windows import NO_DELAY

WHO = Principal("provider", "default", Role.TENANT_READ)
NOBODY = Principal("gamma", "default", Role.TENANT_READ)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    rows = mesh_tables()
    rows["edge"].append({**rows["edge"][1], "job": "old-1", "end_ns": END - 3600 * S})
    rows["edge"].append({**rows["edge"][1], "job": "unfitted-1"})
    # h7 was heard a minute ago; of h8 only what it sends is known, by another class.
    rows["delay"] += [delay("h7", "h1", 900, ago_s=60), delay("h1", "h7", 900, ago_s=60)]
    rows["delay"] += [delay("h8", "h1", 700, **{"class": 46})]
    for tenant, src, dst in (("deaf", "a", "b"), ("mute", "b", "a")):
        rows["delay"] += [
            delay(src, dst, 900, lost=1.0, count=0, tenant=tenant), delay(dst, src, 900, tenant=tenant),
        ]  # fmt: skip
    with filled(tmp_path_factory.mktemp("board"), rows) as store:
        yield store


def board(store: Store, measure: Any = "p50", **more: Any) -> dict[str, Any]:
    found = board_answer(store, Asked(WHO, "default", END), measure, **more)
    BoardAnswer.model_validate(found)
    return found


def test_a_host_is_as_slow_as_to_half_of_its_peers(store: Store) -> None:
    found = board(store)
    assert found["hosts"] == ["h1", "h2", "h3", "h4", "h5", "h6", "h7"]
    assert found["inbound"] == [900.0, 900.0, 4_000.0, 900.0, None, None, 900.0]
    assert found["outbound"][:5] == [900.0, 900.0, 1_600.0, 900.0, None]
    assert found["inbound_bound_ns"][:5] == [200, 200, 200, 200, None]
    assert (found["inbound_peers"][0], found["inbound_silent"][0]) == (5, 1)
    assert (found["unit"], found["traffic_class"], found["why"]) == ("ns", 0, "")
    assert board(store, "p99")["inbound"][2] == 8_000.0


def test_dark_and_unprobed_are_no_delay(store: Store) -> None:
    found = board(store)
    states = dict(zip(found["hosts"], (STATES[each] for each in found["state"]), strict=True))
    assert states == {"h1": "probed", "h2": "probed", "h3": "probed", "h4": "probed", "h5": "dark", "h6": "unprobed",
                      "h7": "dark"}  # fmt: skip
    words = dict(zip(found["hosts"], found["words"], strict=True))
    assert words["h5"] == "no probe from or to it arrives"
    assert words["h7"] == "nothing measured from or to it for 60 s"
    assert words["h1"] == words["h6"] == ""
    assert found["heard_ns"] == [END, END, END, END, None, None, END - 60 * S]
    assert board(store, "lost")["inbound"][4] == 1.0


@pytest.mark.parametrize(
    ("tenant", "words"), [("deaf", "no probe of 1 peer arrives at it"), ("mute", "no probe from it arrives at 1 peer")]
)
def test_one_way_may_be_dark(store: Store, tenant: str, words: str) -> None:
    who = Principal(tenant, "default", Role.TENANT_READ)
    found = board_answer(store, Asked(who, "default", END), "p50")
    assert found["words"][found["hosts"].index("b")] == words


def test_places_jobs_and_machines_of_hosts(store: Store) -> None:
    found = board(store, address="10.0.0.3")
    tags = {tag["name"]: tag for tag in found["tags"]}
    assert [tags["rack"]["values"][each] for each in tags["rack"]["of"][:6]] == [
        "rack1", "rack1", "rack2", "rack2", "rack3", "rack3",
    ]  # fmt: skip
    assert tags["rack"]["of"][6] == -1, "h7 is only of the mesh"
    assert tags["ecmp"]["values"] == ["leaf1", "leaf2", "leaf3"]
    assert [each["job"] for each in found["jobs"]] == ["bert-1"]
    assert found["jobs_of"] == [[0], [], [0], [], [], [], []]
    assert found["nics_total"] == [1, 1, 1, 1, 1, 1, 0]
    assert found["machines"] == [{"hosts": [0, 1], "probability": 0.97}]
    assert found["machines_unknown"] == [{"hosts": [3], "why": ""}]
    assert found["at_address"] == [2]
    assert board(store)["at_address"] is None


def test_another_class_is_another_board(store: Store) -> None:
    found = board(store, traffic_class=46)
    assert found["classes"] == [{"value": 0, "pairs": 22}, {"value": 46, "pairs": 1}]
    assert found["outbound"][found["hosts"].index("h8")] == 700.0
    assert found["inbound"][found["hosts"].index("h3")] is None


def test_nobody_elses_board(store: Store) -> None:
    found = board_answer(store, Asked(NOBODY, "default", END), "p99")
    BoardAnswer.model_validate(found)
    assert (found["hosts"], found["why"]) == ([], NO_DELAY)


def test_one_host_over_time_and_its_peers_the_slowest_first(store: Store) -> None:
    found = host_answer(store, Asked(WHO, "default", END), END - 3600 * S, "h1", None)
    HostAnswer.model_validate(found)
    assert [each["end_ns"] for each in found["inbound"]] == [END - 60 * S, END - 10 * S, END]
    newest = found["outbound"][-1]
    assert (newest["p50_ns"], newest["peers"], newest["bound_ns"]) == (900, 4, 200), "of those that are heard"
    assert newest["lost"] == pytest.approx(0.25)
    assert [each["host"] for each in found["peers"]] == ["h5", "h3", "h2", "h4", "h7"]
    assert found["peers"][0]["inbound"]["lost"] == 1.0
    nothing = host_answer(store, Asked(WHO, "default", END), END - S, "h6", None)
    assert (nothing["peers"], nothing["inbound"], bool(nothing["why"])) == ([], [], True)


def flows(store: Store, **more: Any) -> dict[str, Any]:
    found = flows_answer(store, Asked(WHO, "default", END), **more)
    FlowsDelayAnswer.model_validate(found)
    return found


def test_slow_queue_pairs_are_named_with_their_job(store: Store) -> None:
    found = flows(store)
    (slow,) = found["flows"]
    assert (slow["job"], slow["src_rank"], slow["dst_rank"]) == ("bert-1", 0, 1)
    assert (slow["src_host"], slow["dst_host"], slow["dst_qp"], slow["src_port"]) == ("h1", "h3", 17, 49_152)
    assert (slow["delay_p99_ns"], slow["bound_ns"], slow["flow"]) == (90_000, 300, f"{0xA1:032x}")
    assert (found["flows_total"], found["without_delay"], found["why"]) == (1, 2, "")


def test_without_delays_it_is_said_what_lacks(store: Store) -> None:
    assert flows(store, job="unfitted-1")["why"] == NO_FIT
    assert flows(store, job="old-1")["why"] == NO_MESSAGES


def test_doubts_of_clocks(store: Store) -> None:
    found = clock_answer(store, Asked(WHO, "default", END))
    ClockAnswer.model_validate(found)
    told = {each["host"]: " ".join(each["doubts"]) for each in found["clocks"]}
    assert told["h1"] == told["h2"] == ""
    assert "carried" in told["h3"]
    assert "2.4 µs" in told["h3"]
    assert "island 2: not comparable with clocks of island 1" in told["h4"]
    assert told["h5"].startswith("lost")
    assert "30 s before" in told["h6"]
    assert "200 ppm" in told["h6"].replace("-", "")
    assert [(each["island"], each["clocks"]) for each in found["island_sizes"]] == [(1, 4), (2, 1)]


def test_a_daemon_that_is_wrong_is_told(store: Store) -> None:
    found = {each["host"]: each for each in clock_answer(store, Asked(WHO, "default", END))["clocks"]}
    assert [found[host]["daemon_bound_ns"] for host in ("h1", "h2", "h3", "h6")] == [1_000, 500, None, 40_000]
    off = {**fit("h1", 3_000, 100), "daemon_bound_ns": 1_500}
    told = " ".join(doubts(off, 1, END, 500))
    assert told == "its clock daemon says that it is right within 1.5 µs; by the others it is 3 µs off"
    assert doubts({**off, "offset_ns": 2_100}, 1, END, 500) == [], "as far as all bounds together allow"
    assert doubts(off, 1, END, None) == []


def test_doubts_begin_where_they_say() -> None:
    sound = {**fit("h1", 1, WIDE_NS - 1), "daemon_bound_ns": None}
    assert doubts(sound, 1, END + STALE_NS - 1) == []
    assert len(doubts({**sound, "bound_ns": WIDE_NS}, 1, END + STALE_NS)) == 2
    assert doubts(sound, None, END) == []
