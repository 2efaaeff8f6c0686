"""The tables of failures: over a store, and each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.ledger.ledger_rows import BEGIN, ROWS, WINDOW, S, failure
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.ledger.failures import classes, failures_answer, fleet, resolve, sizes

END = BEGIN + 5 * WINDOW
ASKED = Asked(Principal(), "default", END)
HOUR = 3600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The ledger's rows; the failure of the link is seen again, closed, by a later window."""
    closed = failure(33, 45, "network", job=None, entity="port:h2/eth0", gpus=None, seen_ns=BEGIN + 9 * WINDOW)
    with filled(tmp_path_factory.mktemp("failures"), {**ROWS, "failure": [*ROWS["failure"], closed]}) as store:
        yield store


def test_all_failures_of_the_span_with_the_row_that_was_seen_last(store: Store) -> None:
    found = failures_answer(store, ASKED)
    assert (found["failures_total"], found["stopping"]) == (3, 1)
    assert [(each["class"], each["end_ns"]) for each in found["failures"]] == [
        ("network", BEGIN + 45 * S), ("gpu", BEGIN + 27 * S), ("operator", BEGIN + 6 * S)]  # fmt: skip
    assert found["gpu_hours"] == pytest.approx((4 * 40 + 40) / HOUR)  # bert-1 and beta's bert-9
    assert found["sizes"][0]["jobs"] == 2


def test_what_had_not_ended_by_then_is_open(store: Store) -> None:
    found = failures_answer(store, replace(ASKED, at_ns=BEGIN + 40 * S))
    assert found["failures"][0]["end_ns"] is None
    assert failures_answer(store, ASKED, BEGIN + 15 * S)["failures_total"] == 2


def test_a_tenant_sees_its_own(store: Store) -> None:
    found = failures_answer(store, replace(ASKED, principal=Principal("beta", "default", Role.TENANT_READ)))
    assert (found["failures_total"], found["why"]) == (0, "no failure in this span")
    assert found["gpu_hours"] == pytest.approx(40 / HOUR)
    nobody = failures_answer(store, replace(ASKED, principal=Principal("nobody", "default", Role.TENANT_READ)))
    assert "nothing is known of this span" in nobody["why"]


def test_lost_gpu_time_is_of_the_jobs_that_were_stopped() -> None:
    rows = [
        failure(0, HOUR, "gpu", gpus=8),
        failure(0, 4 * HOUR, "network", job=None),
        failure(0, None, "host", gpus=2),
    ]
    found = {each["class"]: each for each in classes(rows, BEGIN + 2 * HOUR * S)}
    assert [found[name]["lost_gpu_seconds"] for name in ("gpu", "network", "host")] == [8 * HOUR, 0, 4 * HOUR]
    assert sum(each["lost_share"] for each in found.values()) == pytest.approx(1)
    assert found["host"]["repair_mean_s"] is None


@pytest.mark.parametrize(
    ("end_s", "within"),
    [(HOUR, "1 h"), (HOUR + 1, "1 d"), (3 * 24 * HOUR, "3 d"), (7 * 24 * HOUR, "7 d"), (8 * 24 * HOUR, "longer"),
     (None, "never")],
)  # fmt: skip
def test_each_failure_counts_once_where_it_was_resolved(end_s: int | None, within: str) -> None:
    found = resolve([failure(0, end_s, "gpu")], BEGIN + 30 * 86400 * S)[0]
    assert {name for name, count in found["within"].items() if count} == {within}
    assert sum(found["within"].values()) == 1
    assert (found["open_s_max"] is None) == (end_s is not None)


def test_too_few_gaps_are_not_fitted_and_that_is_said() -> None:
    found = fleet([failure(second, None, "gpu") for second in range(10)], 1000.0)
    assert found["shape"] is None
    assert "not fitted: 9 gaps" in found["shape_words"]
    assert {each["gpus"]: each["first_h"] for each in found["projected"]}[1024] == pytest.approx(100 / 1024)
    none = fleet([], 300.0)
    assert (none["mttf_gpu_h"], none["projected"]) == (None, [])
    assert none["low_gpu_h"] == pytest.approx(100.1, abs=0.1)


def job(name: str, gpus: int, hours: float) -> dict[str, Any]:
    seconds = hours * HOUR
    return {"job": name, "seconds": seconds, "gpu_seconds": seconds * gpus, "first_ns": BEGIN,
            "last_ns": BEGIN + round(seconds * S)}  # fmt: skip


def test_mttf_by_size_counts_the_hours_of_jobs_that_did_not_fail() -> None:
    jobs = [job("a", 8, 10), job("b", 4, 30), job("c", 64, 5)]
    some = [failure(2 * HOUR, None, "gpu", job="a"), failure(6 * HOUR, None, "gpu", job="a")]
    small, large = sizes(some, jobs)
    assert (small["gpus"], small["jobs"], small["failures"], small["mttf_h"]) == ("1-8", 2, 2, 20)
    assert (small["failed_jobs"], small["first_h"]) == (1, 32)  # 2 h until the first of a, 30 h of b without one
    assert (large["gpus"], large["mttf_h"], large["first_h"]) == ("9-64", None, None)
    assert large["low_h"] == pytest.approx(5 / 2.9957, rel=1e-4)
