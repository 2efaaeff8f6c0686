"""Prometheus remote-write 1.0 and 2.0: an unpacked body to columns.

    version 1   prometheus.WriteRequest             TimeSeries { Label* Sample* Exemplar* Histogram* }*, metadata
    version 2   io.prometheus.write.v2.Request      symbols, TimeSeries { refs, samples, ..., metadata }*

The bytes are scanned by a kernel that visits each once. A stream of version 1 whose labels already lie in
canonical form (every Prometheus sends them so) is not copied: its labels are a slice of the body itself. All
other labels are written canonically into a buffer of our own.

    body   | TimeSeries: 0a.. 0a.. 0a..  12.. 12.. | TimeSeries ...
                         ^ label_start   ^ label_end    hashed where they lie

What cannot be kept is dropped and counted by sample: streams without a name or with a name twice
(`label_invalid`), with too many labels or too long a name (`labels_too_many`, `label_too_long`), times outside
int64 nanoseconds, 1677 to 2262 (`too_old`, `in_future`). A native histogram becomes the streams `<name>_count`
and `<name>_sum`, its buckets are counted (`histogram_buckets`), and so are exemplars (`exemplar`). See
docs/formats/remote-write.md.

Source: github.com/prometheus/prometheus, prompb/types.proto and prompb/io/prometheus/write/v2/types.proto.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leadline.model.errors import RefusedError, UsageError
from leadline.wire.labels import LABELS_MAX
from leadline.wire.proto import CODE_MASK, OK, malformed
from leadline.wire.remote_write.parts import (
    ERROR_AT,
    LABELS,
    METADATA,
    MORE_SAMPLES,
    MORE_STREAMS,
    REASONS,
    SAMPLES,
    STATES,
    STREAMS,
)
from leadline.wire.remote_write.v1 import scan_v1
from leadline.wire.remote_write.v2 import scan_symbols, scan_v2
from leadline.wire.samples import Metadata, Samples

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Symbols = tuple[Ints, NDArray[np.uint64]]

# Canonical labels built from one body. Version 2 names a label by a few bytes, so a small body can ask for
# gigabytes of labels; 20,000 streams of 300 bytes need 6 MB.
LABEL_BYTES_MAX: Final = 64 << 20
# Samples taken from one body: a sample can be two bytes, its columns are 24. Senders put 500 to 20,000 in one.
SAMPLES_MAX: Final = 4_000_000
# Symbols of one version 2 body, for the same reason: two bytes can be one, and where it lies takes 24.
SYMBOLS_MAX: Final = 1_000_000
# Metric names whose type and help are taken from one body; Prometheus sends at most 2,000 at a time.
METADATA_MAX: Final = 10_000
# A name, help or unit is cut here: 10,000 metrics could refer to one symbol of megabytes.
TEXT_BYTES_MAX: Final = 4096

_TYPES = ("", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")


def decode_remote_write(body: bytes, version: int, *, label_bytes_max: int = LABEL_BYTES_MAX) -> Samples:
    """Decode one unpacked remote-write body.

    Inputs: `version` 1 or 2, from the request's content type. Times arrive in ms, leave in ns; values keep
    their bits (stale markers among them). Metadata: of several for one name in one body, the first.
    Errors: DataError with the byte where the field began; RefusedError (decompressed_too_large) if the labels
    to be written exceed `label_bytes_max`, or for more than SAMPLES_MAX samples or SYMBOLS_MAX symbols;
    UsageError for another version.
    Memory: for what Prometheus sends about twice the body; at most some 300 MB, whatever it is.
    """
    if version not in (1, 2):
        raise UsageError(f"remote-write has versions 1 and 2; got {version!r}")
    data = np.frombuffer(body, np.uint8)
    symbols = _symbols(data) if version == 2 else None
    room = _Room(len(data), symbols, label_bytes_max)
    while True:
        code = room.scan(data)
        if code == OK:
            return room.samples(data, version)
        if code < MORE_STREAMS:
            raise malformed(f"remote-write {version}.0 body", code, int(room.state[ERROR_AT]))
        room.double(code)


class _Room:
    """The columns that a scan fills, with room to spare; cut to size at the end."""

    def __init__(self, body_bytes: int, symbols: Symbols | None, label_bytes_max: int) -> None:
        # Prometheus sends 150 bytes and more per stream, 20 per sample.
        streams, samples = body_bytes // 96 + 16, min(body_bytes // 24 + 16, SAMPLES_MAX)
        self.label_bytes_max = label_bytes_max
        self.start = np.empty(streams, np.int64)
        self.end = np.empty(streams, np.int64)
        self.ids = np.empty((streams, 2), np.uint64)
        self.series = np.empty(samples, np.int64)
        self.time_ns = np.empty(samples, np.int64)
        self.bits = np.empty(samples, np.uint64)
        label_bytes = 0 if symbols is None else 4 * body_bytes  # version 2: what Prometheus' own bodies need
        self.labels = np.empty(min(label_bytes, label_bytes_max), np.uint8)
        self.symbols = symbols
        self.told = np.zeros(0 if symbols is None else len(symbols[0]), np.bool_)
        self.metadata = np.empty((METADATA_MAX, 7), np.int64)
        self.pairs = np.empty((LABELS_MAX, 4), np.int64)
        self.state = np.zeros(STATES, np.int64)
        self.tally = np.zeros(len(REASONS), np.int64)

    def scan(self, data: Bytes) -> int:
        """Run the kernel from where it stands. Returns: its code, without the byte."""
        streams = (self.start, self.end, self.ids)
        samples = (self.series, self.time_ns, self.bits)
        out = (self.labels, self.metadata, self.pairs, self.state, self.tally)
        if self.symbols is None:
            return int(scan_v1(data, streams, samples, *out)) & CODE_MASK
        return int(scan_v2(data, self.symbols, self.told, streams, samples, *out)) & CODE_MASK

    def double(self, code: int) -> None:
        """Twice the room of what ran out. Errors: RefusedError if labels would exceed their limit."""
        if code == MORE_STREAMS:
            self.start, self.end = _doubled(self.start), _doubled(self.end)
            self.ids = _doubled(self.ids)
        elif code == MORE_SAMPLES:
            if len(self.bits) >= SAMPLES_MAX:
                raise _too_large(f"it has more than {SAMPLES_MAX} samples")
            self.series, self.time_ns = _doubled(self.series, SAMPLES_MAX), _doubled(self.time_ns, SAMPLES_MAX)
            self.bits = _doubled(self.bits, SAMPLES_MAX)
        elif len(self.labels) >= self.label_bytes_max:
            raise _too_large(f"its labels written out exceed {self.label_bytes_max} bytes")
        else:
            self.labels = _doubled(self.labels, self.label_bytes_max)

    def samples(self, data: Bytes, version: int) -> Samples:
        """What was scanned, cut to size."""
        streams, samples, labels = (int(self.state[i]) for i in (STREAMS, SAMPLES, LABELS))
        own = self.labels[:labels]
        if version == 1:  # label positions beyond the body mean our own buffer
            own = np.concatenate((data, own)) if labels else data
        return Samples(
            label_bytes=own,
            label_start=self.start[:streams],
            label_end=self.end[:streams],
            ids=self.ids[:streams],
            sample_series=self.series[:samples],
            time_ns=self.time_ns[:samples],
            value=self.bits[:samples].view(np.float64),
            metadata=self._metadata(data),
            dropped={reason: int(n) for reason, n in zip(REASONS, self.tally, strict=True) if n},
        )

    def _metadata(self, data: Bytes) -> dict[str, Metadata]:
        told: dict[str, Metadata] = {}
        for kind, n0, n1, h0, h1, u0, u1 in self.metadata[: self.state[METADATA]].tolist():
            # Help is for people: a byte that is not UTF-8 shows as a question mark, it costs no samples.
            name, help_, unit = (
                data[start : min(end, start + TEXT_BYTES_MAX)].tobytes().decode(errors="replace")
                for start, end in ((n0, n1), (h0, h1), (u0, u1))
            )
            told.setdefault(name, Metadata(_TYPES[kind] if 0 < kind < len(_TYPES) else "", unit, help_))
        return told


def _too_large(why: str) -> RefusedError:
    return RefusedError("decompressed_too_large", f"remote-write body: {why}; send less in one body")


def _doubled(column: NDArray[Any], most: int = 1 << 62) -> NDArray[Any]:
    size = min(most, max(64, 2 * len(column)))
    larger = np.empty((size, *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger


def _symbols(data: Bytes) -> Symbols:
    """The symbols of a version 2 body, wherever they come in it: (K, 2) start and end, (K,) first 8 bytes."""
    number = min(len(data) // 64 + 16, SYMBOLS_MAX)
    while True:
        spans, prefixes = np.empty((number, 2), np.int64), np.empty(number, np.uint64)
        code, number = scan_symbols(data, spans, prefixes)
        if code != OK:
            raise malformed("remote-write 2.0 body", code & CODE_MASK, int(number))
        if number <= len(spans):
            return spans[:number], prefixes[:number]
        if number > SYMBOLS_MAX:
            raise _too_large(f"it has {number} symbols, more than {SYMBOLS_MAX}")
