"""Ranked causes on small made systems, in which the truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from leadline.analysis.rootcause.question import Question, Span
from leadline.analysis.rootcause.ranking import Ranking, State, ranked_causes
from leadline.analysis.rootcause.readings import Pair, Readings, readings
from leadline.analysis.rootcause.roles import Role
from leadline.model.errors import UnknownNameError, UsageError

NORMAL, JUDGED = 100, 5
CHAIN = [("front", "cart"), ("cart", "db"), ("front", "ads")]
JUDGE = Question(Span(NORMAL, NORMAL + JUDGED))
ASK = Question(JUDGE.judged, symptom="front")


def system(baseline: Mapping[str, float], odd: Mapping[str, float], *, seed: int = 1) -> Readings:
    """Series `metric entity[ to]` that vary by a percent around `baseline`, in the judged intervals around `odd`."""
    chance = np.random.default_rng(seed)
    tables = []
    for name, level in baseline.items():
        metric, entity, *to = name.split()
        value_T = level * chance.normal(1.0, 0.01, NORMAL + JUDGED)
        value_T[NORMAL:] *= odd.get(name, level) / level
        rows = len(value_T)
        tables.append(pa.table({
            "time": np.arange(rows), "entity": pa.array([entity] * rows, pa.string()),
            "to": pa.array([*to, ""][:1] * rows, pa.string()), "metric": pa.array([metric] * rows, pa.string()),
            "value": value_T,
        }))  # fmt: skip
    return readings(pa.concat_tables(tables))


def shop(**odd: float) -> Readings:
    """Latencies of the chain; `odd` by entity."""
    latency = {"front": 0.3, "cart": 0.2, "db": 0.1, "ads": 0.05}
    baseline = {f"latency_s {name}": level for name, level in latency.items()}
    baseline |= {f"requests {name}": 100.0 for name in latency}
    return system(baseline, {f"latency_s {name}": level for name, level in odd.items()})


def names(found: Ranking) -> list[str]:
    return [cause.entity for cause in found.causes]


def test_who_makes_the_others_wait_is_named_with_its_path_and_its_readings() -> None:
    found = ranked_causes(shop(front=0.8, cart=0.7, db=0.6), CHAIN, ASK)
    assert (found.state, found.metric, names(found)[0]) == (State.CRITICAL, "latency_s", "db")
    first = found.causes[0]
    assert first.path == ("front", "cart", "db")
    assert first.share > 0.9
    (witness,) = first.evidence
    assert witness.found == pytest.approx(0.6, rel=0.05)
    assert witness.baseline is not None
    assert 0.1 < witness.baseline < 0.12
    assert (found.judged, found.normal) == (JUDGED, NORMAL)


def test_a_symptom_that_is_as_baseline_is_ok_and_one_of_its_own_is_not_explained() -> None:
    assert ranked_causes(shop(), CHAIN, ASK).state is State.OK
    found = ranked_causes(shop(front=0.8), CHAIN, ASK)
    assert (found.state, found.causes) == (State.WARNING, ())
    assert "no other entity explains" in found.why


def test_the_order_of_rows_and_relations_does_not_matter() -> None:
    odd = shop(front=0.8, cart=0.7, db=0.6)
    assert ranked_causes(odd, CHAIN[::-1] * 2, ASK) == ranked_causes(odd, CHAIN, ASK)


def test_failures_that_rose_go_before_latency_unless_a_metric_is_asked_for() -> None:
    baseline = {f"failed_ratio {name}": 0.001 for name in ("front", "ads")} | {
        f"latency_s {name}": 0.1 for name in ("front", "db")
    }
    odd = {"failed_ratio front": 0.2, "failed_ratio ads": 0.2, "latency_s front": 0.6, "latency_s db": 0.6}
    both = system(baseline, odd)
    pairs = [("front", "ads"), ("front", "db")]
    assert names(ranked_causes(both, pairs, ASK))[0] == "ads"
    asked = Question(JUDGE.judged, symptom="front", metric="latency_s")
    assert names(ranked_causes(both, pairs, asked))[0] == "db"
    only_slow = system(baseline, {name: level for name, level in odd.items() if "latency" in name})
    assert names(ranked_causes(only_slow, pairs, ASK))[0] == "db"


def test_who_was_not_read_is_inferred_from_its_caller() -> None:
    latency = {"latency_s front": 0.3, "latency_s cart": 0.2}
    found = ranked_causes(system(latency, {"latency_s front": 0.8, "latency_s cart": 0.7}), CHAIN[:2], ASK)
    assert names(found) == ["cart", "db"]
    assert [cause.inferred for cause in found.causes] == [False, True]
    assert found.missing == ("db",)


def test_without_a_symptom_eaten_resources_and_slow_ways_speak_against_an_entity() -> None:
    baseline = {"cpu_use_ratio cart": 0.2, "cpu_use_ratio db": 0.9}
    baseline |= {f"{side}_latency_s {a} {b}": 0.1 for a, b in CHAIN for side in ("caller", "callee")}
    busy = ranked_causes(system(baseline, {"cpu_use_ratio cart": 0.95}), CHAIN, JUDGE)
    assert names(busy)[0] == "cart"
    (witness,) = [each for each in busy.causes[0].evidence if each.what == "cpu_use_ratio"]
    assert witness.found == pytest.approx(0.95, rel=0.05)
    slow_way = ranked_causes(system(baseline, {"caller_latency_s front ads": 0.5}), CHAIN, JUDGE)
    assert names(slow_way)[0] == "ads"
    assert slow_way.causes[0].evidence[0].what == "the way to it"
    slow = ranked_causes(
        system(baseline, {"caller_latency_s front ads": 0.5, "callee_latency_s front ads": 0.5}), CHAIN, JUDGE
    )
    assert (names(slow)[0], slow.causes[0].evidence[0].what) == ("ads", "its own time")


def test_without_a_symptom_a_callee_excuses_its_caller() -> None:
    found = ranked_causes(shop(front=0.8, cart=0.7, db=0.6), CHAIN, JUDGE)
    assert names(found)[0] == "db"
    alone = ranked_causes(shop(front=0.8, cart=0.7, db=0.6), [], JUDGE)
    assert {"front", "cart", "db"} <= set(names(alone)), "without relations nobody is excused"


def test_quiet_days_name_nobody() -> None:
    found = ranked_causes(system({"cpu_use_ratio a": 0.5, "latency_s a": 0.1}, {}), [], JUDGE)
    assert (found.state, found.causes) == (State.OK, ())


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (Question(Span(1000, 1010)), "nothing was read in the time that is judged"),
        (Question(JUDGE.judged, (Span(0, 5),)), "5 intervals of normal operation were read; 8 are the least"),
    ],
)
def test_too_little_is_unknown(question: Question, why: str) -> None:
    found = ranked_causes(shop(), CHAIN, question)
    assert found.state is State.UNKNOWN
    assert why in found.why


def test_a_symptom_that_was_not_read_is_unknown() -> None:
    whole = shop(front=0.8)
    at = next(place for place, each in enumerate(whole.series) if each.metric == "latency_s" and each.entity == "front")
    whole.value_TS[NORMAL:, at] = np.nan
    found = ranked_causes(whole, CHAIN, ASK)
    assert (found.state, found.why) == (State.UNKNOWN, "latency_s of front was not read in that time")


@pytest.mark.parametrize(
    ("question", "error", "match"),
    [
        (Question(JUDGE.judged, symptom="frnt"), UnknownNameError, "of 'frnt'; did you mean front"),
        (Question(JUDGE.judged, symptom="front", metric="p99"), UsageError, "front has none called p99"),
        (Question(JUDGE.judged, symptom="front", roles={"p99": Role.USE}), UsageError, "no metric is called 'p99'"),
    ],
)
def test_what_cannot_be_asked_says_what_there_is(question: Question, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        ranked_causes(shop(), CHAIN, question)


def test_metrics_without_a_role_are_told_and_not_used() -> None:
    odd = system({"latency_s a": 0.1, "colour a": 3.0}, {"colour a": 900.0})
    found = ranked_causes(odd, [], JUDGE)
    assert (found.state, found.unused) == (State.OK, ("colour",))
    with pytest.raises(UsageError, match=r"without a symptom a metric is needed .*; there are colour"):
        ranked_causes(system({"colour a": 3.0}, {}), [], JUDGE)


def test_relations_of_oneself_and_cycles_are_no_trouble() -> None:
    pairs: Sequence[Pair] = [*CHAIN, ("db", "db"), ("db", "front"), ("elsewhere", "nowhere")]
    found = ranked_causes(shop(front=0.8, cart=0.7, db=0.6), pairs, ASK)
    assert names(found)[0] == "db"
