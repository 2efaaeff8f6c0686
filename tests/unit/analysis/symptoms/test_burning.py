"""Expectations that burn where no job is known to suffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import MINUTE, burning_host, symptom
from tests.builders.slow_jobs import told as told_by
from tests.builders.small_job import JOB, relations, table

from leadline.analysis.symptoms.burning import burning


def told(given: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    return told_by(burning, given, MINUTE)


def test_a_budget_that_burns_in_both_windows_is_told() -> None:
    (row,) = told(burning_host())
    assert (row["entity"], row["symptom"], row["job"], row["end_ns"]) == ("host:h7", "sle", None, None)
    assert row["start_ns"] == T0 - 11 * 60 * S
    assert row["blamed"][0]["owner"] == "host:h7"
    assert row["evidence"][0]["what"] == "host-memory"
    assert row["evidence"][1]["what"] == "node_pressure"


def test_a_minute_is_noise() -> None:
    assert told(burning_host({0: 60.0})) == []


def test_what_was_bad_before_and_is_good_now_does_not_burn() -> None:
    assert told(burning_host({back: 60.0 if back > 5 else 0.0 for back in range(40)})) == []


def test_a_job_that_suffers_there_is_told_instead() -> None:
    places = [{**row, "parent": "host:h7"} if row["parent"] == "host:h2" else row for row in relations(T0 - 600 * S)]
    given = {**burning_host(), "relation": table("relation", places), "symptom": table("symptom", [symptom(5, "slow")])}
    assert told(given) == []
    assert len(told({**given, "symptom": table("symptom", [symptom(5, "slow", job="other", entity="job:other")])})) == 1


def test_it_is_over_after_five_minutes_without_a_bad_second() -> None:
    known = symptom(-1200, "sle", entity="host:h7", job=None, analysis="burning",
                    evidence='[{"table":"sle","entity":"host:h7","what":"host-memory","time_ns":1,"bound_ns":null,'
                    '"text":"host-memory: burns; x"}]')  # fmt: skip
    bad = burning_host({back: 40.0 if back > 6 else 0.0 for back in range(20)})
    (row,) = told({**bad, "symptom": table("symptom", [known])})
    assert row["end_ns"] == T0 - 6 * 60 * S
    (row,) = told({**burning_host(), "symptom": table("symptom", [known])})
    assert row["end_ns"] is None


def test_an_unknown_job_of_an_expectation_is_named() -> None:
    given = burning_host()
    rows = {name: given[name].to_pylist() for name in ("sle", "sle_loss")}
    for row in [*rows["sle"], *rows["sle_loss"]]:
        row["entity"] = f"job:{JOB}"
    (row,) = told({**given, **{name: table(name, each) for name, each in rows.items()}})
    assert row["job"] == JOB
