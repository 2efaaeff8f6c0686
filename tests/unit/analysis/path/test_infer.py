"""The posterior over shortest paths, held against one that lists every path."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.builders.fabrics import Clos, relation_table

from leadline.analysis.path.infer import ERROR, SILENT, Ends, Evidence, Fabric, Posterior, ends, fabric, posterior
from leadline.analysis.path.infer_kernels import ALTERNATIVES_MAX, UNREACHABLE
from leadline.analysis.path.topology import Topology, claimed_links, structure, topology

CLOS = Clos(leaves=3, spines=4, hosts_per_leaf=2)
Group = tuple[str, str | None, str | None, int]  # switch, in port, out port, samples


def told(clos: Clos = CLOS) -> Topology:
    rows = structure(relation_table([*clos.inventory(), *clos.agents()]))
    return topology(rows, claimed_links(rows))


def scene(groups: Sequence[Group], silent: Sequence[str] = (), clos: Clos = CLOS) -> tuple[Fabric, Ends, Evidence]:
    """A flow from host 1 to the last host, with these groups; every switch samples 1 in 100 but the silent ones."""
    graph = told(clos)
    nics = [graph.port_places[clos.nic(host)] for host in (1, clos.hosts[-1])]
    at = ends(graph, np.array([0]), np.array([1]), ["a", "b"], {"a": (nics[0],), "b": (nics[1],)})
    rows = sorted((graph.node_places[f"switch:{each[0]}"], *_directions(graph, each), each[3]) for each in groups)
    # Copied, so that each lies in one piece as it does in the analysis: kernels are compiled anew for what does not.
    node, enters, leaves, count = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    tells = [name.startswith("switch:") and name.removeprefix("switch:") not in silent for name in graph.nodes]
    evidence = Evidence(
        np.array([0, len(rows)]), np.zeros(len(rows), np.int64), node, enters, leaves, count, np.where(tells, 0.01, 0.0)
    )
    return fabric(graph, at.targets), at, evidence


def _directions(graph: Topology, group: Group) -> tuple[int, int]:
    places = [graph.port_places[f"swport:{group[0]}/{port}"] if port else -1 for port in group[1:3]]
    enters = int(graph.into_P[places[0]]) if places[0] >= 0 else -1
    leaves = int(graph.out_P[places[1]]) if places[1] >= 0 else -1
    return enters, leaves


def listed(groups: Sequence[Group], silent: Sequence[str] = (), clos: Clos = CLOS) -> dict[int, float]:
    """The same by listing: probability of each spine."""
    total, seen = sum(each[3] for each in groups), {each[0] for each in groups}
    score = {}
    for spine in range(1, clos.spines + 1):
        log = 0.0
        hops = {hop.switch: hop for hop in clos.hops(1, clos.hosts[-1], spine)}
        for switch, enters, leaves, count in groups:
            hop = hops.get(switch)
            fits = hop is not None and enters in (None, hop.in_port) and leaves in (None, hop.out_port)
            log += 0.0 if fits else count * math.log(ERROR)
        for _switch in hops.keys() - seen - set(silent):
            log += max(math.log(SILENT), -total * math.log1p(1 / len(seen)))
        score[spine] = log
    whole = sum(math.exp(each - max(score.values())) for each in score.values())
    return {spine: math.exp(each - max(score.values())) / whole for spine, each in score.items()}


def judged(groups: Sequence[Group], silent: Sequence[str] = (), clos: Clos = CLOS) -> Posterior:
    return posterior(*scene(groups, silent, clos), np.array([0]))


LEAF_IN = ("leaf1", "Ethernet1", None)
CASES: tuple[tuple[tuple[Group, ...], tuple[str, ...]], ...] = (
    (((*LEAF_IN, 3),), ()),
    (((*LEAF_IN, 3),), ("spine1", "spine2", "spine3", "spine4")),
    (((*LEAF_IN, 5),), ("spine2",)),
    (((*LEAF_IN, 5), ("leaf3", None, "Ethernet2", 4)), ("spine1", "spine3")),
    (((*LEAF_IN, 1), ("spine3", None, None, 1)), ()),
    ((("leaf1", "Ethernet1", "Ethernet4", 2),), ()),
    ((("leaf1", None, "Ethernet4", 2), ("spine3", "Ethernet1", "Ethernet3", 1)), ()),
)


@pytest.mark.parametrize(("groups", "silent"), CASES)
def test_it_is_the_posterior_of_listing_every_path(groups: tuple[Group, ...], silent: tuple[str, ...]) -> None:
    expected = listed(groups, silent)
    found = judged(groups, silent)
    assert found.probability_X[0] == pytest.approx(max(expected.values()), rel=1e-6)
    assert found.alike_X[0] == sum(each >= 0.99 * max(expected.values()) for each in expected.values())
    assert found.routes_X[0] == 4
    if found.probability_X[0] < 0.975:
        names = told().links
        marginal = {
            names[d % len(names)]: p
            for d, p in zip(found.direction_M.tolist(), found.probability_M.tolist(), strict=True)
        }
        for spine, p in expected.items():
            if p >= 0.01:
                assert marginal[CLOS.links(1, 6, spine)[1]] == pytest.approx(p, rel=1e-6)


def test_alternatives_are_the_paths_that_are_as_likely_and_at_most_eight() -> None:
    wide = Clos(leaves=2, spines=12, hosts_per_leaf=1)
    found = judged([("leaf1", "Ethernet1", None, 3)], [f"spine{each}" for each in range(1, 13)], wide)
    assert found.alike_X[0] == 12
    assert len(found.flow_A) == ALTERNATIVES_MAX
    assert len({tuple(path) for path in found.path_AH.tolist()}) == ALTERNATIVES_MAX
    assert found.probability_A == pytest.approx([1 / 12] * ALTERNATIVES_MAX)


def test_next_hops_are_those_that_lead_nearer() -> None:
    plan, at, _ = scene([("leaf1", "Ethernet1", None, 1)])
    leaf = plan.topology.node_places["switch:leaf1"]
    assert len(plan.next_hops(leaf, int(at.target_F[0]))) == 4


def test_ends_that_nothing_joins_are_told_apart_from_unlikely_ones() -> None:
    lone = [each for each in CLOS.inventory() if "spine" not in each.child]
    rows = structure(relation_table([*lone, *CLOS.agents()]))
    graph = topology(rows, [each for each in claimed_links(rows) if "spine" not in each.name])
    nics = [graph.port_places[CLOS.nic(host)] for host in (1, 6)]
    at = ends(graph, np.array([0]), np.array([1]), ["a", "b"], {"a": (nics[0],), "b": (nics[1],)})
    none = np.zeros(0, np.int64)
    evidence = Evidence(np.array([0, 0]), none, none, none, none, none, np.zeros(len(graph.nodes)))
    assert posterior(fabric(graph, at.targets), at, evidence, np.array([0])).status_X[0] == UNREACHABLE
