"""The metric streams of one tenant and cluster: which are known, which may join, which must still be saved.

A known stream costs one table look-up per request and is never decoded again. A new one is decoded once, held
against the limits, mapped to its entity, and its `series` row is stored before (or with) its first sample.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.ingest.config import IngestConfig
from leadline.ingest.told import Told
from leadline.model.errors import DataError
from leadline.model.metric_units import unit_of
from leadline.model.names import Mapped, entity_of
from leadline.model.units import canonical_unit
from leadline.wire.blank import blank_of
from leadline.wire.samples import Int64s, Samples
from leadline.wire.series_index import SeriesIndex, touch

NAME = "__name__"
NOT_SEEN_NS = np.iinfo(np.int64).max  # first time of a stream without a sample


@dataclass(slots=True)
class SeriesRow:
    """One row of the `series` table but for tenant, cluster and the two times.

    `number` is its place here, given when it joins: not a second frozen copy, there may be a million of them.
    """

    id_low: int
    id_high: int
    name: str
    mapped: Mapped
    unit: str | None
    type: str | None
    labels: dict[str, str]
    source: str
    number: int = -1


@dataclass(frozen=True, slots=True)
class Admission:
    """What `admit` decided: `number` per stream of the request (-1: refused), and why some were refused."""

    number: Int64s  # (S,)
    refused: Tally[str]  # samples refused, by reason
    messages: list[str]
    new: int
    tells: set[str]
    about: tuple[Mapped, ...] = ()  # what the new ones speak of


class Streams:
    """Known streams of one tenant and cluster. Thread-safe."""

    def __init__(self, config: IngestConfig, left: Callable[[], int] | None = None) -> None:
        """`left`: how many more streams may be known of everybody together."""
        self._config = config
        self._left = left or (lambda: config.series_all_max)
        self._lock = threading.Lock()
        self._index = SeriesIndex(config.series_max, secrets.randbits(64))
        self._unsaved: dict[int, SeriesRow] = {}
        size = 1024
        self._first_ns: Int64s = np.zeros(size, np.int64)
        self._last_ns: Int64s = np.zeros(size, np.int64)
        self._saved_ns: Int64s = np.zeros(size, np.int64)
        self._blank: NDArray[np.uint8] = np.zeros(size, np.uint8)  # `Blank`
        self.told = Told()

    def __len__(self) -> int:
        return len(self._index)

    def restore(self, ids: NDArray[np.uint64], first_ns: Int64s, last_ns: Int64s, blank: NDArray[np.uint8]) -> None:
        """Take over streams that the store knows already (at start). ids (S, 2); the rest (S,)."""
        with self._lock:
            numbers = self._index.insert(ids)
            self._grow(len(self._index))
            # The store may hold more than a series_max that was lowered since: those are not known here.
            held = numbers >= 0
            numbers, first_ns, last_ns, blank = numbers[held], first_ns[held], last_ns[held], blank[held]
            self._first_ns[numbers] = first_ns
            self._last_ns[numbers] = last_ns
            self._saved_ns[numbers] = last_ns
            self._blank[numbers] = blank

    def admit(self, samples: Samples, source: str) -> Admission:
        """Number every stream of a request, admitting new ones within the limits.

        Streams are admitted in memory at once; `unsaved` hands their rows to the lane, which stores them before
        the samples.
        """
        refused: Tally[str] = Tally()
        messages: list[str] = []
        tells: set[str] = set()
        if samples.metadata:
            self.told.hear(samples.metadata)
        with self._lock:
            number = self._index.lookup(samples.ids)
            unknown = np.flatnonzero(number < 0)
            if not unknown.size:
                return Admission(number, refused, messages, 0, tells)
            # How many samples a refused stream takes with it.
            weight = np.bincount(samples.sample_series, minlength=len(number))
            rows: list[SeriesRow] = []
            joined: list[int] = []
            seen: set[tuple[int, int]] = set()
            left = self._left()
            for stream in unknown.tolist():
                key = (int(samples.ids[stream, 0]), int(samples.ids[stream, 1]))
                if key in seen:
                    continue
                try:
                    self._require_place(len(rows), left)
                    row = self._row(samples, stream, key, source)
                except _RefusedStream as error:
                    refused[error.reason] += int(weight[stream])
                    if len(messages) < 5:
                        messages.append(error.message)
                    continue
                seen.add(key)
                rows.append(row)
                joined.append(stream)
                tells.add(_telling(row))
            if joined:
                self._join(samples.ids[joined], rows)
            number = self._index.lookup(samples.ids)
        return Admission(number, refused, messages, len(joined), tells, tuple(row.mapped for row in rows))

    def touch(self, number: Int64s, series: Int64s, time_ns: Int64s) -> int:
        """Note the times of samples: `number` (S,) per stream, `series` (N,) and `time_ns` (N,) per sample.

        Returns how many came late: older than the newest of their stream. The same time again is a retry, not late.
        """
        with self._lock:
            late = touch(number, series, time_ns, self._last_ns)
            known = number[number >= 0]
            # Only the first sample of a stream or a late one can be its oldest; both are rare.
            if late or (self._first_ns[known] == NOT_SEEN_NS).any():
                self._note_first(number, series, time_ns)
            return late

    def _note_first(self, number: Int64s, series: Int64s, time_ns: Int64s) -> None:
        of_sample = number[series]
        known = of_sample >= 0
        older = np.flatnonzero(known & (time_ns < self._first_ns[of_sample]))
        np.minimum.at(self._first_ns, of_sample[older], time_ns[older])
        self._saved_ns[of_sample[older]] = 0  # what is stored of them is out of date

    def blanks(self, number: Int64s) -> NDArray[np.uint8] | None:
        """How the streams `number` (S,) say that they have no value; None if none of them does."""
        found = self._blank[number]
        return found if found.any() else None

    def unsaved(self) -> tuple[list[SeriesRow], Int64s, Int64s]:
        """Rows that must be stored before their samples count as stored, with first and last times."""
        with self._lock:
            numbers = np.fromiter(self._unsaved, np.int64, len(self._unsaved))
            return list(self._unsaved.values()), self._first_ns[numbers], self._last_ns[numbers]

    def saved(self, rows: list[SeriesRow], first_ns: Int64s, last_ns: Int64s) -> None:
        """These rows are in the store with these times; samples may have come since `unsaved` told them."""
        with self._lock:
            numbers = np.array([row.number for row in rows], np.int64)
            for row in rows:
                self._unsaved.pop(row.number, None)
            self._saved_ns[numbers] = np.where(self._first_ns[numbers] < first_ns, 0, last_ns)

    def moved(self, by_ns: int) -> bool:
        """Whether a stream's newest sample is more than `by_ns` ahead of what its stored row says."""
        with self._lock:
            n = len(self._index)
            return bool((self._last_ns[:n] - self._saved_ns[:n] > by_ns).any())

    def in_order(self, by_ns: int = 0) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Ids (S, 2) of all streams as the store orders them, and whether each moved on by more than `by_ns` (S,)."""
        with self._lock:
            n = len(self._index)
            ids = self._index.ids[:n].copy()
            moved_S = self._last_ns[:n] - self._saved_ns[:n] > by_ns
        order = np.lexsort((ids[:, 0], ids[:, 1]))
        return ids[order], moved_S[order]

    def times(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], Int64s, Int64s]:
        """Which of the streams with these ids (S, 2) have known times (S,), and the first and last of those (K,).

        They are about to be stored, so they count as saved; `unsave` if that failed. A stream of which no sample was
        taken yet has no times: its row stays as it is.
        """
        with self._lock:
            number = self._index.lookup(ids)
            held = (number >= 0) & (self._first_ns[number] != NOT_SEEN_NS)
            number = number[held]
            self._saved_ns[number] = self._last_ns[number]
            return held, self._first_ns[number], self._last_ns[number]

    def unsave(self) -> None:
        """What `times` told could not be stored: all of it is to be saved again."""
        with self._lock:
            self._saved_ns[:] = 0

    def _join(self, ids: NDArray[np.uint64], rows: list[SeriesRow]) -> None:
        numbers = self._index.insert(ids)
        self._grow(len(self._index))
        self._first_ns[numbers] = NOT_SEEN_NS
        self._last_ns[numbers] = 0
        self._saved_ns[numbers] = 0
        self._blank[numbers] = [blank_of(row.name) for row in rows]
        for number, row in zip(numbers.tolist(), rows, strict=True):
            row.number = number
            self._unsaved[number] = row

    def _grow(self, size: int) -> None:
        have = len(self._last_ns)
        if size <= have:
            return
        more = max(size, 2 * have) - have
        self._first_ns = np.concatenate((self._first_ns, np.zeros(more, np.int64)))
        self._last_ns = np.concatenate((self._last_ns, np.zeros(more, np.int64)))
        self._saved_ns = np.concatenate((self._saved_ns, np.zeros(more, np.int64)))
        self._blank = np.concatenate((self._blank, np.zeros(more, np.uint8)))

    def _require_place(self, joining: int, left: int) -> None:
        config = self._config
        if len(self._index) + joining >= config.series_max:
            raise _RefusedStream(
                "series_limit",
                f"{config.series_max} streams are known; a new one is refused (ingest.series_max)",
            )
        if joining >= left:
            raise _RefusedStream(
                "series_limit",
                f"{config.series_all_max} streams of all tenants are known; a new one is refused "
                "(ingest.series_all_max)",
            )

    def _require_short(self, name: str, labels: dict[str, str]) -> None:
        most = self._config.label_bytes_max
        for label, value in labels.items():
            size = max(len(label.encode()), len(value.encode()))
            if size > most:
                raise _RefusedStream(
                    "label_too_long",
                    f"{name}: label {label[:40]!r} has {size} bytes; at most {most} (ingest.label_bytes_max)",
                )

    def _row(self, samples: Samples, stream: int, key: tuple[int, int], source: str) -> SeriesRow:
        config = self._config
        try:
            labels = samples.labels(stream)
        except DataError as error:
            raise _RefusedStream("label_invalid", str(error)) from error
        name = labels.get(NAME, "")
        if not name:
            raise _RefusedStream("label_invalid", f"a stream without a name: {_short(labels)}")
        if len(labels) > config.labels_per_series_max:
            raise _RefusedStream(
                "labels_too_many",
                f"{name} has {len(labels)} labels; at most {config.labels_per_series_max} "
                "(ingest.labels_per_series_max)",
            )
        # Names and values are parts of these bytes: where all of them are few, none is too long.
        if samples.label_end[stream] - samples.label_start[stream] > config.label_bytes_max:
            self._require_short(name, labels)
        told = self.told.about(name)
        unit = canonical_unit(told.unit) if told.unit else unit_of(name)
        mapped = entity_of(labels)
        del labels[NAME]
        return SeriesRow(
            id_low=key[0],
            id_high=key[1],
            name=name,
            mapped=mapped,
            unit=unit,
            type=told.type or None,
            labels=labels,
            source=source,
        )


class _RefusedStream(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def _telling(row: SeriesRow) -> str:
    """What a stream says its sender is: the service, the exporter, or the scrape job."""
    family = row.mapped.family
    known = family if family not in ("", "labelled", "target") else ""
    return row.labels.get("service.name") or known or row.labels.get("job") or row.name


def _short(labels: dict[str, str]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in sorted(labels.items()))
    return text if len(text) <= 200 else text[:200] + "..."
