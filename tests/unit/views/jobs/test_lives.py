"""When jobs began and ended: by those who saw it, and not by silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.incidents.incident_rows import NOW, S, run, step
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.diagnosis import diagnosis_answer
from leadline.views.jobs.lives import Life, lives, lives_of
from leadline.views.jobs.rows import JobRows
from leadline.views.jobs.view import job_answer, jobs_answer

KEY = ("acme", "default", "a")
ASKED = Asked(Principal(), "", NOW, latest=True)
BEGAN, ENDED = NOW - 120 * S, NOW - 99 * S


@pytest.mark.parametrize(
    ("told", "last_ns", "life"),
    [
        ([(5, None)], 50, Life(5, None)),
        ([(5, 60)], 50, Life(5, 60)),
        ([(5, None), (None, 60)], 50, Life(5, 60)),
        ([(7, 60), (5, 62)], 50, Life(5, 60)),
        ([(5, 60)], 60 + 6 * S, Life(5, None)),  # it told a step after that: it runs again
        ([(5, 101)], 50, Life(5, None)),  # not over by then
    ],
)
def test_a_job_has_ended_when_one_source_says_so(
    told: list[tuple[int | None, int | None]], last_ns: int, life: Life
) -> None:
    assert lives([(KEY, *each) for each in told], {KEY: last_ns}, 100) == {KEY: life}


def mark(job: str, host: str, told_s: float, state: str) -> dict[str, Any]:
    return row("watermark", reported_ns=NOW + round(told_s * S), to_ns=NOW + round(told_s * S), sender="agent", job=job,
               ranks=1, state=state, host=host, clock=f"{host}/1", tenant="acme")  # fmt: skip


def left(job: str, rank: int, until_ns: int | None) -> dict[str, Any]:
    return row("relation", child=f"rank:{job}/{rank}", parent=f"host:h{rank}", kind="runs-on", from_ns=BEGAN,
               to_ns=until_ns, source="agent", tenant="acme")  # fmt: skip


def exited(job: str, rank: int) -> dict[str, Any]:
    return row("event", kind="process-exit", entity=f"rank:{job}/{rank}", entity_kind="rank", code="exit/0",
               time_ns=ENDED, severity="info", host="h1", batch=2, batch_row=rank, tenant="acme")  # fmt: skip


def steps(job: str) -> list[dict[str, Any]]:
    return [step(job, number, -110 + 2 * number, rank) for number in range(5) for rank in range(2)]


JOBS = ("left", "stored", "exited", "half", "quiet")
ROWS = {
    "step": [each for job in JOBS for each in steps(job)],
    "relation": [left("left", 0, ENDED - S), left("left", 1, ENDED), left("half", 0, ENDED), left("half", 1, None)],
    "watermark": [
        mark("stored", "h0", -105, "open"), mark("stored", "h0", -99, "ended"), mark("stored", "h1", -100, "ended"),
        mark("half", "h0", -99, "ended"), mark("half", "h1", -99, "open"),
    ],
    "event": [exited("exited", 0), exited("exited", 1), exited("half", 0)],
    "analysis_run": [run(name, -90, job) for name in ("stalls", "slowdowns") for job in JOBS],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("lives"), ROWS) as store:
        yield store


def test_relations_watermarks_and_exits_each_tell_an_end(store: Store) -> None:
    found = {key[2]: life.ended_ns for key, life in lives_of(store, ASKED, NOW - 600 * S).items()}
    assert found == {"left": ENDED, "stored": ENDED, "exited": ENDED, "half": None}


def test_an_ended_job_is_ended_in_the_list_its_page_and_the_diagnosis(store: Store) -> None:
    listed = {one["job"]: (one["state"], one["running"]) for one in jobs_answer(store, ASKED, NOW - 600 * S)["jobs"]}
    assert listed == dict.fromkeys(("left", "stored", "exited"), ("ended", False)) | dict.fromkeys(
        ("half", "quiet"), ("silent", False)
    )
    for job in JOBS[:3]:
        found = diagnosis_answer(store, ASKED, job)
        assert found["state"] == "ok"
        assert found["why"].startswith(f"{job} ended at 2025-06-15T15:05:01Z")
    for job in JOBS[3:]:
        assert "its end was not seen" in diagnosis_answer(store, ASKED, job)["why"]


def test_a_zoom_does_not_change_when_a_job_began_and_ended(store: Store) -> None:
    zoomed = Asked(Principal(), "", NOW - 104 * S)
    found = job_answer(JobRows.of(store, zoomed, "left", NOW - 106 * S), NOW)
    assert found["now"]["since_ns"] == BEGAN
    assert found["run"] == {"from_ns": NOW - 110 * S, "to_ns": ENDED, "state": "ended"}
    quiet = job_answer(JobRows.of(store, zoomed, "quiet", NOW - 106 * S), NOW)
    assert quiet["run"]["state"] == "silent"
