"""Which rows an analysis is given: the same from a store and from memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.stores import opened_store

from leadline.model.tables.accounts import EXPECTATION
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.verdicts import EVENT
from leadline.runner.held import HeldRows
from leadline.runner.load import Chosen, Rows, StoreRows, of_ranks
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


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_in_memory_are_cut_by_time_and_none_is_lost(ordered: bool) -> None:
    """Whatever the order and the lumps in which rows came, a span has what looking at all of them gives."""
    rng = np.random.default_rng(3)
    times_N = np.sort(rng.integers(0, 1000, 700)) if ordered else rng.integers(0, 1000, 700)
    held = HeldRows({})
    for part in np.array_split(times_N, 60):
        names = pa.array(["h1"] * len(part)).dictionary_encode()
        held.add(EVENT, pa.table({"time_ns": part, "host": names, "tenant": names}))
    assert held.rows_held() == len(times_N)
    for from_ns, to_ns in ((0, 1000), (0, 1), (300, 301), (250, 750), (999, 5000), (2000, 3000)):
        found = held.chosen(Chosen(EVENT, ("time_ns", "host"), from_ns, to_ns))
        wanted = sorted(times_N[(times_N >= from_ns) & (times_N < to_ns)].tolist())
        assert sorted(found["time_ns"].to_pylist()) == wanted
        assert held.count(Chosen(EVENT, ("time_ns",), from_ns, to_ns)) == len(wanted)
        later = times_N[times_N >= from_ns]
        assert held.next_ns(EVENT, from_ns) == (int(later.min()) if len(later) else None)
    assert held.chosen(Chosen(EVENT, ("host",), 0, 1000))["host"].num_chunks < 20, "a look goes over each piece"
