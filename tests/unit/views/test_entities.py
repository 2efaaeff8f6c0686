"""What completes a name: entities of one's own relations, in order, with how many fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.unit.views.paths.path_rows import END, fabric, filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.entities import clusters_answer, entities_answer

ASKED = Asked(Principal(), "default", END)
BETA = replace(ASKED, principal=Principal("beta", "default", Role.TENANT_READ))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    relations = list(fabric())
    away = [{**row, "cluster": "away"} for row in relations[:2]]
    with filled(tmp_path_factory.mktemp("entities"), {"relation": [*relations, *away]}) as store:
        yield store


def test_children_and_parents_once_each_in_order(store: Store) -> None:
    found = entities_answer(store, ASKED, "", 5000)
    assert found.entities == sorted(set(found.entities))
    assert found.total == len(found.entities)
    assert {"job:bert-1", "rank:resnet-2/1", "host:h4", "port:h1/eth0", "switch:spine2"} <= set(found.entities)


def test_a_part_of_the_id_in_any_case(store: Store) -> None:
    assert entities_answer(store, ASKED, "HOST:H", 5000).entities == ["host:h1", "host:h2", "host:h3", "host:h4"]
    assert entities_answer(store, ASKED, "no such thing", 5000).entities == []
    assert entities_answer(store, ASKED, "%", 5000).total == 0  # a character like others


def test_a_limit_cuts_and_the_total_tells_it(store: Store) -> None:
    found = entities_answer(store, ASKED, "host:h", 2)
    assert (found.entities, found.total) == (["host:h1", "host:h2"], 4)


def test_a_tenant_gets_no_name_of_another(store: Store) -> None:
    found = entities_answer(store, BETA, "", 5000).entities
    assert "job:resnet-2" in found
    assert not [name for name in found if "bert" in name or "spine" in name]


def test_another_cluster_has_other_names(store: Store) -> None:
    assert entities_answer(store, replace(ASKED, cluster="elsewhere"), "", 5000).entities == []


def test_clusters_are_those_that_one_may_see(store: Store) -> None:
    assert clusters_answer(store, replace(ASKED, cluster="")).clusters == ["away", "default"]
    assert clusters_answer(store, replace(BETA, cluster="")).clusters == ["default"]
