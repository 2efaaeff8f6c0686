"""Every form in which people write a moment; what is none is answered with the forms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leadline.model.errors import UsageError
from leadline.views.times import parse_time


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


NOW = at("2026-11-27T14:30:00")  # a Friday


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:02", "2026-11-27T14:02"),
        ("9:05:30", "2026-11-27T09:05:30"),
        ("23:50", "2026-11-26T23:50"),  # not yet today: the last one that was
        ("today 23:50", "2026-11-27T23:50"),
        ("yesterday 14:02", "2026-11-26T14:02"),
        ("today", "2026-11-27T00:00"),
        ("yesterday", "2026-11-26T00:00"),
        ("now", "2026-11-27T14:30"),
        ("-15m", "2026-11-27T14:15"),
        ("-1.5h", "2026-11-27T13:00"),
        ("now-6h", "2026-11-27T08:30"),
        ("now-1d+2h", "2026-11-26T16:30"),
        ("now-1d/d", "2026-11-26T00:00"),
        ("now/h", "2026-11-27T14:00"),
        ("now/w", "2026-11-23T00:00"),
        ("2026-11-20T14:02:05", "2026-11-20T14:02:05"),
        ("2026-11-20T14:02:05+01:00", "2026-11-20T13:02:05"),
        ("2026-11-20", "2026-11-20T00:00"),
        ("1795206200000000000", "2026-11-20T20:23:20"),
    ],
)
def test_a_moment_in_every_form(text: str, moment: str) -> None:
    assert parse_time(text, NOW) == at(moment)
    assert parse_time(f" {text} ", NOW) == at(moment)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("yesterday", "2026-11-27T00:00"),
        ("now-1d/d", "2026-11-27T00:00"),
        ("now-1w/w", "2026-11-23T00:00"),
        ("today", "2026-11-27T14:30"),  # not over: now
        ("now-6h", "2026-11-27T08:30"),
        ("14:02", "2026-11-27T14:02"),
    ],
)
def test_as_an_end_a_whole_day_is_included(text: str, moment: str) -> None:
    assert parse_time(text, NOW, end=True) == at(moment)


@pytest.mark.parametrize(
    "text",
    ["bogus", "", "25:00", "14:99", "now-", "now-6", "now/x", "-6y", "2026-13-01", "9" * 40, "-" + "9" * 400 + "d"],
)
def test_what_is_no_moment_is_answered_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"14:02.*today.*now-6h.*now-1d/d.*ISO 8601"):
        parse_time(text, NOW)
