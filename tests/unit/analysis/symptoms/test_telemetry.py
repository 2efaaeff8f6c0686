"""Senders that are not heard any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import lost_senders, symptom, window
from tests.builders.slow_jobs import told as told_by
from tests.builders.small_job import JOB, table

from leadline.analysis.symptoms.telemetry import telemetry

NOW = window(0, 5)


def told(given: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    return told_by(telemetry, given, NOW)


def test_a_sender_that_is_lost_is_told_with_the_jobs_that_nobody_sees() -> None:
    (row,) = told(lost_senders({"h1": 20.0}))
    assert (row["entity"], row["symptom"], row["start_ns"], row["end_ns"]) == (
        "host:h1",
        "telemetry-lost",
        T0 - 20 * S,
        None,
    )
    assert row["lost_gpu_seconds"] == 0
    assert row["missing"] == f"telemetry of job {JOB}"
    assert row["evidence"][0]["text"] == f"nothing from agent of h1; not known since then: job {JOB}"


def test_senders_that_fall_silent_together_are_one() -> None:
    (row,) = told(lost_senders({"h1": 20.0, "h2": 18.0, "h3": 24.0}))
    assert (row["entity"], row["start_ns"]) == ("cluster:default", T0 - 24 * S)
    assert row["evidence"][0]["text"].startswith("nothing from agent of 3 hosts (h1, h2, h3)")
    assert len(told(lost_senders({"h1": 20.0, "h2": 60.0}))) == 2


def test_nobody_is_lost_while_all_are_heard() -> None:
    assert told(lost_senders({})) == []


def test_a_lost_sender_stays_one_symptom_until_it_is_heard() -> None:
    known = symptom(-20, "telemetry-lost", entity="host:h1", job=JOB, analysis="telemetry")
    (row,) = told({**lost_senders({"h1": 20.0}), "symptom": table("symptom", [known])})
    assert (row["start_ns"], row["end_ns"]) == (T0 - 20 * S, None)
    (row,) = told({**lost_senders({}, ("h1",)), "symptom": table("symptom", [known])})
    assert row["end_ns"] is not None


def test_what_senders_say_of_themselves_is_no_proof_of_silence() -> None:
    own = lost_senders({"h1": 20.0})["watermark"].to_pylist()
    for row in own:
        row["heard_ns"] = None
    assert told({**lost_senders({}), "watermark": table("watermark", own)}) == []
