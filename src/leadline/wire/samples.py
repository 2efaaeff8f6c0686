"""What every metric decoder returns: streams and samples as columns.

A decoder never builds Python objects per sample. Streams keep their labels as canonical bytes (see `model.ids`),
so that a stream whose id is known already is never decoded further.

    label_bytes  0a.. 0a.. 12.. | 0a.. ...          canonical labels of stream 0, 1, ...
                 ^ label_start[0]  ^ label_end[0]
    ids          (S, 2) uint64: low and high half of the 128-bit series id
    sample_series[n] = index of the stream of sample n; time_ns[n], value[n]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leadline.model.errors import DataError
from leadline.model.ids import canonical_labels, read_varint, series_id_of

Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Floats = NDArray[np.float64]

# Prometheus' stale marker and its ordinary NaN (model/value/value.go): both are kept bit by bit.
STALE_NAN_BITS = 0x7FF0000000000002
NORMAL_NAN_BITS = 0x7FF8000000000001


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a sender says about a metric name: type (counter, gauge, ...), unit and help; empty if not told."""

    type: str = ""
    unit: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """Streams and their samples. S = streams, N = samples, B = bytes of labels.

    A stream may occur twice (with equal ids); `sample_series` is not sorted in general. `dropped` counts what
    the decoder could not represent, by the reasons of `model.counters` (histogram_buckets, exemplar, ...).
    """

    label_bytes: NDArray[np.uint8]  # (B,)
    label_start: Int64s  # (S,)
    label_end: Int64s  # (S,)
    ids: UInt64s  # (S, 2) low, high
    sample_series: Int64s  # (N,)
    time_ns: Int64s  # (N,)
    value: Floats  # (N,)
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def labels(self, series: int) -> dict[str, str]:
        """All labels of one stream, `__name__` included. Errors: DataError if they are not UTF-8."""
        raw = self.label_bytes[self.label_start[series] : self.label_end[series]].tobytes()
        return read_canonical_labels(raw)


def samples_from(
    streams: list[Mapping[str, str]],
    sample_series: list[int],
    time_ns: list[int],
    value: list[float],
    metadata: Mapping[str, Metadata] | None = None,
    dropped: Mapping[str, int] | None = None,
) -> Samples:
    """Columns from Python lists: for decoders of low-rate formats, and for tests."""
    encoded = [canonical_labels(stream) for stream in streams]
    ends = np.cumsum([len(raw) for raw in encoded], dtype=np.int64) if encoded else np.zeros(0, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if encoded else np.zeros(0, np.int64)
    ids = np.zeros((len(encoded), 2), np.uint64)
    for row, raw in enumerate(encoded):
        series = series_id_of(raw)
        ids[row, 0] = series & 0xFFFFFFFFFFFFFFFF
        ids[row, 1] = series >> 64
    return Samples(
        label_bytes=np.frombuffer(b"".join(encoded), np.uint8),
        label_start=starts,
        label_end=ends,
        ids=ids,
        sample_series=np.array(sample_series, np.int64),
        time_ns=np.array(time_ns, np.int64),
        value=np.array(value, np.float64),
        metadata=metadata or {},
        dropped=dropped or {},
    )


def read_canonical_labels(raw: bytes) -> dict[str, str]:
    """Decode canonical label bytes. Errors: DataError if they are not canonical or not UTF-8."""
    labels: dict[str, str] = {}
    at, end = 0, len(raw)
    try:
        while at < end:
            # A label of less than 128 bytes, as nearly all are, has lengths of one byte: no calls for its parts, since
            # this is half of what a new stream costs. What does not fit goes the long way, where it is read or refused.
            value = at + 6 + raw[at + 3]
            after = at + 2 + raw[at + 1]
            fits = raw[at + 1] < 0x80 and after <= end and value + raw[value - 1] == after
            if fits and raw[at] == raw[at + 2] == 0x0A and raw[value - 2] == 0x12:
                labels[_name(raw[at + 4 : value - 2])] = raw[value:after].decode()
                at = after
            else:
                at = _read_label(raw, at, labels)
    except (IndexError, UnicodeDecodeError) as error:
        raise DataError("labels of a stream", "canonical UTF-8 labels", str(error)) from error
    if at != end:
        raise DataError("labels of a stream", f"{end} bytes", f"a label that ends at byte {at}")
    return labels


@lru_cache(maxsize=4096)  # names, not values: a site has some hundred, and streams that wait share them
def _name(raw: bytes) -> str:
    return raw.decode()


def _read_label(raw: bytes, at: int, labels: dict[str, str]) -> int:
    """Read one label with lengths of any size; returns where it ends."""
    at = _expect(raw, at, 0x0A)
    _, at = read_varint(raw, at)
    at = _expect(raw, at, 0x0A)
    size, at = read_varint(raw, at)
    name, at = raw[at : at + size].decode(), at + size
    at = _expect(raw, at, 0x12)
    size, at = read_varint(raw, at)
    labels[name] = raw[at : at + size].decode()
    return at + size


def _expect(raw: bytes, at: int, tag: int) -> int:
    if raw[at] != tag:
        raise DataError(f"labels of a stream, byte {at}", f"tag {tag:#04x}", f"{raw[at]:#04x}")
    return at + 1
