"""Where the time of a job went, from hand-made rows of the ledger in a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.ledger.ledger_rows import BEGIN, EDGE, GPUS, ROWS, WINDOW, S, ticks
from tests.unit.views.paths.path_rows import filled

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.types import LedgerAnswer
from leadline.views.ledger.view import goodput, ledger_answer

END = BEGIN + 5 * WINDOW
ASKED = Asked(Principal(), "default", END, latest=True)
SUMS = ("seconds", "gpu_seconds", "lost_seconds", "lost_gpu_seconds")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("ledger"), ROWS) as store:
        yield store


@pytest.fixture(scope="module")
def answer(store: Store) -> dict[str, Any]:
    return ledger_answer(store, ASKED, "job:bert-1", config=LedgerConfig(2.5, "EUR"))


def test_all_sums_are_exact(answer: dict[str, Any]) -> None:
    """To the last bit: owners, categories and the timeline are the total, and with the missing it fills the span."""
    for parts in ("categories", "owners"):
        for name in SUMS:
            assert sum(one[name] for one in answer[parts]) == answer["total"][name]
    assert sum(sum(one["seconds"].values()) for one in answer["timeline"]) == answer["total"]["seconds"]
    assert sum(sum(one["lost"].values()) for one in answer["timeline"]) == answer["total"]["lost_seconds"]
    assert sum(answer["depths"].values()) == answer["total"]["seconds"]
    total, missing = answer["total"], answer["missing"]
    assert total["seconds"] + missing["seconds"] == (answer["to_ns"] - answer["from_ns"]) / S == 50
    for one in answer["timeline"]:
        assert sum(one["seconds"].values()) + one["missing"] == pytest.approx(10)
    assert [one["missing"] for one in answer["timeline"]] == [0, 0, 0, 10, 0]


def test_the_answer_is_as_its_type_says(answer: dict[str, Any], store: Store) -> None:
    LedgerAnswer.model_validate(answer)
    LedgerAnswer.model_validate(ledger_answer(store, ASKED, "bert-7"))


def test_who_took_time_is_told_over_time(answer: dict[str, Any]) -> None:
    taken = {(one["category"], one["owner"]): one["lost_seconds"] for one in answer["takers"]}
    assert taken == {
        ("straggler", "rank:bert-1/3"): [0, ticks(5.5), 0, 0, 0],
        ("input", "rank:bert-1/2"): [ticks(0.5), 0, 0, 0, 0],
        ("communication", EDGE): [ticks(0.25), 0, 0, 0, 0],
    }
    assert next(iter(taken)) == ("straggler", "rank:bert-1/3")  # the most lost first


def test_only_the_revision_that_counts_is_summed(answer: dict[str, Any]) -> None:
    told = {one["category"]: one["seconds"] for one in answer["categories"]}
    assert told["compute"] == ticks(7.1) + 4 + ticks(9.2)
    assert list(told) == ["compute", "input", "communication", "straggler", "checkpoint", "restart", "unknown"]


def test_who_costs_most_comes_first_and_since_when(answer: dict[str, Any]) -> None:
    first, second = answer["owners"][:2]
    assert (first["category"], first["lost_gpu_seconds"]) == ("restart", ticks(6.7) * GPUS)
    assert (second["owner"], second["lost_since_ns"], second["lost_until_ns"]) == (
        "rank:bert-1/3", BEGIN + WINDOW, BEGIN + 2 * WINDOW)  # fmt: skip
    assert second["lost_cost"] == pytest.approx(5.5 * GPUS / 3600 * 2.5)
    assert {one["owner"] for one in answer["owners"] if one["category"] == "communication"} >= {EDGE}


def test_what_is_unknown_is_told_by_the_missing_input(answer: dict[str, Any]) -> None:
    assert [one["missing"] for one in answer["unknown"]] == ["windows not analysed", "no rows of step"]
    assert answer["missing"]["windows"] == 1
    assert answer["missing"]["spans"] == [{"from_ns": BEGIN + 3 * WINDOW, "to_ns": BEGIN + 4 * WINDOW}]
    assert answer["missing"]["gpu_seconds"] == 10 * GPUS


def test_goodput_counts_the_unknown_as_held_and_not_as_productive(answer: dict[str, Any]) -> None:
    productive = (7.1 + 1.05 + 0.7 + 4 + 8.1) * GPUS
    assert answer["goodput"]["ratio"] == pytest.approx(productive / 200, rel=1e-5)
    assert answer["goodput"]["ratio_max"] == pytest.approx((productive + 13.3 * GPUS) / 200, rel=1e-5)


def test_goodput_of_nothing_is_not_known() -> None:
    assert goodput([])["ratio"] is None


def test_ettr_and_mttf_are_of_failures_that_nobody_asked_for(answer: dict[str, Any]) -> None:
    ettr = answer["ettr"]
    assert ettr["ratio"] == pytest.approx((7.1 + 0.9 + 2.0 + 4 + 6 + 9.2) / 50, rel=1e-5)
    assert (ettr["count"], ettr["interval_s"], ettr["write_s"]) == (2, 20.0, 1.0)
    # L = 1 in 50 s, D = 19 s, w = 1 s, R = 6.7 s: 19/20 (1 - (6.7 + 10) / 50)
    assert ettr["expected"] == pytest.approx(0.95 * (1 - 16.7 / 50), rel=1e-4)
    assert answer["mttf"]["failures"] == 1
    assert answer["mttf"]["mean_h"] == pytest.approx(50 / 3600)
    assert [each["class"] for each in answer["failures"]] == ["operator", "gpu"]


def test_money_is_gpu_hours_times_the_price(answer: dict[str, Any], store: Store) -> None:
    cost = answer["cost"]
    assert cost["gpu_hours"] == pytest.approx(200 / 3600)
    assert cost["total"] == pytest.approx(200 / 3600 * 2.5)
    assert (cost["currency"], cost["how"]) == ("EUR", "")
    free = ledger_answer(store, ASKED, "bert-1")["cost"]
    assert (free["total"], free["lost"]) == (None, None)
    assert "ledger.gpu_hour_price" in free["how"]


def test_a_span_takes_whole_windows_within_it(store: Store) -> None:
    found = ledger_answer(store, replace(ASKED, at_ns=BEGIN + 2 * WINDOW + S, latest=False), "bert-1", BEGIN + 1)
    assert (found["from_ns"], found["to_ns"]) == (BEGIN + WINDOW, BEGIN + 2 * WINDOW)
    assert found["total"]["seconds"] == 10


def test_a_job_that_is_over_is_told_as_it_was_and_one_that_is_not_there_with_why(store: Store) -> None:
    later = replace(ASKED, at_ns=END + 3 * 86400 * S)
    found = ledger_answer(store, later, "bert-1")
    assert found["total"]["seconds"] == 40
    assert "nothing in the last 24 hours" in found["note"]
    assert "newest window ended" in ledger_answer(store, replace(later, latest=False), "bert-1")["why"]
    assert "no second of gone-1" in ledger_answer(store, ASKED, "gone-1")["why"]


def test_a_tenant_sees_its_own_jobs_only(store: Store) -> None:
    beta = replace(ASKED, principal=Principal("beta", "default", Role.TENANT_READ))
    assert ledger_answer(store, beta, "bert-1")["total"] is None
    assert ledger_answer(store, beta, "bert-9")["total"]["seconds"] == 10


@pytest.mark.parametrize(
    ("job", "at_ns", "words"),
    [
        ("bert1", BEGIN + 5 * WINDOW, "is the name right; did you mean bert-1"),
        ("xx", BEGIN + 5 * WINDOW, "is the name right?"),
        ("bert-1", BEGIN - 99 * S, "nothing of bert-1 by then: its first window ended at"),
    ],
)
def test_a_job_of_which_nothing_is_known_is_told_with_what_may_be_meant(
    store: Store, job: str, at_ns: int, words: str
) -> None:
    assert words in ledger_answer(store, Asked(Principal(), "default", at_ns), job)["why"]


def test_another_tenants_jobs_are_not_suggested(store: Store) -> None:
    stranger = Principal("gamma", "default", Role.TENANT_READ)
    assert "bert-1" not in ledger_answer(store, Asked(stranger, "default", BEGIN + 5 * WINDOW), "bert1")["why"]


def test_what_is_no_job_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match=r"a job is asked for.*got 'rank:bert-1/3'"):
        ledger_answer(store, Asked(Principal(), "default", BEGIN), "rank:bert-1/3")
