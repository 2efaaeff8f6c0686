"""The paths between two ranks, from hand-made verdicts in a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.views.paths.path_rows import END, HEX, THERE, filled, over

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.paths.path import path_answer, rank_name, symmetry

OPERATOR = Principal()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("path")) as store:
        yield store


def asked(principal: Principal = OPERATOR, at_ns: int = END) -> Asked:
    return Asked(principal, "", at_ns)


def test_both_directions_come_with_hops_and_volumes(store: Store) -> None:
    found = path_answer(store, asked(), "rank:bert-1/0", "bert-1/1")
    assert (found["a"], found["b"]) == ("rank:bert-1/0", "rank:bert-1/1")
    assert [flow["src_rank"] for flow in found["flows"]] == ["rank:bert-1/0", "rank:bert-1/1"]
    there = found["flows"][0]
    assert there["flow"] == HEX[THERE]
    (path,) = there["paths"]
    assert [hop["link"] for hop in path["hops"]] == over(1, 1, 3)
    assert [hop["bytes"] for hop in path["hops"]] == [2e9] * 4
    assert path["probability"] == 0.99


def test_another_way_back_is_asymmetric(store: Store) -> None:
    found = path_answer(store, asked(), "bert-1/0", "bert-1/1")
    assert found["asymmetric"] is True
    assert "differ" in found["why"]


def test_paths_that_are_as_likely_are_all_told(store: Store) -> None:
    found = path_answer(store, asked(), "resnet-2/0", "resnet-2/1")
    (flow,) = found["flows"]
    assert [(path["alternative"], path["probability"]) for path in flow["paths"]] == [(0, 0.5), (1, 0.5)]
    assert flow["paths"][1]["hops"][1]["bytes"] is None
    assert found["asymmetric"] is None
    assert "cannot be compared" in found["why"]


def test_ranks_without_flows_are_told_why(store: Store) -> None:
    assert "no sampled flow is owned by rank bert-1/7" in path_answer(store, asked(), "bert-1/0", "bert-1/7")["why"]
    assert "none with the other" in path_answer(store, asked(), "bert-1/0", "resnet-2/0")["why"]
    assert "no window was analysed" in path_answer(store, asked(at_ns=1), "bert-1/0", "bert-1/1")["why"]


def test_another_tenants_flows_are_not_seen(store: Store) -> None:
    beta = Principal("beta", "default", Role.TENANT_READ)
    assert path_answer(store, asked(beta), "bert-1/0", "bert-1/1")["flows"] == []
    assert len(path_answer(store, asked(beta), "resnet-2/0", "resnet-2/1")["flows"]) == 1


@pytest.mark.parametrize("text", ["", "bert-1", "bert-1/x", "/3", "rank:", "host:h1"])
def test_what_is_no_rank_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a rank is JOB/NUMBER"):
        rank_name(text)


def test_one_rank_twice_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="two different ranks"):
        path_answer(store, asked(), "bert-1/0", "rank:bert-1/0")


def test_the_same_way_back_is_symmetric() -> None:
    there = {"state": "known", "src_rank": "rank:j/0", "paths": [{"hops": [{"link": "x"}, {"link": "y"}]}]}
    back = {"state": "known", "src_rank": "rank:j/1", "paths": [{"hops": [{"link": "y"}, {"link": "x"}]}]}
    assert symmetry([there, back], "j/0") == (False, "")


def test_a_direction_without_a_known_path_compares_nothing() -> None:
    there = {"state": "known", "src_rank": "rank:j/0", "paths": [{"hops": [{"link": "x"}]}]}
    back = {"state": "unknown", "src_rank": "rank:j/1", "paths": [], "why": "too few samples"}
    assert symmetry([there, back], "j/0") == (None, "1 of 2 flows have no known path: too few samples")
