"""Times of HTTP requests: by which names they are counted, when the clock stops, what bounds them. HEAD as GET."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.server.connections.front import front
from leadline.server.metrics import http
from leadline.server.metrics.http import BUCKETS_S, HttpTimes


class Ticking:
    """A clock that an application moves."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def asked(times: HttpTimes, path: str, method: str = "GET", *, route: str = "", status: int = 200, took_s: float = 0.0,
          after_s: float = 0.0, fails: bool = False, behind: Any = None) -> list[dict[str, Any]]:  # fmt: skip
    """One request to an application that answers after `took_s` and goes on for `after_s`."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if route:
            scope["route"] = SimpleNamespace(path=route)
        times._clock_s.s += took_s  # type: ignore[attr-defined]
        if fails:
            raise RuntimeError("a mistake")
        await send({"type": "http.response.start", "status": status, "method": scope["method"]})
        times._clock_s.s += after_s  # type: ignore[attr-defined]
        await send({"type": "http.response.body"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path}
    asyncio.run((behind or times.around)(app)(scope, None, send))
    return sent


def counted(times: HttpTimes) -> dict[tuple[str, str, str], tuple[float, float]]:
    """How many and how long in all, by route, method and class."""
    (family,) = times.families()
    found: dict[tuple[str, str, str], list[float]] = {}
    for sample in family.samples:
        key = sample.labels["route"], sample.labels["method"], sample.labels["status"]
        if sample.name.endswith(("_count", "_sum")):
            found.setdefault(key, [0.0, 0.0])[sample.name.endswith("_sum")] = sample.value
    return {key: (count, total) for key, (count, total) in found.items()}


@pytest.mark.parametrize(
    ("path", "route", "name"),
    [
        ("/api/v1/jobs/bert-7/steps", "/api/v1/jobs/{job:path}/steps", "/api/v1/jobs/{job:path}/steps"),
        ("/api/v1/rows/event", "", "/api/v1/rows/{table}"),
        ("/api/v1/write", "", "/api/v1/write"),
        ("/page/index-CsW4.js", "", "/page/{file}"),
        ("/wp-admin.php", "", "other"),
    ],
)
def test_requests_are_counted_by_their_route(path: str, route: str, name: str) -> None:
    times = HttpTimes(Ticking())
    asked(times, path, route=route, took_s=0.2)
    assert counted(times) == {(name, "GET", "2xx"): (1, pytest.approx(0.2))}


def test_the_time_ends_where_the_answer_begins() -> None:
    times = HttpTimes(Ticking())
    asked(times, "/api/v1/changes", route="/api/v1/changes", took_s=0.03, after_s=3600.0)
    assert counted(times) == {("/api/v1/changes", "GET", "2xx"): (1, pytest.approx(0.03))}


def test_buckets_are_upper_bounds_that_add_up() -> None:
    times = HttpTimes(Ticking())
    for took_s in (0.0, BUCKETS_S[0], 0.02, 99.0):
        asked(times, "/", route="/", took_s=took_s)
    (family,) = times.families()
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
    assert buckets["0.005"] == pytest.approx(2, abs=1)  # 100.005 - 100 is not 0.005 to the last bit
    assert (buckets["0.025"], buckets["10.0"], buckets["+Inf"]) == (3, 3, 4)


def test_an_error_without_an_answer_counts_as_one_of_the_server() -> None:
    times = HttpTimes(Ticking())
    with pytest.raises(RuntimeError):
        asked(times, "/", route="/", fails=True)
    assert list(counted(times)) == [("/", "GET", "5xx")]


def test_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SERIES_MAX", 2)
    times = HttpTimes(Ticking())
    for place in range(5):
        asked(times, f"/{place}", f"X{place}" if place == 4 else "GET", route=f"/{place}", status=404)
    assert counted(times).keys() == {("/0", "GET", "4xx"), ("/1", "GET", "4xx"), ("other", "other", "4xx")}
    assert counted(times)["other", "other", "4xx"][0] == 3


@pytest.mark.parametrize(("path", "method"), [("/", "GET"), ("/health", "GET"), ("/api/v1/changes", "HEAD")])
def test_head_is_answered_as_get_outside_of_the_api(path: str, method: str) -> None:
    times = HttpTimes(Ticking())
    sent = asked(times, path, "HEAD", behind=lambda app: front(app, times))
    assert sent[0]["method"] == method
