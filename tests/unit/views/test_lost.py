"""One number for what was lost: laws over any claims and ledgers, and over the shipped recordings in every view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.lost.recorded import NAMES, recorded
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.cli.top import rows as top_rows
from leadline.model.principal import Principal, Role
from leadline.model.units import gpu_time
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.diagnosis import diagnosis_answer
from leadline.views.incidents.view import Incidents, incidents_answer
from leadline.views.jobs.view import jobs_answer
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.view import ledger_answer
from leadline.views.lost import Claim, Judged, Loss, claims_of, judged_of, losses, losses_of
from leadline.views.now import now_answer

S = 10**9
JOB = ("acme", "default", "a")
NEAR = 1e-6  # GPU-s: sums of floats


def claim(name: str, from_s: float, to_s: float, gpu_s: float) -> Claim:
    return Claim(("acme", "default", name), JOB, round(from_s * S), round(to_s * S), gpu_s)


def windows(*lost: float | None, known: bool = True) -> dict[tuple[str, str, str], Judged]:
    """Windows of 10 s from 0; None: nobody judged it."""
    some = [(10 * (place + 1) * S, amount) for place, amount in enumerate(lost) if amount is not None]
    return {JOB: Judged([end for end, _ in some], 10 * S, [amount for _, amount in some], [known] * len(some))}


def told(found: Mapping[Any, Loss]) -> dict[str, tuple[float, float]]:
    return {key[2]: (round(loss.gpu_seconds, 6), round(loss.estimated, 6)) for key, loss in found.items()}


@pytest.mark.parametrize(
    ("claims", "ledger", "lost"),
    [
        ([claim("x", 0, 20, 100)], windows(30, 40), {"x": (70, 0)}),  # no more than the ledger says
        ([claim("x", 0, 20, 50)], windows(30, 40), {"x": (50, 0)}),  # ... nor than it explains
        ([claim("x", 0, 20, 100)], {}, {"x": (100, 100)}),  # nothing judged
        ([claim("x", 0, 40, 100)], windows(30, 40), {"x": (100, 50)}),  # behind: so far, estimated
        ([claim("x", 0, 30, 90)], windows(30, None, 30), {"x": (90, 30)}),
        ([claim("x", 0, 20, 100)], windows(0, 0, known=False), {"x": (100, 100)}),  # the ledger does not know
        ([claim("x", 0, 10, 60), claim("y", 0, 10, 30)], windows(60), {"x": (40, 0), "y": (20, 0)}),  # shared
        ([claim("x", 0, 10, 60), claim("y", 0, 10, 30)], {}, {"x": (40, 40), "y": (20, 20)}),
        ([claim("x", 0, 6, 60), claim("y", 6, 10, 40)], windows(90), {"x": (54, 0), "y": (36, 0)}),
        ([claim("x", 5, 5, 60)], windows(90), {}),
    ],
)
def test_an_incident_lost_what_the_ledger_says_and_no_more_than_it_explains(
    claims: list[Claim], ledger: dict[Any, Judged], lost: dict[str, tuple[float, float]]
) -> None:
    assert told(losses(claims, ledger).whole) == lost


def test_of_a_span_only_the_windows_that_end_in_it_count() -> None:
    found = losses([claim("x", 0, 40, 100)], windows(20, 30, 25), (10 * S, 35 * S))
    assert told(found.within) == {"x": (30 + 25 + 12.5, 12.5)}
    assert found.jobs == {JOB: 12.5}


amounts = st.floats(0, 1e6, allow_nan=False)
times = st.integers(0, 120)


@given(
    st.lists(st.tuples(times, times, amounts), max_size=6), st.lists(st.one_of(st.none(), amounts), max_size=12),
    st.booleans(), times, times,
)  # fmt: skip
def test_incidents_never_lose_more_than_all_did(
    spans: list[tuple[int, int, float]], lost: list[float | None], known: bool, one: int, other: int
) -> None:
    claims = [claim(str(place), *each) for place, each in enumerate(spans)]
    ledger, span = windows(*lost, known=known), (min(one, other) * S, max(one, other) * S)
    found = losses(claims, ledger, span)
    ends = zip(ledger[JOB].end_W, ledger[JOB].lost_W, strict=True)
    all_within = sum(each for end, each in ends if span[0] < end <= span[1]) + found.jobs.get(JOB, 0.0)
    slack = NEAR + 1e-9 * sum(each[2] for each in spans)
    assert sum(each.gpu_seconds for each in found.within.values()) <= all_within + slack
    all_time = sum(ledger[JOB].lost_W) + sum(each.estimated for each in found.whole.values())
    assert sum(each.gpu_seconds for each in found.whole.values()) <= all_time + slack
    for key, loss in found.whole.items():
        assert -slack <= found.within[key].gpu_seconds <= loss.gpu_seconds + slack
        assert 0 <= loss.estimated <= loss.gpu_seconds + slack
        assert loss.gpu_seconds <= spans[int(key[2])][2] + slack


def test_a_loss_of_several_jobs_is_claimed_of_each_by_its_symptoms() -> None:
    row = {
        "tenant": "acme",
        "cluster": "default",
        "incident": "x",
        "job": "a",
        "jobs": ["a", "b", "c"],
        "start_ns": 0,
        "end_ns": None,
        "seen_ns": 9,
        "lost_gpu_seconds": 40.0,
        "symptoms": '[{"entity": "job:a", "lost_gpu_seconds": 30}, {"entity": "job:b", "lost_gpu_seconds": 10}]',
    }
    assert {each.job[2]: each.gpu_seconds for each in claims_of([row])} == {"a": 30.0, "b": 10.0, "c": 0.0}
    assert [each.gpu_seconds for each in claims_of([{**row, "symptoms": "no JSON", "jobs": []}])] == [40.0]


# --- the shipped recordings, one tenant each ------------------------------------------------------------------------

END_NS = {name: max(row["end_ns"] for row in rows["ledger"]) for name, rows in recorded().items()}
VERDICT = {"version": 1, "revision": 0, "cluster": "default"}


def rows_of(behind_s: float = 0.0) -> dict[str, list[dict[str, Any]]]:
    """Rows of all recordings; of the ledger only what it had judged by then."""
    found: dict[str, list[dict[str, Any]]] = {"ledger": [], "incident": []}
    for name, rows in recorded().items():
        for table, analysis in (("ledger", "ledger"), ("incident", "cause")):
            found[table] += [
                row(table, **{**each, **VERDICT, "analysis": analysis, "tenant": name})
                for each in rows[table]
                if table == "incident" or each["end_ns"] <= END_NS[name] - round(behind_s * S)
            ]
    return found


@pytest.fixture(scope="module", params=[0.0, 30.0], ids=["judged", "behind"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, float]]:
    with filled(tmp_path_factory.mktemp("lost"), rows_of(request.param)) as store:
        yield store, request.param


def asked(name: str) -> Asked:
    return Asked(Principal(name, "default", Role.TENANT_READ), "", END_NS[name], latest=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_view_tells_the_same(store: tuple[Store, float], name: str) -> None:
    rows, behind_s = store
    question = asked(name)
    now = now_answer(rows, question, END_NS[name] - 3600 * S, LedgerConfig(), [])
    (job,) = jobs_answer(rows, question)["jobs"]
    ledger = ledger_answer(rows, question, "bert-1")
    listed = {each["incident"]: each for each in incidents_answer(rows, question)["incidents"]}

    owners = sum(each["lost_gpu_seconds"] for each in ledger["owners"])
    judged = ledger["total"]["lost_gpu_seconds"]
    assert owners == pytest.approx(judged, abs=1e-6)
    assert ledger["estimated_gpu_seconds"] == pytest.approx(job["estimated_gpu_seconds"], abs=1e-6)
    assert job["lost_gpu_seconds"] == pytest.approx(judged + ledger["estimated_gpu_seconds"], abs=1e-3)
    assert now["lost_gpu_seconds"] == pytest.approx(job["lost_gpu_seconds"], abs=1e-3)
    assert top_rows.head(now)[1].startswith(gpu_time(job["lost_gpu_seconds"]))

    assert now["lost_gpu_seconds"] >= sum(each["lost_within_gpu_seconds"] for each in now["incidents"]) - NEAR
    assert now["lost_gpu_seconds"] >= sum(each["lost_gpu_seconds"] for each in listed.values()) - NEAR
    for one in now["incidents"]:
        same = [listed[one["incident"]], diagnosis_answer(rows, question, one["incident"])["incidents"][0],
                incident_json(Incidents(rows, question).named(one["incident"])[0])]  # fmt: skip
        for each in same:
            assert each["lost_gpu_seconds"] == pytest.approx(one["lost_gpu_seconds"])
            whole = sum(symptom["lost_gpu_seconds"] for symptom in each["symptoms"])
            assert whole == pytest.approx(one["lost_gpu_seconds"])
    if not behind_s:
        assert job["estimated_gpu_seconds"] == 0
        assert all(each["estimated_gpu_seconds"] == 0 for each in listed.values())


@pytest.mark.parametrize("name", ["neighbour-congestion", "oom-kill"])
def test_what_the_ledger_has_not_judged_is_estimated_until_it_has(store: tuple[Store, float], name: str) -> None:
    rows, behind_s = store
    (loss,) = losses_of(rows, asked(name)).whole.values()
    whole = losses(claims_of(_told(name, "incident")), judged_of(_told(name, "ledger")))
    (judged,) = whole.whole.values()
    assert (loss.estimated > 0) == bool(behind_s)
    if not behind_s:
        assert loss.gpu_seconds == pytest.approx(judged.gpu_seconds)
    assert loss.gpu_seconds == pytest.approx(judged.gpu_seconds, rel=0.15)


def _told(name: str, table: str) -> list[dict[str, Any]]:
    return [{"tenant": name, "cluster": "default", **each} for each in recorded()[name][table]]


def test_a_tenant_is_not_told_what_others_lost(store: tuple[Store, float]) -> None:
    rows, _ = store
    assert (
        losses_of(rows, replace(asked("demo"), principal=Principal("nobody", "default", Role.TENANT_READ))).whole == {}
    )
