"""The class of a cause from its incidents before: hours and days of them, judged one after the other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.builders.causes import (
    RING,
    WINDOW,
    Row,
    anomaly,
    at,
    blame,
    case,
    event,
    flows,
    host_link,
    relations,
    symptom,
    told,
)
from tests.builders.failures import rows_of

from leadline.analysis.cause.cause import cause
from leadline.model.tables.verdicts import CAUSE
from leadline.runner.judging import Judging

S = 10**9
HOUR_NS, DAY_NS = 3600 * S, 86_400 * S
THROTTLED = "container_cpu_cfs_throttled_seconds_total"
LATE = blame("rank:bert-1/2", "straggler")
EDGE = blame("rank:bert-1/1>rank:bert-1/2", "communication")


def earlier(days: float, entity: str, rule: str, **more: Any) -> Row:
    """What an incident some days ago was told as."""
    start_ns = WINDOW.to_ns - round(days * DAY_NS)
    told: Row = {"tenant": "ana", "incident": f"bert-1-slow-{days}", "position": 1, "entity": entity, "rule": rule}
    times = {"start_ns": start_ns, "seen_ns": start_ns + 90 * S}
    told |= {"layer": "host", "class": "unknown", "action": "none", "action_cost": 0.0, "saves": 0.0}
    told |= {"waiting_cost": 0.0, "text": ""}
    return {**told, **times, "chosen": True, "probability": 0.9, "score": "{}", "evidence": "[]", **more}


def class_of_throttled(*history: Row, end_s: float | None = -5) -> str:
    """The class of a host that was throttled until just now."""
    item = case(symptom=[symptom(LATE, end_s=end_s)], anomaly=[anomaly("host:h3", THROTTLED)], cause=history)
    return next(str(row["class"]) for row in told(item)[1] if row["chosen"])


def throttled(days: float, **more: Any) -> Row:
    """The same host was throttled some days ago."""
    return earlier(days, "host:h3", "cpu-throttled", **more)


def test_the_third_time_within_days_is_gray() -> None:
    assert class_of_throttled(throttled(9), throttled(2)) == "gray"
    assert class_of_throttled(throttled(0.2), throttled(0.1)) == "gray"


def test_the_second_time_came_and_went_and_may_do_so_again() -> None:
    assert class_of_throttled(throttled(2)) == "transient"
    assert class_of_throttled(throttled(2), end_s=None) == "unknown", "it lasts: nobody knows whether it goes"


@pytest.mark.parametrize(
    "history",
    [
        (),
        (throttled(9, chosen=False), throttled(2, chosen=False)),  # was considered, and not named
        (earlier(9, "host:h3", "memory-pressure"), earlier(2, "host:h3", "memory-pressure")),  # by something else
        (earlier(9, "host:h4", "cpu-throttled"), earlier(2, "host:h4", "cpu-throttled")),  # of another
    ],
)
def test_without_a_history_of_its_own_the_class_is_unknown(history: tuple[Row, ...]) -> None:
    assert class_of_throttled(*history) == "unknown"


@pytest.mark.parametrize(("times", "wanted"), [(2, "persistent"), (1, "transient"), (0, "unknown")])
def test_a_link_that_its_port_was_named_for_is_the_same_link(times: int, wanted: str) -> None:
    paths, volumes = flows(RING)
    before = [earlier(days, "port:h3/eth0", "link-down") for days in (5, 3)[:times]]
    down = [event("port:h3/eth0", "link-down")]
    item = case(symptom=[symptom(EDGE, end_s=-5)], event=down, flow_path=paths, flow_volume=volumes, cause=before)
    chosen = [row for row in told(item)[1] if row["chosen"]]
    assert [(row["entity"], row["class"]) for row in chosen] == [(host_link(3), wanted)]


def classes_over(starts_h: tuple[float, ...]) -> list[str]:
    """The class that each incident of a throttled host ended with; each lasts 10 s, and knows those before it."""
    told: dict[str, pa.Table] = {}
    found = []
    for hours in starts_h:
        start_s = hours * 3600
        seen = {"seen_ns": at(start_s + 11)}
        hurt = {**symptom(LATE, start_s=start_s, end_s=start_s + 10), **seen}
        odd = {**anomaly("host:h3", THROTTLED, start_s=start_s - 1, end_s=start_s + 10), **seen}
        judging = Judging([cause], at(start_s - 2), provider="provider")
        judging.add({"symptom": rows_of("symptom", [hurt]), "anomaly": rows_of("anomaly", [odd])})
        judging.add({"relation": relations(), **told})
        judging.until(at(start_s + 12), ended=True)
        for name, rows in judging.told().items():
            told[name] = pa.concat_tables([told[name], rows]).unify_dictionaries() if name in told else rows
        found += [str(row["class"]) for row in judging.told()[CAUSE.name].to_pylist() if row["chosen"]]
    return found


def test_incidents_of_earlier_hours_count() -> None:
    assert classes_over((0.1, 4, 30, 60)) == ["unknown", "transient", "gray", "gray"]


def test_what_comes_back_within_minutes_is_not_said_to_have_gone() -> None:
    assert classes_over((0.1, 0.2)) == ["unknown", "unknown"]


def test_what_is_older_than_the_history_does_not_count() -> None:
    assert classes_over((0.1, 40 * 24, 41 * 24))[-1] == "transient"
