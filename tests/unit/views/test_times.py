"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leadline.model.errors import UsageError
from leadline.views.rows import parse_time

NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("14:02", "2026-11-20T14:02:00"), ("14:30:00", "2026-11-20T14:30:00"),
        ("14:31", "2026-11-19T14:31:00"),  # has not been today
        ("today", "2026-11-20T00:00:00"), ("yesterday", "2026-11-19T00:00:00"), ("-15m", "2026-11-20T14:15:00"),
        ("2026-11-20T14:02Z", "2026-11-20T14:02:00"), (str(NOW_NS), "2026-11-20T14:30:00"),
    ],
)  # fmt: skip
def test_a_time_is_what_it_says(text: str, iso: str) -> None:
    assert datetime.fromtimestamp(parse_time(text, NOW_NS) / 1e9, UTC).replace(tzinfo=None).isoformat() == iso


@pytest.mark.parametrize("text", ["noon", "25:00", "14:2", "tomorrow", "", "-15x"])
def test_what_is_no_time_is_told_what_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"14:02, today, yesterday, or -15m .*got "):
        parse_time(text, NOW_NS)
