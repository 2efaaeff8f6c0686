"""Rows read once for all jobs of a window are, for each, those that it would have read by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.stores import opened_store

from leadline.model.tables import Table
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import STEP
from leadline.runner.held import HeldRows
from leadline.runner.load import Chosen, Rows, StoreRows
from leadline.runner.together import Together

COLUMNS = ("rank", "step", "host", "start_ns")
OWNERS = [("acme", "bert"), ("acme", "llama"), ("beta", "bert"), ("beta", "none"), ("nobody", "bert")]


def steps() -> pa.Table:
    """Two jobs of one tenant, and one of the same name of another."""
    rows = [
        {
            "tenant": tenant, "job": job, "rank": rank, "step": rank, "start_ns": 100 + rank, "end_ns": 200,
            "host": f"{tenant}-{job}", "clock": "h/1", "batch": place, "batch_row": rank,
        }
        for place, (tenant, job) in enumerate(OWNERS[:3])
        for rank in range(place + 2)
    ]  # fmt: skip
    return rows_of(STEP, rows, Names())


class Counting:
    """Rows, and how often they were read."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self.reads = rows, 0

    def chosen(self, chosen: Chosen) -> pa.Table:
        self.reads += 1
        return self._rows.chosen(chosen)

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        return self._rows.owners(chosen)

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        return self._rows.next_ns(table, from_ns)

    def count(self, chosen: Chosen) -> int:
        return self._rows.count(chosen)


@pytest.fixture(scope="module", params=["store", "memory"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    if request.param == "memory":
        yield HeldRows({STEP.name: steps()})
        return
    path: Path = tmp_path_factory.mktemp("together") / "store"
    with opened_store(path, (STEP, RELATION)) as store:
        store.append(STEP, steps())
        yield StoreRows(store)


def of_job(owner: tuple[str, str], to_ns: int = 200) -> Chosen:
    return Chosen(STEP, COLUMNS, 0, to_ns, cluster=steps()["cluster"][0].as_py(), tenant=owner[0], job=owner[1])


@pytest.mark.parametrize(("rows_max", "reads"), [(9, 1), (8, 5)])
def test_each_job_is_given_what_it_would_have_read(rows: Rows, rows_max: int, reads: int) -> None:
    counting = Counting(rows)
    together = Together(counting, rows_max)
    for owner in OWNERS:
        got, alone = together.chosen(of_job(owner)), rows.chosen(of_job(owner))
        assert got.schema == alone.schema
        assert got.sort_by("rank").to_pylist() == alone.sort_by("rank").to_pylist()
        if reads == 1 and len(got):
            words = got["host"].combine_chunks().dictionary.to_pylist()
            assert words == [f"{owner[0]}-{owner[1]}"], "no word of another's"
    assert [len(together.chosen(of_job(owner))) for owner in OWNERS] == [2, 3, 4, 0, 0]
    assert counting.reads == reads * (1 if reads == 1 else 2)


def test_another_span_is_another_read(rows: Rows) -> None:
    together = Together(rows)
    assert len(together.chosen(of_job(OWNERS[2]))) == 4
    assert len(together.chosen(of_job(OWNERS[2], to_ns=102))) == 2


def test_what_is_of_no_job_is_read_once(rows: Rows) -> None:
    counting = Counting(rows)
    together = Together(counting)
    everyone = Chosen(STEP, COLUMNS, 0, 200)
    assert len(together.chosen(everyone)) == len(together.chosen(everyone)) == 9
    assert len(together.chosen(of_job(OWNERS[0]))) == 2
    assert counting.reads == 2
