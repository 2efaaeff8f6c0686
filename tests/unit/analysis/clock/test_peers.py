"""Who probes whom."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.clock.peers import RINGS, Edge, mesh_of, peers_of


def hosts(count: int, pods: int = 1) -> dict[str, str]:
    return {f"h{number}": f"pod{number % pods}" for number in range(count)}


def degrees(edges: list[Edge]) -> Counter[str]:
    return Counter(host for edge in edges for host in edge[:2])


def reached(edges: list[Edge], first: str) -> set[str]:
    found, left = {first}, [first]
    while left:
        news = set(peers_of(left.pop(), edges)) - found
        found |= news
        left += news
    return found


@pytest.mark.parametrize(("count", "pods"), [(64, 1), (256, 8), (1000, 4)])
def test_every_host_has_ten_neighbours_and_reaches_all(count: int, pods: int) -> None:
    pod_of = hosts(count, pods)
    edges = mesh_of(pod_of)
    found = degrees(edges)
    assert set(found) == set(pod_of)
    assert max(found.values()) == 2 * RINGS
    assert sum(found.values()) / count > 2 * RINGS - 1.5, "two rings seldom have the same neighbours"
    assert reached(edges, "h0") == set(pod_of)
    if pods > 1:
        across = sum(pod_of[one] != pod_of[other] for one, other, _ in edges) / len(edges)
        assert 0.1 < across < 0.3


def test_a_few_hosts_all_probe_each_other_and_one_nobody() -> None:
    assert mesh_of({"a": ""}) == []
    assert mesh_of({}) == []
    assert [edge[:2] for edge in mesh_of({"a": "", "b": "", "c": ""})] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_an_edge_is_owned_by_one_of_its_ends_as_often_as_by_the_other() -> None:
    edges = mesh_of(hosts(256))
    assert all(edge.owner in edge[:2] for edge in edges)
    owned = Counter(edge.owner for edge in edges)
    assert max(owned.values()) <= 2 * RINGS
    assert 0.4 < sum(edge.owner == edge.one for edge in edges) / len(edges) < 0.6
    assert peers_of(edges[0].one, edges)[edges[0].other] == (edges[0].owner == edges[0].one)


@given(st.integers(3, 80), st.integers(1, 4), st.integers(0, 79))
def test_who_leaves_changes_no_more_edges_than_its_own_twice_over(count: int, pods: int, number: int) -> None:
    before = hosts(count, pods)
    gone = f"h{number % count}"
    after = {host: pod for host, pod in before.items() if host != gone}
    with_it, without = set(mesh_of(before)), set(mesh_of(after))
    assert len(with_it - without) <= 2 * RINGS, "those of who left"
    assert all(gone in edge[:2] for edge in with_it - without)
    assert len(without - with_it) <= RINGS, "one that closes each ring"


@given(st.integers(2, 60), st.integers(1, 4), st.lists(st.sampled_from([2, 4, 6, 10]), min_size=60, max_size=60))
def test_who_wants_few_neighbours_has_few_and_all_are_connected(count: int, pods: int, wanted: list[int]) -> None:
    pod_of = hosts(count, pods)
    neighbours_of = dict(zip(pod_of, wanted, strict=False))
    edges = mesh_of(pod_of, neighbours_of)
    assert all(len(peers_of(host, edges)) <= neighbours_of[host] for host in pod_of)
    reached, more = {"h0"}, ["h0"]
    while more:
        here = more.pop()
        new = {*(one for edge in edges if here in edge[:2] for one in edge[:2])} - reached
        reached |= new
        more += new
    assert reached == set(pod_of)
    assert mesh_of(pod_of, dict.fromkeys(pod_of, 10)) == mesh_of(pod_of)


@given(st.permutations(list(range(12))))
def test_the_order_in_which_hosts_are_named_does_not_matter(order: list[int]) -> None:
    assert mesh_of({f"h{number}": "" for number in order}) == mesh_of({f"h{number}": "" for number in range(12)})
