"""Laws of what is promised: seconds are dealt out whole, classifiers add up, hours are sums, YAML is read back."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.expectation_hours import HOUR, loss, minute
from tests.builders.expectations import MINUTE, Said, gpus, hot_gpu, promise, tables
from tests.builders.small_job import table
from tests.common.analysis_laws import judged, rows_of

from leadline.analysis.sle import expectations as words
from leadline.analysis.sle.expectations import Bound, Expectation, Indicator, Source, Threshold, parse, to_text
from leadline.analysis.sle.hours import sle_hours
from leadline.analysis.sle.sle import sles
from leadline.model.accounts import Layer

METRICS = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL")
quick = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def without_what_it_cannot_have(limit: Threshold) -> Threshold:
    """Absolute thresholds have a value only, and only peers a group."""
    if limit.kind == "absolute":
        return Threshold(limit.side, limit.kind, limit.value)
    group = limit.group if limit.kind == "peers" else "kind"
    return Threshold(limit.side, limit.kind, limit.value, limit.mads, limit.least, group)


values = st.one_of(st.none(), st.sampled_from([0.0, 60.0, 95.0, float("nan"), float("inf")]), st.floats(-1e6, 1e6))
thresholds = st.builds(
    Threshold,
    st.sampled_from(["above", "below"]),
    st.sampled_from(["absolute", "past", "peers"]),
    st.floats(0, 200),
    st.booleans(),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from(words.GROUPS),
).map(without_what_it_cannot_have)
indicators = st.builds(
    Indicator,
    st.just(Source.METRIC),
    st.sampled_from(METRICS).map(lambda name: (name,)),
    how=st.sampled_from(["value", "rate", "change", "age"]),
    combine=st.sampled_from(words.COMBINE),
)
tests_ = st.builds(words.Test, indicators, thresholds)
bounds = st.builds(
    Bound, tests_, for_s=st.sampled_from([0.0, 1.0, 7.0, 30.0]), when=st.lists(tests_, max_size=1).map(tuple)
)


@st.composite
def promised(draw: st.DrawFn) -> Expectation:
    """An expectation of GPUs or their hosts."""
    found = draw(st.lists(bounds, min_size=1, max_size=4))
    named = [Bound(each.test, each.for_s, each.when, f"bound {place}") for place, each in enumerate(found)]
    return Expectation("x", Layer.GPU, draw(st.sampled_from(["gpu", "host"])), tuple(named), 0.9, 20.0)


@st.composite
def readings(draw: st.DrawFn) -> list[Said]:
    """Series of four GPUs whose values change, stop and come back as they like."""
    said = []
    for each in [one for metric in METRICS for one in gpus(metric)]:
        turns = dict(draw(st.lists(st.tuples(st.integers(-40, 59), values), max_size=4)))
        start = draw(values)

        def value(at: int, turns: dict[int, float | None] = turns, start: float | None = start) -> float | None:
            last = max((turn for turn in turns if turn <= at), default=None)
            return start if last is None else turns[last]

        said.append(Said(each.name, each.entity, value, host=each.host, every_s=draw(st.sampled_from([1, 5, 15]))))
    return said


def number(value: str) -> float:
    return float.fromhex(value)


def assert_adds_up(found: dict[str, list[dict[str, Any]]], seconds: int) -> None:
    """The classifiers of each entity add up to its bad seconds, and all seconds to those in which it was there."""
    lost: dict[tuple[str, str], float] = defaultdict(float)
    for row in found.get("sle_loss", []):
        lost[row["expectation"], row["entity"]] += number(row["seconds"])
        assert number(row["seconds"]) > 0
    for row in found.get("sle", []):
        good, bad, missing = (number(row[name]) for name in ("good_s", "bad_s", "missing_s"))
        assert lost.pop((row["expectation"], row["entity"]), 0.0) == bad
        assert 0 < good + bad + missing <= seconds
        assert all(part == int(part) >= 0 for part in (good, bad, missing))
        assert (row["why_missing"] is not None) == (missing > 0)
    assert not lost


@quick
@given(one=promised(), said=readings())
def test_classifiers_add_up_to_the_loss_exactly(one: Expectation, said: list[Said]) -> None:
    rows = tables(said, expectation=[promise(to_text(one))])
    assert_adds_up(rows_of(sles, judged(sles, rows, MINUTE), MINUTE), 60)


def test_those_of_the_defaults_add_up_too() -> None:
    found = rows_of(sles, judged(sles, hot_gpu(), MINUTE), MINUTE)
    assert len(found["sle_loss"]) >= 2
    assert_adds_up(found, 60)


@quick
@given(one=promised())
def test_an_expectation_is_read_back_as_it_was_written(one: Expectation) -> None:
    assert parse(to_text(one), "x") == (one,)


@quick
@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(["gpu:GPU-0", "gpu:GPU-1"]), st.integers(1, 59), st.integers(0, 20), st.integers(0, 40)
        ),
        max_size=30,
        unique_by=lambda part: part[:2],
    )
)
def test_hours_add_up_as_their_minutes_do(parts: list[tuple[str, int, int, int]]) -> None:
    held = [minute(who, 60 * end, 60 - bad - missing, bad, missing, why_missing="x" if missing else None)
            for who, end, bad, missing in parts]  # fmt: skip
    lost = [loss(who, 60 * end, float(bad)) for who, end, bad, _ in parts if bad]
    rows = {"sle": table("sle", held), "sle_loss": table("sle_loss", lost)}
    found = rows_of(sle_hours, judged(sle_hours, rows, HOUR), HOUR)
    assert_adds_up(found, 3600)
    for row in found.get("sle", []):
        assert number(row["bad_s"]) == sum(bad for who, _, bad, _ in parts if who == row["entity"])
        assert number(row["good_s"]) == sum(60 - bad - gone for who, _, bad, gone in parts if who == row["entity"])
