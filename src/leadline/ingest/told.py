"""What senders said about metric names: type and unit, also where it comes apart from the samples.

Prometheus' remote-write 1.0 sends samples first and metadata once a minute in bodies of its own. So what is told is
remembered for streams to come, and streams stored without a type get it later.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice

from leadline.wire.samples import Metadata

NAMES_MAX = 50_000  # of one tenant and cluster; some 300 bytes each
NEWS_MAX = 200  # at a time: they go into the parameters of one query, with their suffixes some 50 kB

# Streams that a family's metadata is about: `x` for itself and for these.
SUFFIXES = ("_bucket", "_sum", "_count", "_total")
_NOTHING = Metadata()


class Told:
    """Metadata by metric name, the newest. Thread-safe. Names beyond NAMES_MAX are not remembered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Metadata] = {}
        self._news: dict[str, Metadata] = {}

    def hear(self, metadata: Mapping[str, Metadata]) -> None:
        """Remember what a request said; what is new is kept for `news` too."""
        with self._lock:
            for name, told in metadata.items():
                if not (told.type or told.unit) or self._by_name.get(name) == told:
                    continue
                if name in self._by_name or len(self._by_name) < NAMES_MAX:
                    self._by_name[name] = told
                    self._news[name] = told

    def about(self, name: str) -> Metadata:
        """What was said about streams of that name; empty if nothing was."""
        with self._lock:
            return self._by_name.get(name) or self._by_name.get(family_name(name)) or _NOTHING

    def news(self) -> dict[str, Metadata]:
        """Up to NEWS_MAX names of which something was said since they were last `used`, oldest first."""
        with self._lock:
            return dict(islice(self._news.items(), NEWS_MAX))

    def used(self, news: Mapping[str, Metadata]) -> None:
        """This news is in the store."""
        with self._lock:
            for name, told in news.items():
                if self._news.get(name) == told:
                    del self._news[name]


def family_name(name: str) -> str:
    """The name that metadata is told under: `x_bucket`, `x_sum` and `x_count` belong to `x`, `x_total` to `x`."""
    if name.endswith(SUFFIXES):
        return name.rpartition("_")[0]
    return name
