"""What the scanners of both remote-write versions share: state, samples, native histograms, rows of streams.

Kernels get their columns as tuples, to keep argument lists readable:

    streams   start_S, end_S, ids_S        where the labels lie, and the ids (S, 2)
    samples   series_N, time_N, bits_N     number of the stream, time in ns, bits of the value
    pairs     (LABELS_MAX, 4)              scratch: where the labels of the stream in hand lie
    labels                                 our own buffer for canonical labels
    state, tally                           see below

A code is OK, one of `wire.proto` with the byte above it (the body is malformed, in the field at `state[ERROR_AT]`),
or MORE_...: out of room.
"""

from __future__ import annotations

import numpy as np

from leadline.wire.kernel import kernel
from leadline.wire.labels import FILLED_ONCE, LABELS_MAX, canonical_bytes_max, in_order, write_canonical
from leadline.wire.labels import TOO_LONG as NAME_TOO_LONG
from leadline.wire.proto import BAD_PACKED, OK, fixed64, length, skip, tag, varint
from leadline.wire.samples import STALE_NAN_BITS
from leadline.wire.series_id import series_slice
from leadline.wire.words import byte_at, word_at

# state: where the scan stands. All of it is written at the end of a stream, so that a scan which ran out of room
# goes on, with more, at the beginning of the stream it could not finish.
AT, STREAMS, SAMPLES, LABELS, METADATA, ERROR_AT, STATES = 0, 1, 2, 3, 4, 5, 6
# tally: what was dropped, in the order of REASONS.
INVALID, TOO_MANY, OLD, FUTURE, EXEMPLAR, BUCKETS, UNTOLD, TOO_LONG = 0, 1, 2, 3, 4, 5, 6, 7
REASONS = (
    "label_invalid",
    "labels_too_many",
    "too_old",
    "in_future",
    "exemplar",
    "histogram_buckets",
    "metadata_limit",
    "label_too_long",
)
# Codes beside those of wire.proto: the scan goes on after the room was doubled.
MORE_STREAMS, MORE_SAMPLES, MORE_LABELS = 101, 102, 103

MS_MAX = (2**63 - 1) // 1_000_000
NS_PER_MS = 1_000_000
_STALE = np.uint64(STALE_NAN_BITS)
NAME_PREFIX = np.uint64(int.from_bytes(b"__name__", "big"))
_COUNT, _SUM = (np.frombuffer(text, np.uint8) for text in (b"_count", b"_sum"))


@kernel
def plain_samples(data, at, end, series, series_N, time_N, bits_N, n):  # type: ignore[no-untyped-def]
    """Take samples from `data[at:end]` on, up to the first unusual field: (its position, samples so far)."""
    size, samples_max = len(data), len(series_N)
    while at + 16 <= size and end - at >= 4 and byte_at(data, at) == 0x12 and n < samples_max:
        stop = at + 2 + byte_at(data, at + 1)
        bits, head, time_at = np.uint64(0), byte_at(data, at + 2), at + 3  # a value of zero is not written
        if head == 0x09:
            bits, head, time_at = word_at(data, at + 3), byte_at(data, at + 11), at + 12
        if head != 0x10 or stop > end or time_at >= stop or stop - time_at > 7:
            break
        ms, shift = np.int64(0), 0  # at most 7 bytes, so never negative
        while time_at < stop - 1 and byte_at(data, time_at) > 0x7F:
            ms |= (byte_at(data, time_at) & 0x7F) << shift
            shift += 7
            time_at += 1
        last = byte_at(data, time_at)
        ms |= last << shift
        if time_at != stop - 1 or last > 0x7F or ms > MS_MAX:
            break
        series_N[n] = series
        time_N[n] = ms * NS_PER_MS
        bits_N[n] = bits
        n += 1
        at = stop
    return at, n


@kernel
def read_sample(data, at, end):  # type: ignore[no-untyped-def]
    """One Sample of either version: (code, time in ms, the value's bits)."""
    if end - at >= 11 and byte_at(data, at) == 0x09 and byte_at(data, at + 9) == 0x10:
        time, after = varint(data, at + 10, end)
        if after == end:
            return OK, np.int64(time), word_at(data, at + 1)
    bits, ms = np.uint64(0), np.int64(0)
    while at < end:
        field, at = tag(data, at, end)
        if at < 0:
            return -at, ms, bits
        if field == 0x09:
            bits, at = fixed64(data, at, end)
        elif field == 0x10:
            time, at = varint(data, at, end)
            ms = np.int64(time)
        else:
            at = skip(data, at, end, field)
        if at < 0:
            return -at, ms, bits
    return OK, ms, bits


@kernel
def keep_sample(samples, n, series, ms, bits):  # type: ignore[no-untyped-def]
    """Write sample `n`; there is room. Returns: n + 1."""
    series_N, time_N, bits_N = samples
    series_N[n] = series
    time_N[n] = ms * NS_PER_MS
    bits_N[n] = bits
    return n + 1


@kernel
def checked_labels(data, pairs, count):  # type: ignore[no-untyped-def]
    """Put `count` labels in order: (labels left, -1), or (0, why the stream is dropped)."""
    if count > LABELS_MAX:
        return 0, TOO_MANY
    kept = in_order(data, pairs, count, FILLED_ONCE)
    if kept < 0:
        return 0, TOO_LONG if kept == NAME_TOO_LONG else INVALID
    return kept, -1


