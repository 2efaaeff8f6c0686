"""What may be meant by a name that is not there."""

from __future__ import annotations

import pytest
from tests.builders.fabrics import T0, Claim, relation_table

from leadline.analysis.graph.graph import graph
from leadline.analysis.graph.near import COMPARED_MAX, near

WHOLE = graph(
    relation_table(
        [
            Claim("swport:leaf1/Ethernet1", "in", "switch:leaf1", "inventory", T0),
            Claim("swport:leaf2/Ethernet1", "in", "switch:leaf2", "inventory", T0),
            Claim("rank:bert-large-7/0", "in", "job:bert-large-7", "torch-hook", T0, tenant="acme"),
            Claim("gpu:GPU-5C1E", "in", "host:h3", "agent/graph", T0),
        ]
    )
)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("switch:leaf11", ("switch:leaf1", "switch:leaf2")),
        ("job:bert-large-8", ("job:bert-large-7",)),
        ("leaf1", ("switch:leaf1", "switch:leaf2")),
        ("host:leaf2", ("switch:leaf2",)),
        ("h3", ("host:h3",)),
        ("job:zzz", ()),
        ("nonsense:leaf1", ("switch:leaf1", "switch:leaf2")),
        ("", ()),
    ],
)
def test_near_names_are_told_the_nearest_first(asked: str, meant: tuple[str, ...]) -> None:
    assert near(WHOLE, asked) == meant


def test_a_tenant_hears_no_name_of_others() -> None:
    assert near(WHOLE, "job:bert-large-8", ["beta"]) == ()
    assert near(WHOLE, "job:bert-large-8", ["acme"]) == ("job:bert-large-7",)


def test_names_that_came_later_are_near_too() -> None:
    later = WHOLE.updated(relation_table([Claim("rank:moe-2/0", "in", "job:moe-2", "torch-hook", T0)]))
    assert near(later, "job:moe-3") == ("job:moe-2",)


def test_of_many_names_those_that_begin_alike_are_compared() -> None:
    many = [Claim(f"port:h{number}/eth0", "in", f"host:h{number}", "agent/graph", T0) for number in range(COMPARED_MAX)]
    whole = graph(relation_table([*many, Claim("port:n12/eth0", "in", "host:node-12", "agent/graph", T0)]))
    assert near(whole, "host:node-13") == ("host:node-12",)


def test_a_gpu_is_found_in_any_case() -> None:
    assert WHOLE.number("gpu:gpu-5c1e") == WHOLE.number("gpu:GPU-5C1E") >= 0
    assert WHOLE.number("gpu:gpu-5c1f") == -1
