"""Two jobs of one name at once: it is said, and nothing else is said of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import slow_job, stuck_job, symptom, tables, told, window, working
from tests.builders.small_job import JOB, relations, table

from leadline.analysis.symptoms.same_name import comes_up, shared_of
from leadline.analysis.symptoms.slowdowns import slowdowns
from leadline.analysis.symptoms.stalls import stalls

MS = 10**6


def processes(
    second_from_s: float | None, second_to_s: float | None = None, ended_s: float | None = None
) -> list[dict[str, object]]:
    """Rank 0 is a process of h1 (which ended, by the agent's word), and from a time on one of h2 as well."""
    common = {"child": f"rank:{JOB}/0", "kind": "runs-on", "confidence": 1.0}
    begin_ns = T0 - 600 * S
    rows = [{**common, "parent": "process:h1/811", "from_ns": begin_ns, "to_ns": None, "source": "torch-hook"}]
    if ended_s is not None:
        rows.append({**rows[0], "to_ns": T0 + round(ended_s * S), "source": "agent/ranks"})
    if second_from_s is not None:
        to_ns = None if second_to_s is None else T0 + round(second_to_s * S)
        since_ns = T0 + round(second_from_s * S)
        rows.append({**common, "parent": "process:h2/922", "from_ns": since_ns, "to_ns": to_ns, "source": "torch-hook"})
    return [*relations(begin_ns), *rows]


def two_jobs(until_s: float = 12.0, length_s: float = 0.7) -> dict[str, pa.Table]:
    """Thirty steps of one job; then another of its name works as well, in step with nobody."""
    steps, calls = working(-30, 12)
    others, more = working(0.13, until_s, length_s=length_s, number=500, seq=700)
    return tables(steps + others, calls + more, places=processes(-8.0))


@pytest.mark.parametrize("length_s", [0.7, 1.0, 3.1])
def test_it_is_said_and_nothing_else_is(length_s: float) -> None:
    (row,) = told(slowdowns, two_jobs(length_s=length_s), window(12, 2))
    assert (row["symptom"], row["entity"], row["end_ns"]) == ("name-shared", f"job:{JOB}", None)
    assert 0 <= row["start_ns"] - T0 <= S
    assert row["missing"] == "which of the jobs of this name each row is of"
    assert "process:h1/811 and process:h2/922" in row["evidence"][0]["text"]
    assert told(stalls, two_jobs(length_s=length_s), window(12, 2)) == []


def test_it_is_over_when_each_has_its_name_again() -> None:
    steps, calls = working(-30, 50)
    others, more = working(0.13, 12, length_s=0.7, number=500, seq=700)
    given = tables(steps + others, calls + more, symptom=[symptom(0.13, "name-shared")])
    (row,) = told(slowdowns, given, window(50, 2))
    assert row["symptom"] == "name-shared"
    assert 10 <= (row["end_ns"] - T0) / S <= 12.2


def test_a_slowdown_ends_where_nobody_can_say_any_more_whose_it_is() -> None:
    given = {**two_jobs(), "symptom": table("symptom", [symptom(-5.0, "slow")])}
    rows = {row["symptom"]: row for row in told(slowdowns, given, window(12, 2))}
    assert rows["slow"]["end_ns"] == rows["name-shared"]["start_ns"]


def test_steps_of_one_job_whose_clock_was_set_back_are_of_one_job() -> None:
    """Five seconds back: five steps of before and five of after are at the same times."""
    before, _ = working(-30, 0)
    after, _ = working(-4.83, 12, number=30)
    assert shared_of(tables(before + after)["step"], T0 + 12 * S) is None
    other, _ = working(-4.83, 12, number=40)  # a program does not leave out ten numbers
    assert shared_of(tables(before + other)["step"], T0 + 12 * S) is not None
    again, _ = working(-4.83, 12, number=25)  # begun again from its checkpoint, while the first goes on
    assert shared_of(tables(before + again)["step"], T0 + 12 * S) is not None


def test_steps_of_one_job_do_not_overlap() -> None:
    for given in (tables(*working(-30, 12)), slow_job()):
        assert shared_of(given["step"], T0 + 12 * S) is None


def test_a_clock_that_is_set_back_is_no_second_job() -> None:
    steps, _ = working(-10, 0)
    after, _ = working(-0.6, 10, number=10)
    assert shared_of(tables(steps + after)["step"], T0 + 10 * S) is None


def test_a_stall_waits_while_another_job_of_its_name_comes_up() -> None:
    """It has made no step yet, and its first collectives are numbered as those of the other."""
    stuck = stuck_job()
    assert [row["symptom"] for row in told(stalls, stuck, window(12, 2))] == ["stall"]
    for places, expected in (
        (processes(-8.0), []),
        (processes(-80.0), ["stall"]),  # so long ago that its steps would show
        (processes(-8.0, second_to_s=-7.5), ["stall"]),  # gone at once: a program that loads data
        (processes(-8.0, ended_s=-9.0), ["stall"]),  # the first had ended: a restart
    ):
        given = {**stuck, "relation": table("relation", places)}
        assert [row["symptom"] for row in told(stalls, given, window(12, 2))] == expected, places[-1]


def test_a_stall_that_lasts_does_not_end_because_a_second_process_comes_up() -> None:
    """Somebody starts the job again while the old one still stands."""
    stuck = {
        **stuck_job(),
        "relation": table("relation", processes(4.0)),
        "symptom": table("symptom", [symptom(0.3, "stall")]),
    }
    (row,) = told(stalls, stuck, window(12, 2))
    assert (row["symptom"], row["end_ns"]) == ("stall", None)


def test_no_processes_are_no_second_job() -> None:
    assert not comes_up({}, T0)
