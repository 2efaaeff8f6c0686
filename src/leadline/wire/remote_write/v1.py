"""The scanner of remote-write 1.0 bodies: prometheus.WriteRequest.

`_plain_v1` is the fast lane for what Prometheus sends; `_series_v1` takes everything else, stream by stream.
Both give the same for what both take; a property test holds them to it.
"""

from __future__ import annotations

import numpy as np

from leadline.wire.kernel import kernel
from leadline.wire.labels import LABELS_MAX, NAME_BYTES_MAX, NO_SUFFIX, compare, is_name
from leadline.wire.proto import OK, length, skip, tag, varint
from leadline.wire.remote_write.parts import (
    AT,
    ERROR_AT,
    EXEMPLAR,
    INVALID,
    LABELS,
    MORE_SAMPLES,
    MORE_STREAMS,
    MS_MAX,
    NAME_PREFIX,
    SAMPLES,
    STREAMS,
    append_histograms,
    checked_labels,
    commit_stream,
    fill_stream,
    keep_sample,
    plain_samples,
    read_sample,
    tell_metadata,
    write_stream,
)
from leadline.wire.series_id import series_slice
from leadline.wire.words import byte_at, swapped, word_at

_ONES = np.uint64(2**64 - 1)


@kernel
def scan_v1(data, streams, samples, labels, metadata, pairs, state, tally):  # type: ignore[no-untyped-def]
    """Scan a prometheus.WriteRequest from `state[AT]` on. Returns: OK, or a code with `state[ERROR_AT]`."""
    end = len(data)
    start_S, end_S, ids_S = streams
    series_N, time_N, bits_N = samples
    while True:
        _plain_v1(data, start_S, end_S, ids_S, series_N, time_N, bits_N, state)
        field_at = state[AT]
        if field_at >= end:
            return OK
        state[ERROR_AT] = field_at
        field, at = tag(data, field_at, end)
        if at < 0:
            return -at
        if field == 0x0A or field == 0x1A:
            start, at = length(data, at, end)
            if at < 0:
                return -at
            if field == 0x0A:
                code = _series_v1(data, start, at, streams, samples, labels, pairs, state, tally)
            else:
                code = _metadata_v1(data, start, at, metadata, state, tally)
            if code != OK:
                return code
        else:
            at = skip(data, at, end, field)
            if at < 0:
                return -at
        state[AT] = at


@kernel
def _plain_v1(data, start_S, end_S, ids_S, series_N, time_N, bits_N, state):  # type: ignore[no-untyped-def]
    """The fast lane: take streams as Prometheus writes them, up to the first that has anything unusual in it.

    Plain is a TimeSeries of canonical labels shorter than 128 bytes and at least one sample in range, no more.
    `_series_v1` would give the same in three times the time: here everything is in one function, in registers.
    """
    size, series, n = len(data), state[STREAMS], state[SAMPLES]
    streams_max = len(start_S)
    at = state[AT]
    # 16 bytes of slack before the end: a label's or a sample's head can be loaded without a check of its own.
    while at + 16 <= size and series < streams_max and byte_at(data, at) == 0x0A:
        first, end = length(data, at + 1, size)
        if end < 0:
            break
        p, named, before, n0, n1 = first, False, np.uint64(0), first, first
        while p < end and byte_at(data, p) == 0x0A and p + 16 <= size:
            name, stop = byte_at(data, p + 3), p + 2 + byte_at(data, p + 1)
            if byte_at(data, p + 2) != 0x0A or name > 0x7F or stop > end or p + 4 + name + 2 >= stop:
                break
            value = byte_at(data, p + 5 + name)
            if byte_at(data, p + 4 + name) != 0x12 or value > 0x7F or p + 6 + name + value != stop:
                break
            if stop - p > 0x7F + 2:
                break
            prefix = swapped(word_at(data, p + 4))
            if name < 8:
                prefix &= ~(_ONES >> np.uint64(8 * name))
            elif name == 8:
                named = named or prefix == NAME_PREFIX
            if prefix < before or name == 0:
                break
            if prefix == before and compare(data, n0, n1, p + 4, p + 4 + name) >= 0:
                break
            before, n0, n1 = prefix, p + 4, p + 4 + name
            p = stop
        label_end = p
        p, taken = plain_samples(data, p, end, series, series_N, time_N, bits_N, n)
        if p != end or not named or taken == n:
            break
        low, high = series_slice(data, first, label_end)
        start_S[series] = first
        end_S[series] = label_end
        ids_S[series, 0] = low
        ids_S[series, 1] = high
        series += 1
        n = taken
        at = end
    state[AT], state[STREAMS], state[SAMPLES] = at, series, n


