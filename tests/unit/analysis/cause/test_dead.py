"""An incident stays open while a part of its cause is dead, though nobody suffers any more; and what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.builders.causes import WINDOW, Row, at, blame, case, event, host_link, symptom, told
from tests.builders.failures import rows_of
from tests.common.analysis_laws import Case

from leadline.analysis.cause.cause import cause
from leadline.model.tables.verdicts import INCIDENT
from leadline.runner.held import HeldRows
from leadline.runner.load import given
from leadline.runner.parts import calls

S = 10**9
GPUS = ("gpu:GPU-1", "gpu:GPU-2")
CRASH = symptom(*(blame(f"rank:bert-1/{rank}", "died", 10.0, "decision:1") for rank in (1, 2)), kind="crash", end_s=-5)
XIDS = [event(gpu, "xid", code="79", severity="error") for gpu in GPUS]


def failure(gpu: str, end_s: float | None = None) -> Row:
    """A row of `failure`: what fell off the bus with the events above."""
    return {"entity": gpu, "entity_kind": "gpu", "kind": "xid", "class": "gpu", "job": None, "gpus": 1,
            "start_ns": at(-21), "end_ns": None if end_s is None else at(end_s), "seen_ns": WINDOW.to_ns,
            "evidence": "xid 79"}  # fmt: skip


def later(seconds: float, item: Case, **rows: list[Row]) -> Case:
    """A window so much later, without symptoms: it knows what this one told."""
    incidents, causes = told(item)
    window = replace(WINDOW, from_ns=WINDOW.from_ns + round(seconds * S), to_ns=WINDOW.to_ns + round(seconds * S))
    return replace(case(incident=incidents, cause=causes, **rows), window=window)


CRASHED = case(symptom=[CRASH], event=XIDS)


def test_a_job_that_died_of_gpus_that_are_dead_leaves_its_incident_open() -> None:
    (one,), causes = told(CRASHED)
    assert (one["state"], one["end_ns"]) == ("open", None)
    assert {(row["entity"], row["action"]) for row in causes if row["chosen"]} == {(gpu, "DRAIN") for gpu in GPUS}
    (hurt,) = json.loads(one["symptoms"])
    assert hurt["end_ns"] == at(-5), "when nobody suffered any more is told all the same"


@pytest.mark.parametrize(
    ("ends", "end_s"),
    [
        (None, None),  # no failure is told yet: windows of a minute
        ((None, None), None),
        ((200, None), None),  # one of two is back
        ((200, 250), 250),
        ((-10, -10), -5),  # back before the job's trouble was over
    ],
)
def test_it_is_told_again_until_the_last_part_is_back(
    ends: tuple[float | None, ...] | None, end_s: float | None
) -> None:
    rows = [failure(gpu, end) for gpu, end in zip(GPUS, ends, strict=True)] if ends else []
    item = later(300, CRASHED, failure=rows)
    ((one,), causes) = told(item)
    assert not causes, "its causes stay as they were told"
    assert (one["state"], one["end_ns"]) == ("open" if end_s is None else "over", None if end_s is None else at(end_s))
    assert one["seen_ns"] == item.window.to_ns
    assert one["incident"] == told(CRASHED)[0][0]["incident"]


def test_a_person_may_close_it() -> None:
    ((before,), _) = told(CRASHED)
    mark = {"incident": before["incident"], "entity": "job:bert-1", "rule": "", "mark": "dismissed", "actor": "ann",
            "reason": "", "time_ns": at(10), "tenant": "ana"}  # fmt: skip
    ((one,), _) = told(later(300, CRASHED, mark=[mark], failure=[failure(gpu) for gpu in GPUS]))
    assert (one["state"], one["end_ns"]) == ("over", at(-5))


def test_what_only_took_time_is_over_with_it() -> None:
    page_fault = case(symptom=[CRASH], event=[event(gpu, "xid", code="31", severity="error") for gpu in GPUS])
    ((one,), _) = told(page_fault)
    assert (one["state"], one["end_ns"]) == ("over", at(-5))
    assert told(later(300, page_fault)) == ([], [])


def test_an_open_incident_is_a_reason_to_judge_though_nothing_hurts() -> None:
    """Window by window, as the runner calls them: the incident of a dead GPU is told for as long as it is dead."""
    incidents, causes = told(CRASHED)
    rows = HeldRows({"incident": rows_of("incident", incidents), "cause": rows_of("cause", causes)})
    for place in range(1, 4):
        begin_ns = WINDOW.to_ns + (place - 1) * WINDOW.window_ns
        (window,) = calls(cause, begin_ns, begin_ns + WINDOW.window_ns, rows, "provider")
        found = cause(*given(cause, window, rows), window=window)["incident"]
        assert found["end_ns"] == [None]
        assert found["seen_ns"] == [begin_ns + WINDOW.window_ns]
        told_rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
        rows.add(INCIDENT, rows_of("incident", told_rows))
    over = HeldRows({"incident": rows_of("incident", [{**each, "end_ns": at(-1)} for each in incidents])})
    assert calls(cause, WINDOW.to_ns + 600 * S, WINDOW.to_ns + 602 * S, over, "provider") == []


def test_the_same_event_counts_and_shows_once_and_flaps_are_counted() -> None:
    """An event and the failure that it is; five times down are one piece of evidence that says so."""
    port = "port:h3/eth0"
    down = [event(port, "link-down", second, severity="error") for second in (-21, -15, -10, -4, -1)]
    ups = [event(port, "link-up", second + 0.5, severity="info") for second in (-21, -15, -10, -4, -1)]
    failed = [{**failure(port), "kind": "link-down", "start_ns": at(second)} for second in (-21, -15, -10, -4, -1)]
    rows = symptom(blame("rank:bert-1/1>rank:bert-1/2", "communication"))
    item = case(symptom=[rows], event=[*down, *ups], failure=failed)
    (row,) = [each for each in told(item)[1] if each["chosen"]]
    assert row["entity"] in (port, host_link(3))
    (piece,) = [each for each in json.loads(row["evidence"]) if each["what"] == "link-down"]
    assert (piece["table"], piece["times"], piece["last_ns"]) == ("event", 5, at(-1))
    assert "(5 times in 20 s)" in row["text"]
