"""Ranks of a host that compute one replica are late together: which of them is the reason its own evidence says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.builders.causes import anomaly, blame, case, named, relations, symptom
from tests.builders.fabrics import STARTED
from tests.builders.failures import rows_of
from tests.common.analysis_laws import Case

HERE = (0, 4, 5, 6)  # ranks on h1; 1 to 3 are elsewhere


def placed() -> pa.Table:
    """The site with three more ranks of bert-1 on h1, on GPU-14 to GPU-16."""
    more = [
        {"tenant": "ana", "child": child, "parent": parent, "kind": kind, "from_ns": STARTED, "source": "test"}
        for rank in HERE[1:]
        for child, parent, kind in (
            (f"rank:bert-1/{rank}", "job:bert-1", "in"), (f"rank:bert-1/{rank}", f"gpu:GPU-{10 + rank}", "runs-on"),
            (f"rank:bert-1/{rank}", "host:h1", "runs-on"), (f"gpu:GPU-{10 + rank}", "host:h1", "in"),
        )
    ]  # fmt: skip
    return pa.concat_tables([relations(), rows_of("relation", more)])


def judged(*late: int, **rows: Any) -> list[tuple[str, str]]:
    blamed = [blame(f"rank:bert-1/{rank}", "straggler", 10.0 / len(late)) for rank in late]
    site = case(symptom=[symptom(*blamed)], **rows)
    return named(Case({**site.tables, "relation": placed()}, site.window))


def slow(gpu: str) -> list[dict[str, Any]]:
    return [
        anomaly(f"gpu:{gpu}", "DCGM_FI_DEV_THERMAL_VIOLATION"),
        anomaly(f"gpu:{gpu}", "DCGM_FI_DEV_SM_CLOCK", "low"),
    ]


def test_the_gpu_that_is_slow_is_named_of_all_that_are_late() -> None:
    assert judged(*HERE, anomaly=slow("GPU-15")) == [("gpu:GPU-15", "slow-gpu")]


def test_also_where_another_rank_of_its_host_is_blamed() -> None:
    assert judged(0, anomaly=slow("GPU-15")) == [("gpu:GPU-15", "slow-gpu")]


def test_a_gpu_of_another_host_is_not_in_reach() -> None:
    assert ("gpu:GPU-1", "slow-gpu") not in judged(0, anomaly=slow("GPU-1"))


def test_what_its_own_gpu_shows_goes_before_what_a_neighbours_shows_as_much() -> None:
    assert ("gpu:GPU-15", "slow-gpu") not in judged(0, anomaly=[*slow("GPU-0"), *slow("GPU-15")])
