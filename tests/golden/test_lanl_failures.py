"""The lanl_failures case: real repair times through the tables of `show failures`, against sums made elsewhere."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leadline.model.accounts import FailureClass
from leadline.views.ledger.failures import classes, fleet, resolve
from leadline.views.ledger.reliability import weibull_shape

CASE = Path(__file__).parent / "lanl_failures"
S = 10**9
CLASSES = {  # a class of its own for each cause; facilities have none in ours, and stand in for storage
    "Facilities": FailureClass.STORAGE, "Hardware": FailureClass.HOST, "Human Error": FailureClass.OPERATOR,
    "Network": FailureClass.NETWORK, "Software": FailureClass.SOFTWARE, "Undetermined": FailureClass.UNKNOWN,
}  # fmt: skip
BUCKETS = {"within_1h": "1 h", "within_1d": "1 d", "within_3d": "3 d", "within_7d": "7 d", "longer": "longer"}


def read(name: str) -> list[dict[str, str]]:
    with (CASE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def time_ns(text: str) -> int:
    return round(datetime.strptime(text, "%m/%d/%Y %H:%M").replace(tzinfo=UTC).timestamp()) * S


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Records as rows of `failure`; each stopped a job of one GPU, so that lost GPU time is time down."""
    return [
        {"class": CLASSES[row["cause"]], "job": "j", "gpus": 1, "start_ns": time_ns(row["started"]),
         "end_ns": time_ns(row["started"]) + int(row["down_min"]) * 60 * S}
        for row in read("failures.csv")
    ]  # fmt: skip


def test_shares_and_repair_times_by_cause(rows: list[dict[str, Any]]) -> None:
    found = {each["class"]: each for each in classes(rows, 2**62)}
    expected = read("out.csv")
    assert len(found) == len(expected) == 6
    whole_min = sum(int(row["failures"]) * float(row["mean_min"]) for row in expected)
    for row in expected:
        told = found[CLASSES[row["cause"]]]
        assert told["failures"] == int(row["failures"])
        assert told["share"] == pytest.approx(int(row["failures"]) / 568)
        assert told["repair_mean_s"] / 60 == pytest.approx(float(row["mean_min"]), rel=1e-6)
        assert told["repair_median_s"] / 60 == pytest.approx(float(row["median_min"]))
        lost_min = int(row["failures"]) * float(row["mean_min"])
        assert told["lost_share"] == pytest.approx(lost_min / whole_min, rel=1e-6)


def test_times_to_resolve_by_cause(rows: list[dict[str, Any]]) -> None:
    found = {each["class"]: each["within"] for each in resolve(rows, 2**62)}
    for row in read("out.csv"):
        told = found[CLASSES[row["cause"]]]
        assert {name: told[bucket] for name, bucket in BUCKETS.items()} == {name: int(row[name]) for name in BUCKETS}
        assert told["never"] == 0


def test_the_shape_of_node_22_is_the_published_one() -> None:
    """Published 0.7 (one digit); 0.74 as another program fitted it on these rows."""
    begins = sorted(
        time_ns(row["started"])
        for row in read("failures.csv")
        if row["system"] == "2" and row["started"].split()[0].endswith(("2000", "2001", "2002", "2003", "2004", "2005"))
    )
    assert len(begins) == 193
    gaps = [(after - before) / S for before, after in pairwise(begins)]
    assert weibull_shape(gaps) == pytest.approx(0.74, abs=0.01)
    found = fleet([{"start_ns": begin} for begin in begins], 50_000.0)
    assert found["shape"] == pytest.approx(0.74, abs=0.01)
    assert found["mttf_gpu_h"] == pytest.approx(50_000 / 193)
    eight = found["projected"][0]
    assert eight["first_h"] == pytest.approx(50_000 / 193 / 8)
    assert eight["weibull_h"] < eight["first_h"]  # k < 1: the first of many comes sooner
