"""Which rows an analysis is given: the same from a store and from memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders.stores import opened_store

from leadline.model.tables.accounts import EXPECTATION
from leadline.model.tables.fabric import RELATION
from leadline.runner.load import Chosen, HeldRows, Rows, StoreRows, of_ranks
from leadline.store.schema import arrow_table


def expectations() -> pa.Table:
    """One of every cluster, one of `east`, one of `west`, one that is over."""
    rows = [("all", "", None), ("east", "east", None), ("west", "west", None), ("old", "", 50)]
    return arrow_table(
        EXPECTATION,
        {
            "tenant": ["default"] * 4, "cluster": [cluster for _, cluster, _ in rows],
            "expectation": [name for name, _, _ in rows], "layer": ["gpu"] * 4, "from_ns": [10] * 4,
            "to_ns": [to_ns for _, _, to_ns in rows], "spec": ["{}"] * 4, "source": ["defaults"] * 4,
        },
    )  # fmt: skip


@pytest.fixture(scope="module", params=["store", "memory"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    if request.param == "memory":
        yield HeldRows({EXPECTATION.name: expectations()})
        return
    path: Path = tmp_path_factory.mktemp("load") / "store"
    with opened_store(path, (EXPECTATION, RELATION)) as store:
        store.append(EXPECTATION, expectations())
        yield StoreRows(store)


def names(rows: Rows, cluster: str, valid: bool, from_ns: int = 100) -> list[str]:
    chosen = Chosen(EXPECTATION, ("expectation",), from_ns if valid else 0, 200, valid, cluster)
    return sorted(rows.chosen(chosen)["expectation"].to_pylist())


def test_what_holds_in_every_cluster_is_given_to_each(rows: Rows) -> None:
    assert names(rows, "east", valid=True) == ["all", "east"]
    assert names(rows, "nowhere", valid=True) == ["all"]
    assert names(rows, "east", valid=True, from_ns=20) == ["all", "east", "old"]
    assert names(rows, "", valid=True) == ["all", "east", "west"]


def test_other_rows_are_those_of_their_cluster(rows: Rows) -> None:
    assert names(rows, "east", valid=False) == ["east"]


@pytest.mark.parametrize("coded", [True, False])
def test_of_ranks_gives_a_job_its_own_relations_only(coded: bool) -> None:
    children = ["rank:bert/0", "rank:bert-2/0", "gpu:GPU-1", "rank:bert/1", None]
    child = pa.array(children, pa.string())
    parent = pa.array(["host:h1", "host:h2", "host:h1", "host:h3", "host:h4"])
    rows = pa.table({
        "child": child.dictionary_encode() if coded else child,
        "parent": parent.dictionary_encode() if coded else parent,
    })  # fmt: skip
    found = of_ranks(rows, "bert")
    assert found["parent"].to_pylist() == ["host:h1", "host:h3"]
    if coded:
        assert found["parent"].chunk(0).dictionary.to_pylist() == ["host:h1", "host:h3"], "no words of others"
    assert of_ranks(rows.slice(0, 0), "bert").num_rows == 0