@kernel
def _series_v1(data, at, end, streams, samples, labels, pairs, state, tally):  # type: ignore[no-untyped-def]
    """Scan one prometheus.TimeSeries `data[at:end]` and append what it holds."""
    begin, series, first = at, state[STREAMS], state[SAMPLES]
    n, seen, histograms, exemplars, old, future = first, 0, 0, 0, 0, 0
    label_start, label_end, n0, n1 = at, at, 0, 0
    canonical, named = True, False
    while at < end:
        field_at = at
        field, at = tag(data, at, end)
        if at > 0 and field & 7 != 2:
            at = skip(data, at, end, field)
        if at < 0:
            state[ERROR_AT] = field_at
            return -at
        if field & 7 != 2:
            continue
        start, stop = length(data, at, end)
        if stop < 0:
            state[ERROR_AT] = field_at
            return -stop
        if field == 0x0A:
            if label_end == begin:
                label_start = field_at
            elif field_at != label_end:
                canonical = False
            if canonical:
                n0, n1 = _canonical_label(data, at, start, stop, n0, n1)
                canonical = n1 > 0 and at == field_at + 1
                named = named or (canonical and is_name(data, n0, n1))
            label_end = stop
        elif field == 0x12:
            seen += 1
            code, ms, bits = read_sample(data, start, stop)
            if code != OK:
                state[ERROR_AT] = start
                return code
            if ms > MS_MAX:
                future += 1
            elif ms < -MS_MAX:
                old += 1
            elif n >= len(samples[0]):
                return MORE_SAMPLES
            else:
                n = keep_sample(samples, n, series, ms, bits)
        elif field == 0x1A:
            exemplars += 1
        elif field == 0x22:
            histograms += 1
        at = stop
    if series + 3 > len(streams[0]):
        return MORE_STREAMS

    count, reason = 0, -1
    if not canonical or histograms > 0:
        code, count = _pairs_v1(data, begin, end, pairs, state)
        if code != OK:
            return code
        count, reason = checked_labels(data, pairs, count)
    elif not named:
        reason = INVALID
    if reason >= 0:
        tally[reason] += seen + 2 * histograms
        tally[EXEMPLAR] += exemplars
        return OK
    label_at = state[LABELS]
    if n > first:
        if canonical:
            fill_stream(data, label_start, label_end, 0, streams, series)
        else:
            label_at = write_stream(data, pairs, count, NO_SUFFIX, labels, label_at, len(data), streams, series)
            if label_at < 0:
                return -label_at
        series += 1
    if histograms > 0:
        return append_histograms(
            data, begin, end, 0x22, pairs, count, streams, samples, labels, len(data), state, tally,
            series, n, label_at, old, future, exemplars,
        )  # fmt: skip
    commit_stream(state, tally, series, n, label_at, old, future, exemplars)
    return OK


@kernel
def _canonical_label(data, at, start, stop, p0, p1):  # type: ignore[no-untyped-def]
    """Where the name of the label `data[start:stop]` lies, or (0, 0) if it is not canonical.

    `at`: where its length is written; `data[p0:p1]`: the name before it, empty for the first.
    """
    if not _shortest(at, start, stop) or stop - start < 6 or byte_at(data, start) != 0x0A:
        return 0, 0
    n0, n1 = length(data, start + 1, stop)
    if (
        n1 <= n0
        or n1 - n0 > NAME_BYTES_MAX
        or n1 >= stop
        or byte_at(data, n1) != 0x12
        or not _shortest(start + 1, n0, n1)
    ):
        return 0, 0
    v0, v1 = length(data, n1 + 1, stop)
    if v1 != stop or v1 == v0 or not _shortest(n1 + 1, v0, v1):
        return 0, 0
    if p1 > 0 and compare(data, p0, p1, n0, n1) >= 0:
        return 0, 0
    return n0, n1


@kernel
def _shortest(at, start, stop):  # type: ignore[no-untyped-def]
    """Whether the length `stop - start`, written at `data[at:start]`, is a varint of the shortest form."""
    size, width = stop - start, 1
    while size > 0x7F:
        size >>= 7
        width += 1
    return start - at == width


@kernel
def _pairs_v1(data, at, end, pairs, state):  # type: ignore[no-untyped-def]
    """Where the labels of a TimeSeries lie: (code, their number); beyond LABELS_MAX they are counted only."""
    count = 0
    while at < end:
        field, at = tag(data, at, end)
        if field != 0x0A:
            at = skip(data, at, end, field)  # seen before, so it is well-formed
            continue
        at, stop = length(data, at, end)
        n0, n1, v0, v1 = at, at, at, at
        while at < stop:
            state[ERROR_AT] = at
            field, at = tag(data, at, stop)
            if at < 0:
                return -at, count
            if field == 0x0A:
                n0, at = length(data, at, stop)
                n1 = at
            elif field == 0x12:
                v0, at = length(data, at, stop)
                v1 = at
            else:
                at = skip(data, at, stop, field)
            if at < 0:
                return -at, count
        if count < LABELS_MAX:
            pairs[count, 0], pairs[count, 1], pairs[count, 2], pairs[count, 3] = n0, n1, v0, v1
        count += 1
    return OK, count


@kernel
def _metadata_v1(data, at, end, metadata, state, tally):  # type: ignore[no-untyped-def]
    """Scan one MetricMetadata into a row of `metadata`: type, and where name, help and unit lie."""
    kind, n0, n1, h0, h1, u0, u1 = np.int64(0), at, at, at, at, at, at
    while at < end:
        state[ERROR_AT] = at
        field, at = tag(data, at, end)
        if at < 0:
            return -at
        if field == 0x08:
            value, at = varint(data, at, end)
            kind = np.int64(value & np.uint64(0xFFFFFFFF))
        elif field == 0x12 or field == 0x22 or field == 0x2A:
            start, at = length(data, at, end)
            if field == 0x12:
                n0, n1 = start, at
            elif field == 0x22:
                h0, h1 = start, at
            else:
                u0, u1 = start, at
        else:
            at = skip(data, at, end, field)
        if at < 0:
            return -at
    if n1 > n0:
        tell_metadata(metadata, state, tally, kind, n0, n1, h0, h1, u0, u1)
    return OK
