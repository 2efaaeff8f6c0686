"""How long HTTP requests wait for their answers: by route template, method and class of status.

Measured outside of everything else, so that what compression, the gate and the queue of threads cost is in it. The end
is the beginning of the answer: a page that follows `/api/v1/changes` reads its answer for hours.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any

from prometheus_client.core import Metric

from leadline.ingest.http import IngestApp
from leadline.server.metrics.catalogue import METRICS

App = Callable[[Any, Any, Any], Awaitable[None]]

# Upper bounds, s: remote-write and /health at the low end, the page's views between 0.01 and 1, then what people wait
# for. 10 s is Prometheus' default time-out of a scrape.
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SERIES_MAX = (
    200  # of (route, method, class), 14 lines each: 70 routes, most with one method and two classes. More: `other`
)
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
OTHER = "other"
Key = tuple[str, str, str]


class HttpTimes:
    """Collects times on one event loop; `families` may be read from any thread."""

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._counts: dict[Key, list[int]] = {}  # how many fell into each bucket, the last beyond all bounds
        self._sums_s: dict[Key, float] = {}

    def around(self, app: App) -> App:
        """The ASGI application `app`, timed."""

        async def timed(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            begun_s, seen = self._clock_s(), False

            async def sending(message: Mapping[str, Any]) -> None:
                nonlocal seen
                if not seen and message["type"] == "http.response.start":
                    seen = True
                    self._took(scope, message["status"], self._clock_s() - begun_s)
                await send(message)

            try:
                await app(scope, receive, sending)
            except Exception:
                if not seen:  # the server answers 500 for it
                    self._took(scope, 500, self._clock_s() - begun_s)
                raise

        return timed

    def _took(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        method = scope["method"]
        key = template_of(scope), method if method in METHODS else OTHER, f"{status // 100}xx"
        if key not in self._counts and len(self._counts) >= SERIES_MAX:
            key = OTHER, OTHER, key[2]
        counts = self._counts.setdefault(key, [0] * (len(BUCKETS_S) + 1))
        counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sums_s[key] = self._sums_s.get(key, 0.0) + seconds

    def families(self) -> Iterator[Metric]:
        """The histogram as it is now."""
        family: Any = METRICS["leadline_http_request_duration_seconds"].family()
        for key, counts in sorted(self._counts.items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(list(key), buckets, self._sums_s.get(key, 0.0))
        yield family


def template_of(scope: Mapping[str, Any]) -> str:
    """The route of a request as it is declared, so that names in paths make no series."""
    path: str = scope["path"]
    if IngestApp.serves(path):
        return IngestApp.template(path)
    if path.startswith("/page/"):
        return "/page/{file}"
    return getattr(scope.get("route"), "path", OTHER)
