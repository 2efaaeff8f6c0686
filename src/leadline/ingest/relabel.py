"""Adding a target's labels to every stream of its page, once per stream and not once per scrape."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from leadline.model.errors import RefusedError
from leadline.model.ids import canonical_labels, series_id_of
from leadline.wire.samples import Samples
from leadline.wire.series_index import SeriesIndex

STREAMS_MAX = 1_000_000  # of one page; some 300 bytes each. Exporters have 100 to 100,000


class Relabelled:
    """A cache from a page's streams, as it spells them, to the same streams with the target's labels."""

    def __init__(self, labels: Mapping[str, str], honor_labels: bool) -> None:
        self._labels = dict(labels)
        self._honor = honor_labels
        self._forget()

    def _forget(self) -> None:
        self._index = SeriesIndex(STREAMS_MAX)
        self._ids = np.zeros((0, 2), np.uint64)
        self._bytes = np.zeros(0, np.uint8)
        self._start = np.zeros(0, np.int64)
        self._end = np.zeros(0, np.int64)

    def apply(self, page: Samples) -> Samples:
        """The page with the target's labels on every stream.

        Errors: DataError for labels that are not UTF-8, RefusedError for more than STREAMS_MAX streams.
        """
        if len(page.ids) > STREAMS_MAX:
            raise RefusedError("series_limit", f"the page has {len(page.ids)} streams; at most {STREAMS_MAX}")
        number = self._index.lookup(page.ids)
        unknown = np.flatnonzero(number < 0)
        if unknown.size:
            # A page whose streams come and go for ever must not fill memory: start the cache anew.
            if len(self._index) > 4 * len(page.ids) + 1000 or len(self._index) + unknown.size > STREAMS_MAX:
                self._forget()
                unknown = np.arange(len(page.ids))
            self._learn(page, unknown)
            number = self._index.lookup(page.ids)
        return Samples(
            label_bytes=self._bytes,
            label_start=self._start[number],
            label_end=self._end[number],
            ids=self._ids[number],
            sample_series=page.sample_series,
            time_ns=page.time_ns,
            value=page.value,
            metadata=page.metadata,
            dropped=page.dropped,
        )

    def _learn(self, page: Samples, streams: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        _, first = np.unique(page.ids[streams], axis=0, return_index=True)
        streams = streams[np.sort(first)]
        encoded = [canonical_labels(self._merge(page.labels(stream))) for stream in streams.tolist()]
        ends = len(self._bytes) + np.cumsum([len(raw) for raw in encoded], dtype=np.int64)
        starts = np.concatenate(([len(self._bytes)], ends[:-1])).astype(np.int64)
        ids = np.array([_halves(series_id_of(raw)) for raw in encoded], np.uint64).reshape(-1, 2)
        self._index.insert(page.ids[streams])
        self._bytes = np.concatenate((self._bytes, np.frombuffer(b"".join(encoded), np.uint8)))
        self._start = np.concatenate((self._start, starts))
        self._end = np.concatenate((self._end, ends))
        self._ids = np.concatenate((self._ids, ids))

    def _merge(self, labels: dict[str, str]) -> dict[str, str]:
        merged = dict(labels)
        for name, value in self._labels.items():
            if name in labels:
                if self._honor:
                    continue
                merged[_exported(name, merged.keys() | self._labels.keys())] = labels[name]
            merged[name] = value
        return merged


def _exported(name: str, taken: Set[str]) -> str:
    """Prometheus' name for a page's label that clashes with the target's: `exported_`, as often as needed."""
    name = f"exported_{name}"
    while name in taken:
        name = f"exported_{name}"
    return name


def _halves(series: int) -> tuple[int, int]:
    return series & 0xFFFFFFFFFFFFFFFF, series >> 64
