"""Scores of the ledger, on rows whose score is known."""

from __future__ import annotations

from typing import Any

import pytest
from evals.ledger_scores import Healthy, Trouble, is_right, places_of, scored, troubles_of

S = 10**9
PLACES = places_of(
    {"child": child, "kind": kind, "parent": parent}
    for child, kind, parent in (
        ("rank:j/0", "runs-on", "host:h1"), ("rank:j/1", "runs-on", "host:h2"), ("rank:j/1", "runs-on", "gpu:g1"),
        ("port:h2/eth0", "in", "host:h2"), ("rank:j/0", "in", "job:j"),
    )
)  # fmt: skip


def trouble(*components: str, lost: float = 40.0) -> Trouble:
    return Trouble("fault", frozenset(components), frozenset(["host"]), 12 * S, 28 * S, lost)


def row(end_s: int, category: str, owner: str | None, lost: float) -> dict[str, Any]:
    return {
        "end_ns": end_s * S, "window_ns": 10 * S, "category": category, "owner": owner, "lost_gpu_seconds": lost,
        "gpu_seconds": 40.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("category", "owner", "component", "expected"),
    [
        ("straggler", "rank:j/1", "rank:j/1", True),
        ("straggler", "rank:j/1", "host:h2", True),
        ("straggler", "rank:j/1", "gpu:g1", True),
        ("straggler", "rank:j/0", "host:h2", False),
        ("straggler", "rank:j/1", "port:h2/eth0", False),  # its network is to blame, not the rank
        ("communication", "rank:j/1", "port:h2/eth0", True),
        ("communication", "rank:j/0>rank:j/1", "port:h2/eth0", True),
        ("communication", "rank:j/0>rank:j/2", "port:h2/eth0", False),
        ("communication", "port:h2/eth0", "port:h2/eth0", True),
        ("communication", "comm:j/0x9c", "port:h2/eth0", False),
        ("compute", "job:j", "host:h2", False),
    ],
)
def test_an_owner_is_right_if_it_is_on_what_was_broken(
    category: str, owner: str, component: str, expected: bool
) -> None:
    assert is_right(category, owner, trouble(component), PLACES) is expected


def test_blame_beyond_what_was_lost_earns_nothing_and_unknown_is_not_owned() -> None:
    healthy = Healthy()
    rows = [
        row(20, "straggler", "rank:j/1", 35.0), row(30, "straggler", "rank:j/0", 15.0),
        row(30, "unknown", "clocks", 9.0),
        row(10, "straggler", "rank:j/1", 1.0), row(40, "compute", None, 5.0), row(50, "compute", None, 2.0),
    ]  # fmt: skip
    (found,) = scored("run", rows, [trouble("host:h2")], PLACES, healthy)
    assert (found.owned, found.covered, found.right, found.unknown) == (50.0, 40.0, 35.0, 9.0)
    assert (healthy.lost, healthy.gpu_seconds) == (3.0, 80.0)  # the window after the fault is nobody's


def test_faults_that_overlap_are_one_and_decoys_are_none() -> None:
    fault = {"fault": "a", "component": ["host:h1"], "layer": "host", "decoy": False, "lost_gpu_seconds": 5.0}
    truth = {
        "faults": [
            {**fault, "onset_ns": 10 * S, "end_ns": 30 * S},
            {**fault, "fault": "b", "component": ["port:h2/eth0"], "onset_ns": 20 * S, "end_ns": None},
            {**fault, "decoy": True, "onset_ns": 0, "end_ns": 5 * S},
        ]
    }
    (found,) = troubles_of(truth, [], 4, 60 * S)
    assert (found.name, found.onset_ns, found.end_ns, found.lost) == ("a + b", 10 * S, 60 * S, 10.0)


def test_a_run_without_steps_is_measured_by_what_stands_for_them() -> None:
    fault = {
        "fault": "a",
        "component": [],
        "layer": "network",
        "lost_gpu_seconds": None,
        "onset_ns": 10 * S,
        "end_ns": 20 * S,
    }
    works = [(at * S, (at + 1) * S) for at in range(10)] + [(10 * S, 13 * S), (13 * S, 16 * S)]
    (found,) = troubles_of({"faults": [fault]}, works, 4, 60 * S)
    assert found.lost == 16.0  # two works of 3 s instead of 1, on four ranks
