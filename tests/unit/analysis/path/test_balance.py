"""Balance of equal-cost links: the direction counts, efficiency is mean over maximum, who collides is told."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.columns import Ints
from leadline.analysis.path.balance import Balance, EcmpSets, balance
from leadline.analysis.path.volume import Volumes


def sent(*rows: tuple[int, int, int, float]) -> Volumes:
    """(flow, link, from, bytes)."""
    flow, link, sender = (np.array([row[at] for row in rows], np.int64) for at in range(3))
    count = np.array([row[3] for row in rows], np.float64)
    none = np.zeros(0)
    return Volumes(flow, link, sender, count, count, count, none, none, none)


def judged(*rows: tuple[int, int, int, float], links: tuple[int, ...] = (0, 1), jobs: str = "000000000") -> Balance:
    """The balance of switch 7 over these links."""
    (found,) = balance(sent(*rows), EcmpSets(np.array([7]), [links]), np.array([int(job) for job in jobs]))
    return found


def test_efficiency_is_mean_over_maximum() -> None:
    found = judged((0, 0, 7, 30.0), (1, 1, 7, 10.0), (2, 1, 7, 5.0))
    assert found.efficiency == pytest.approx(22.5 / 30)
    assert (found.flows, found.bytes, found.busiest, found.busiest_bytes) == (3, 45.0, 0, 30.0)
    assert found.link_bytes == (30.0, 15.0)


def test_what_comes_back_on_a_link_does_not_count() -> None:
    found = judged((0, 0, 7, 30.0), (1, 1, 8, 100.0), (2, 0, -1, 100.0))
    assert (found.bytes, found.flows, found.busiest) == (30.0, 1, 0)


def test_two_flows_on_one_link_beside_an_empty_one_collide() -> None:
    found = judged((4, 1, 7, 30.0), (5, 1, 7, 40.0), (6, 1, 7, 2.0), links=(1, 2), jobs="000021500")
    assert found.busiest == 1
    assert found.colliding == (5, 4)
    assert found.jobs == (1, 2)


def test_one_large_flow_does_not_collide() -> None:
    assert judged((4, 1, 7, 90.0), (5, 1, 7, 10.0)).colliding == ()


def test_flows_do_not_collide_where_all_links_are_used() -> None:
    assert judged((0, 0, 7, 30.0), (1, 0, 7, 30.0), (2, 1, 7, 30.0)).colliding == ()


def test_nobodys_flow_names_no_job() -> None:
    found = balance(sent((0, 0, 7, 3.0), (1, 0, 7, 3.0)), EcmpSets(np.array([7]), [(0, 1)]), np.array([-1, 2]))
    assert (found[0].colliding, found[0].jobs) == ((0, 1), (2,))


def test_at_most_eight_flows_are_named() -> None:
    rows = [(flow, 0, 7, 10.0 + flow) for flow in range(20)]
    found = balance(sent(*rows), EcmpSets(np.array([7]), [(0, 1)]), np.zeros(20, np.int64))
    assert found[0].colliding == (19, 18, 17, 16, 15, 14, 13, 12)


def test_an_idle_set_has_no_row_and_a_set_told_twice_has_one() -> None:
    sets = EcmpSets(np.array([9, 7, 7, 3]), [(0, 1), (1, 0), (0, 1), ()])
    found = balance(sent((0, 0, 7, 30.0)), sets, np.zeros(1, np.int64))
    assert [(each.switch, each.links) for each in found] == [(7, (0, 1))]
    assert balance(sent(), sets, np.zeros(0, np.int64)) == []


def test_a_flow_that_may_be_on_either_link_is_one_flow() -> None:
    assert judged((3, 0, 7, 5.0), (3, 1, 7, 5.0)).flows == 1


# Uniform hashing: (flows, paths, queue pairs of a flow) -> mean over maximum.
@pytest.mark.parametrize(
    ("flows", "paths", "pairs", "wanted"),
    [(8, 8, 1, 0.41), (16, 8, 1, 0.49), (8, 4, 1, 0.60), (8, 8, 4, 0.59), (16, 8, 4, 0.66), (8, 4, 4, 0.74)],
)
def test_uniform_hashing_is_as_uneven_as_it_is_known_to_be(flows: int, paths: int, pairs: int, wanted: float) -> None:
    rng = np.random.default_rng(5)
    found = [efficiency(rng.integers(0, paths, flows * pairs), paths) for _ in range(1500)]
    assert np.mean(found) == pytest.approx(wanted, abs=0.015)


def efficiency(link_N: Ints, paths: int) -> float:
    """Of flows of one size on these links."""
    rows = [(flow, int(link), 7, 1.0) for flow, link in enumerate(link_N)]
    sets = EcmpSets(np.array([7]), [tuple(range(paths))])
    return balance(sent(*rows), sets, np.zeros(len(link_N), np.int64))[0].efficiency
