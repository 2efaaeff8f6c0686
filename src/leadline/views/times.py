"""A moment as people write it: the same forms in the API, on the command line and on the page (web/src/lib/moment.ts).

14:02   today   yesterday 14:02   -15m   now-6h   now-1d/d   2026-11-20T14:02:05+01:00   1795206200000000000
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from leadline.model.errors import UsageError

FORMS = (
    "14:02 (the last one that was, UTC), today, yesterday, yesterday 14:02, -15m (before now: s, m, h, d, w), now-6h, "
    "now-1d/d (that whole day), an ISO 8601 date and time (UTC if it says no zone; a + in it written %2B in a URL), "
    "or ns since 1970"
)
SHORT_FORMS = "14:02, today, yesterday, -15m, now-6h, now-1d/d, ISO 8601 or ns"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_S, _DAY, _MONDAY = 10**9, 86_400, 4 * 86_400  # 1970-01-01 was a Thursday: weeks begin on the fifth
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+-])(\d{1,12}(?:\.\d+)?)([smhdw])")
_NOW = re.compile(r"now((?:[+-]\d{1,12}(?:\.\d+)?[smhdw])*)(?:/([smhdw]))?")
_BEFORE = re.compile(r"-\d{1,12}(?:\.\d+)?[smhdw]")
_CLOCK = re.compile(r"(?:(today|yesterday)[ T]?)?(\d{1,2}):(\d{2})(?::(\d{2}))?")
_NS = re.compile(r"-?\d{1,19}")
_DAYS = {"today": "now/d", "yesterday": "now-1d/d"}


def parse_time(text: str, now_ns: int, *, end: bool = False) -> int:
    """A time as ns since 1970, from any of FORMS; `now-1d/d` and `yesterday` are a day's begin, as `end` its end.

    The end of a day (hour, week) that is not over is now. Errors: UsageError that lists the forms.
    """
    found = _parsed(_DAYS.get(text.strip(), text.strip()), now_ns, end)
    if found is None or not -(2**63) <= found < 2**63:
        raise UsageError(f"got {text[:100]!r}; a time is {FORMS}")
    return found


def _parsed(text: str, now_ns: int, end: bool) -> int | None:
    if _NS.fullmatch(text):
        return int(text)
    if _BEFORE.fullmatch(text):
        return now_ns + _offsets(text)
    if match := _NOW.fullmatch(text):
        return _rounded(now_ns + _offsets(match[1]), match[2], end, now_ns)
    if match := _CLOCK.fullmatch(text):
        return _of_day(match[1], int(match[2]), int(match[3]), int(match[4] or 0), now_ns)
    return _iso(text)


def _offsets(text: str) -> int:
    """`-1d+2h` as ns."""
    return sum(int(float(number) * _UNITS[unit] * 1e9) * (-1 if sign == "-" else 1)
               for sign, number, unit in _OFFSET.findall(text))  # fmt: skip


def _rounded(time_ns: int, unit: str | None, end: bool, now_ns: int) -> int:
    """To the begin of its day (or other unit), or to the end of that, but not past now."""
    if not unit:
        return time_ns
    size_ns = _UNITS[unit] * _S
    first_ns = _MONDAY * _S if unit == "w" else 0
    begin_ns = time_ns - (time_ns - first_ns) % size_ns
    return min(begin_ns + size_ns, max(now_ns, begin_ns)) if end else begin_ns


def _of_day(day: str | None, hour: int, minute: int, second: int, now_ns: int) -> int | None:
    """A time of day: of the day that is named, else the last one that was. None: there is no such time of day."""
    if hour > 23 or minute > 59 or second > 59:
        return None
    midnight_ns = now_ns - now_ns % (_DAY * _S)
    time_ns = midnight_ns + (hour * 3600 + minute * 60 + second) * _S
    earlier = day == "yesterday" or (day is None and time_ns > now_ns)
    return time_ns - _DAY * _S if earlier else time_ns


def _iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        since_1970: timedelta = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        return None
    return (since_1970.days * _DAY + since_1970.seconds) * _S + since_1970.microseconds * 1000
