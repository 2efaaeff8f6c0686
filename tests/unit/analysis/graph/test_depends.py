"""The table of relations."""

from __future__ import annotations

import pytest

from leadline.analysis.graph.contradictions import CHECKS
from leadline.analysis.graph.depends import KINDS, RULES, Way, layer_of
from leadline.model.ids import ENTITY_KINDS


def test_every_rule_is_given_once_and_speaks_of_kinds_that_exist() -> None:
    named = [(rule.child, rule.relation, rule.parent) for rule in RULES]
    assert len(set(named)) == len(named)
    assert {kind for child, _, parent in named for kind in (child, parent)} <= set(ENTITY_KINDS)
    assert all(rule.way is not Way.UNKNOWN for rule in RULES)


def test_every_kind_of_contradiction_says_what_to_look_at() -> None:
    assert {rule.only for rule in RULES if rule.only} == CHECKS.keys()


@pytest.mark.parametrize(("kind", "tier", "layer"), [("job", 1, 0), ("gpu", 1, 2), ("storage", 1, 4), ("switch", 1, 5),
                                                     ("switch", 3, 7), ("pump", 1, 8)])  # fmt: skip
def test_layers(kind: str, tier: int, layer: int) -> None:
    assert layer_of(kind, tier) == layer


def test_every_kind_that_we_know_has_a_layer_of_its_own() -> None:
    assert [kind for kind in KINDS[:-1] if layer_of(kind) == layer_of("pump")] == []
