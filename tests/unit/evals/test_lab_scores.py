"""Scores of incidents, on rows whose score is known."""

from __future__ import annotations

from typing import Any

import pytest
from evals.runs.scores import Score, Verdicts, brier, is_component, reliability, scored
from evals.runs.truth import Fault, Trouble, Truth

S = 10**9


def fault(
    name: str, *components: str, layer: str = "host", from_s: int = 10, to_s: int = 30, share: float = 0.5
) -> Fault:
    return Fault(name, frozenset(components), layer, "gray", from_s * S, to_s * S, "medium", 40.0, share)


SLOW = fault("slow-worker", "host:h2", "rank:j/1")
LINK = fault("slow-link", "link:h3/eth0~leaf1/Ethernet3", layer="network")


def truth(*faults: Fault, decoys: tuple[Fault, ...] = (), stalled: bool = False) -> Truth:
    trouble = Trouble(faults, min(each.onset_ns for each in faults) + S, stalled)
    return Truth((trouble,), decoys, 0, 60 * S)


def incident(name: str = "i", from_s: float = 12, to_s: float | None = 32, lost: float = 40.0) -> dict[str, Any]:
    return {
        "incident": name, "start_ns": round(from_s * S), "end_ns": None if to_s is None else round(to_s * S),
        "reported_ns": round((from_s + 4) * S), "lost_gpu_seconds": lost, "missing": None, "entity": "job:j",
    }  # fmt: skip


def cause(entity: str, position: int = 1, chosen: bool = True, probability: float = 0.9, **more: Any) -> dict[str, Any]:
    return {
        "incident": "i", "position": position, "entity": entity, "rule": "slow-host", "layer": "host", "class": "gray",
        "chosen": chosen, "probability": probability, "seen_ns": 30 * S, **more,
    }  # fmt: skip


def told(at_s: float, first: str | None, name: str = "i") -> dict[str, Any]:
    return {"incident": name, "reported_ns": round(at_s * S), "first": first}


def one(truth: Truth, causes: list[dict[str, Any]], **more: Any) -> Score:
    given = {"incidents": [incident()], "symptoms": [], "told": [], **more}
    (score,), _ = scored("run", truth, Verdicts(causes=causes, **given))
    return score


@pytest.mark.parametrize(
    ("entity", "component", "expected"),
    [
        ("host:h2", "host:h2", True),
        ("host:h2", "rank:j/1", False),  # only where the truth lists it
        ("port:h3/eth0", "link:h3/eth0~leaf1/Ethernet3", True),
        ("swport:leaf1/Ethernet3", "link:h3/eth0~leaf1/Ethernet3", True),
        ("link:h3/eth0~leaf1/Ethernet3", "port:h3/eth0", True),
        ("xcvr:leaf1/Ethernet3", "swport:leaf1/Ethernet3", True),
        ("swport:leaf1/Ethernet3", "port:h3/eth0", False),  # the other end, where only one is said to be broken
        ("port:h3/eth1", "link:h3/eth0~leaf1/Ethernet3", False),
        ("link:leaf1/Ethernet3~spine1/Ethernet1", "link:h3/eth0~leaf1/Ethernet3", False),
        ("swport:leaf1/Ethernet3", "switch:leaf1", False),
        ("host:h3", "port:h3/eth0", False),
    ],
)
def test_a_plug_is_its_link_and_nothing_else_stands_for_another(entity: str, component: str, expected: bool) -> None:
    assert is_component(entity, [component]) is expected


def test_right_is_what_is_named_first_and_alone() -> None:
    score = one(truth(SLOW), [cause("host:h2"), cause("port:h3/eth0", 2, chosen=False, probability=0.1)])
    assert (score.outcome, score.top1, score.top3, score.exact, score.wrong) == ("right", True, True, True, False)


def test_a_second_that_is_not_broken_is_wrong_though_the_first_is_right() -> None:
    score = one(truth(SLOW), [cause("host:h2"), cause("host:h3", 2)])
    assert (score.outcome, score.top1, score.exact, score.wrong) == ("right and more", True, False, True)


def test_wrong_with_the_right_one_among_the_first_three() -> None:
    score = one(truth(SLOW), [cause("host:h3"), cause("host:h4", 2, False), cause("host:h2", 3, False)])
    assert (score.outcome, score.top1, score.top3) == ("wrong", False, True)
    assert not one(
        truth(SLOW), [*[cause(f"host:h{at}", at - 2, at == 3) for at in (3, 4, 5)], cause("host:h2", 4, False)]
    ).top3


def test_nothing_chosen_is_unknown_and_no_incident_is_missed() -> None:
    assert one(truth(SLOW), [cause("host:h2", chosen=False)]).outcome == "unknown"
    assert one(truth(SLOW), [], incidents=[]).outcome == "missed"


