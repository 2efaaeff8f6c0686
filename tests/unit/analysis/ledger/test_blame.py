"""Whose it is what a communicator lost: a port that went down, the rank that ends last in long collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.small_job import COMM, JOB, MS, RANKS, collective, event, relations, table

from leadline.analysis.ledger.collectives.blame import last_rank, placed
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.analysis.spec import Window
from leadline.model.accounts import Category, Depth

WINDOW = Window(T0, T0 + 10 * S, job=JOB)
LOST = 3 * S  # of a span of four seconds
PATHS = table("flow_path", [])


def full_port() -> pa.Table:
    """Paths of a ring: what goes to rank 1 crosses a link that others fill."""
    rows = []
    for rank in range(RANKS):
        to = (rank + 1) % RANKS
        rows.append(
            {
                "job": JOB, "src_rank": f"rank:{JOB}/{rank}", "dst_rank": f"rank:{JOB}/{to}", "dst": f"port:h{to}/eth0",
                "bytes": 24e6, "busiest": f"link:h{to}/eth0~leaf1/Ethernet{to}",
                "busiest_bytes": 180e6 if to == 1 else 25e6, "end_ns": WINDOW.to_ns, "window_ns": 10 * S,
                "state": "known", "src_ip": "", "dst_ip": "", "protocol": 6, "src_port": 1, "dst_port": 1,
                "flow": rank + 1, "probability": 1.0, "alternatives": 1, "samples": 1, "contradicting": 0, "low": 0.0,
                "high": 0.0, "why": "",
            }
        )  # fmt: skip
    return table("flow_path", rows)


def collectives(late_ms: dict[int, int], ahead_ms: dict[int, int] | None = None) -> pa.Table:
    """Forty short collectives before the window, twenty long ones in it; some ranks end later in these, and some
    clocks run ahead in all."""
    rows = []
    for seq in range(60):
        is_long = seq >= 40
        begin = T0 + (seq - 40) * 500 * MS
        for rank in range(RANKS):
            ahead = (ahead_ms or {}).get(rank, 0) * MS
            end = begin + (400 if is_long else 100) * MS + late_ms.get(rank, 0) * MS * is_long
            rows.append(collective(rank, seq, begin + ahead, end + ahead))
    return table("collective", rows)


def told(owner: str = f"comm:{COMM}") -> Segments:
    """One span of communication, of which three seconds are lost."""
    ints = [np.array([each], np.int64) for each in (T0 + S, T0 + 5 * S, PLACE_OF[Category.COMMUNICATION], 0)]
    return Segments(Depth.COLLECTIVES, *ints, np.array([float(LOST)]), np.array([0.9]), (owner,))


def owners(found: Segments) -> list[tuple[str, int, float]]:
    """Owner, length and lost time of each span."""
    return [
        (found.owners[owner], int(end - begin), float(lost))
        for owner, begin, end, lost in zip(found.owner_N, found.begin_N, found.end_N, found.lost_N, strict=True)
    ]


def link_down(port: str, at_ns: int) -> dict[str, Any]:
    """The link of a port goes down."""
    return {**event(at_ns, 0, "link-down", "error"), "entity_kind": "port", "entity": port}


def test_who_ends_later_in_long_collectives_than_in_short_ones_is_named() -> None:
    assert last_rank(collectives({2: 60}), COMM, WINDOW) == 2


def test_a_clock_that_runs_ahead_is_nobodys_lateness() -> None:
    assert last_rank(collectives({2: 60}, ahead_ms={0: 3000}), COMM, WINDOW) == 2
    assert last_rank(collectives({}, ahead_ms={0: 3000}), COMM, WINDOW) is None


@pytest.mark.parametrize("late", [{}, {0: 3}, {0: 50, 1: 50, 2: 50, 3: 50}])
def test_if_all_end_alike_nobody_is_named(late: dict[int, int]) -> None:
    assert last_rank(collectives(late), COMM, WINDOW) is None


def test_only_what_was_lost_changes_its_owner() -> None:
    none = table("event", [])
    found = placed(told(), collectives({1: 80}), none, table("relation", relations(T0 - S)), PATHS, WINDOW)
    assert owners(found) == [(f"comm:{COMM}", S, 0.0), (f"rank:{JOB}/1", LOST, float(LOST))]


@pytest.mark.parametrize(
    ("late_rank", "late_s", "category"),
    [
        (1, 3.5, Category.STRAGGLER),  # its own work is slow, too: it reduces as slowly as it computes
        (1, 2.0, Category.COMMUNICATION),
        (2, 3.5, Category.COMMUNICATION),  # another rank's lateness says nothing of it
    ],
)
def test_a_rank_that_is_as_late_by_its_own_work_is_late_in_collectives_too(
    late_rank: int, late_s: float, category: Category
) -> None:
    one, late_ns = told(), round(late_s * S)
    both = Segments(
        Depth.COLLECTIVES,
        np.append(one.begin_N, T0 + 5 * S),
        np.append(one.end_N, T0 + 5 * S + late_ns),
        np.append(one.category_N, PLACE_OF[Category.STRAGGLER]),
        np.array([0, 1]),
        np.append(one.lost_N, float(late_ns)),
        np.full(2, 0.9),
        (*one.owners, f"rank:{JOB}/{late_rank}"),
    )
    none = table("event", [])
    found = placed(both, collectives({1: 80}), none, table("relation", relations(T0 - S)), PATHS, WINDOW)
    (place,) = np.flatnonzero(found.begin_N == T0 + 2 * S)
    assert found.owners[found.owner_N[place]] == f"rank:{JOB}/1"
    assert found.category_N[place] == PLACE_OF[category]


def test_a_link_of_one_of_its_hosts_that_went_down_is_to_blame_before_any_rank() -> None:
    relation = table("relation", relations(T0 - S))
    for port, expected in (("port:h2/eth0", "port:h2/eth0"), ("port:h77/eth0", f"rank:{JOB}/1")):
        down = table("event", [link_down(port, T0 + 2 * S)])
        assert owners(placed(told(), collectives({1: 80}), down, relation, PATHS, WINDOW))[1][0] == expected


def test_the_edge_over_a_full_link_is_to_blame_before_who_ends_last() -> None:
    none, relation = table("event", []), table("relation", relations(T0 - S))
    found = placed(told(), collectives({2: 80}), none, relation, full_port(), WINDOW)
    assert owners(found)[1] == (f"rank:{JOB}/0>rank:{JOB}/1", LOST, float(LOST))
    down = table("event", [link_down("port:h2/eth0", T0 + 2 * S)])
    assert owners(placed(told(), collectives({}), down, relation, full_port(), WINDOW))[1][0] == "port:h2/eth0"


def test_two_links_at_once_are_not_told_apart() -> None:
    down = table("event", [link_down(f"port:h{host}/eth0", T0 + 2 * S) for host in (1, 2)])
    found = placed(told(), collectives({}), down, table("relation", relations(T0 - S)), PATHS, WINDOW)
    assert owners(found) == [(f"comm:{COMM}", 4 * S, float(LOST))]


def test_what_has_an_edge_keeps_it() -> None:
    edge = f"rank:{JOB}/0>rank:{JOB}/1"
    found = placed(told(edge), collectives({1: 80}), table("event", []), table("relation", []), PATHS, WINDOW)
    assert owners(found) == [(edge, 4 * S, float(LOST))]