@kernel
def write_stream(data, pairs, count, suffix, labels, at, base, streams, series):  # type: ignore[no-untyped-def]
    """Write a stream's labels at `labels[at:]`, and its row. Returns: the position after, or minus a code."""
    if canonical_bytes_max(pairs, count, len(suffix)) > len(labels) - at:
        return -MORE_LABELS
    after = write_canonical(data, pairs, count, suffix, labels, at)
    fill_stream(labels, at, after, base, streams, series)
    return after


@kernel
def fill_stream(labels, start, end, base, streams, series):  # type: ignore[no-untyped-def]
    """Fill the row of one stream whose canonical labels are `labels[start:end]`, `base` bytes into all labels."""
    start_S, end_S, ids_S = streams
    start_S[series] = base + start
    end_S[series] = base + end
    low, high = series_slice(labels, start, end)
    ids_S[series, 0] = low
    ids_S[series, 1] = high


@kernel
def commit_stream(state, tally, series, n, label_at, old, future, exemplars):  # type: ignore[no-untyped-def]
    """A stream is complete: what it added counts from here on."""
    state[STREAMS], state[SAMPLES], state[LABELS] = series, n, label_at
    tally[OLD] += old
    tally[FUTURE] += future
    tally[EXEMPLAR] += exemplars


@kernel
def append_histograms(  # type: ignore[no-untyped-def]
    data, at, end, wanted, pairs, count, streams, samples, labels, base, state, tally,
    series, n, label_at, old, future, exemplars,
):  # fmt: skip
    """Append the native histograms of one TimeSeries as two streams, of counts and of sums; commit the stream."""
    begin, buckets = at, 0
    for turn in range(2):
        at, first = begin, n
        while at < end:
            field, at = tag(data, at, end)  # seen before, so it is well-formed
            if field != wanted:
                at = skip(data, at, end, field)
                continue
            start, at = length(data, at, end)
            code, ms, observed, total, filled = _histogram(data, start, at)
            if code != OK:
                state[ERROR_AT] = start
                return code
            if turn == 0:
                buckets += filled
            if ms > MS_MAX:
                future += 1
            elif ms < -MS_MAX:
                old += 1
            elif n >= len(samples[0]):
                return MORE_SAMPLES
            else:
                n = keep_sample(samples, n, series, ms, observed if turn == 0 else total)
        if n > first:
            suffix = _COUNT if turn == 0 else _SUM
            label_at = write_stream(data, pairs, count, suffix, labels, label_at, base, streams, series)
            if label_at < 0:
                return -label_at
            series += 1
    tally[BUCKETS] += buckets
    commit_stream(state, tally, series, n, label_at, old, future, exemplars)
    return OK


@kernel
def _histogram(data, at, end):  # type: ignore[no-untyped-def]
    """One Histogram of either version: (code, time in ms, bits of its count, bits of its sum, buckets in it)."""
    count, total, ms, buckets = 0.0, np.uint64(0), np.int64(0), 0
    while at < end:
        field, at = tag(data, at, end)
        if at < 0:
            return -at, ms, total, total, buckets
        if field == 0x08:  # count_int
            value, at = varint(data, at, end)
            count = np.float64(value)
        elif field == 0x11 or field == 0x19:  # count_float, sum
            bits, at = fixed64(data, at, end)
            if field == 0x11:
                count = _as_float(bits)
            else:
                total = bits
        elif field == 0x78:  # timestamp
            value, at = varint(data, at, end)
            ms = np.int64(value)
        elif field & 7 == 2 and (9 <= field >> 3 <= 10 or 12 <= field >> 3 <= 13):
            start, at = length(data, at, end)
            if at > 0 and (field >> 3 == 10 or field >> 3 == 13):  # packed doubles
                if (at - start) % 8:
                    return BAD_PACKED, ms, total, total, buckets
                buckets += (at - start) // 8
            else:
                for i in range(start, at):  # packed varints: each ends with a byte below 0x80
                    buckets += byte_at(data, i) < 0x80
        else:
            buckets += field == 0x48 or field == 0x51 or field == 0x60 or field == 0x69  # the same, unpacked
            at = skip(data, at, end, field)
        if at < 0:
            return -at, ms, total, total, buckets
    # A stale native histogram says so in its sum; its count must not look like a reset to zero.
    return OK, ms, total if total == _STALE else _as_bits(count), total, buckets


@kernel
def _as_float(bits):  # type: ignore[no-untyped-def]
    return np.uint64(bits).view(np.float64)


@kernel
def _as_bits(value):  # type: ignore[no-untyped-def]
    return np.float64(value).view(np.uint64)


@kernel
def tell_metadata(metadata, state, tally, kind, n0, n1, h0, h1, u0, u1):  # type: ignore[no-untyped-def]
    """Append one row of metadata, or count it as one too many."""
    row = state[METADATA]
    if row >= len(metadata):
        tally[UNTOLD] += 1
        return
    metadata[row, 0] = kind
    metadata[row, 1], metadata[row, 2] = n0, n1
    metadata[row, 3], metadata[row, 4] = h0, h1
    metadata[row, 5], metadata[row, 6] = u0, u1
    state[METADATA] = row + 1