def test_positions_that_the_newest_window_does_not_tell_are_gone() -> None:
    assert one(truth(SLOW), [cause("host:h2"), cause("host:h9", 2, seen_ns=20 * S)]).outcome == "right"


def test_two_at_once_are_a_set() -> None:
    both = truth(SLOW, LINK)
    assert one(both, [cause("host:h2"), cause("port:h3/eth0", 2)]).outcome == "right"
    assert one(both, [cause("host:h2")]).outcome == "part"
    assert one(both, [cause("host:h2"), cause("host:h9", 2)]).outcome == "wrong"


def test_two_incidents_of_two_faults_count_together() -> None:
    rows = [incident("i", lost=10.0), incident("k", lost=30.0)]
    score = one(truth(SLOW, LINK), [cause("host:h2"), cause("port:h3/eth0", incident="k")], incidents=rows)
    assert (score.outcome, score.named[0].entity) == ("right", "port:h3/eth0")


def test_a_cheap_fault_beside_a_dear_one_may_be_named_and_need_not() -> None:
    cheap = fault("slow-link", *LINK.components, share=0.01)
    assert one(truth(SLOW, cheap), [cause("host:h2")]).outcome == "right"
    assert one(truth(SLOW, cheap), [cause("host:h2"), cause("port:h3/eth0", 2)]).outcome == "right"


@pytest.mark.parametrize(
    ("begin_s", "end_s", "false"), [(1, 5, True), (44, 50, False), (46, None, True), (8, 9, False)]
)
def test_an_incident_that_meets_no_fault_is_false(begin_s: float, end_s: float | None, false: bool) -> None:
    rows = [incident(from_s=begin_s, to_s=end_s)]
    (_,), found = scored("run", truth(SLOW), Verdicts(rows, [], [], []))
    assert bool(found) is false


def test_what_settles_while_the_next_fault_begins_is_of_the_first() -> None:
    troubles = tuple(
        Trouble((each,), each.onset_ns, False) for each in (SLOW, fault("slow-link", "port:h3/eth0", from_s=40))
    )
    rows = [incident("i", 12, 45), incident("k", 41, None)]
    causes = [cause("host:h2"), cause("port:h3/eth0", incident="k")]
    first, second = scored("run", Truth(troubles, (), 0, 60 * S), Verdicts(rows, causes, [], []))[0]
    assert (first.outcome, second.outcome) == ("right", "right")
    assert (first.incidents, second.incidents) == (1, 1)


def test_the_verdict_is_told_when_it_stays() -> None:
    windows = [told(15, None), told(17, "host:h2"), told(19, "host:h3"), told(21, "host:h2"), told(23, "host:h2")]
    score = one(truth(SLOW), [cause("host:h2")], told=windows)
    assert (score.told_s, score.verdict_s) == (4.0, 10.0)  # from the first lost second, 11


def test_layer_and_class_are_of_the_first_cause() -> None:
    named = one(truth(LINK), [cause("port:h3/eth0", layer="nic", **{"class": "persistent"})])
    assert (named.layer_right, named.class_right) == (True, False)
    unknown = one(truth(LINK), [cause("port:h3/eth0", layer="host", **{"class": "unknown"})])
    assert (unknown.layer_right, unknown.class_right) == (False, None)
    assert one(truth(LINK), []).layer_right is None


@pytest.mark.parametrize(
    ("owner", "expected"), [("rank:j/1", True), ("rank:j/0", False), ("rank:j/7", True), ("job:j", False)]
)
def test_a_stall_blames_a_worker(owner: str, expected: bool) -> None:
    stall = {
        "symptom": "stall", "start_ns": 12 * S, "end_ns": None, "reported_ns": 15 * S, "blamed": [{"owner": owner}],
    }  # fmt: skip
    stopped = fault("sigstop", "rank:j/1")
    dead = fault("dead-nic", "port:h7/eth0", layer="network")
    places = {"rank:j/7": {"host:h7"}, "port:h7/eth0": {"host:h7"}}
    score = one(truth(stopped, dead, stalled=True), [], symptoms=[stall], places=places)
    assert (score.worker, score.symptom_s, score.stall) == (expected, 4.0, "frozen")


def test_probabilities_are_held_against_outcomes() -> None:
    said = [(0.95, True), (0.95, True), (0.7, False), (1.0, True)]
    assert brier(said) == pytest.approx((0.05**2 * 2 + 0.7**2) / 4)
    assert brier([]) is None
    assert [(each.low, each.count, each.was) for each in reliability(said)] == [(0.6, 1, 0.0), (0.9, 3, 1.0)]
