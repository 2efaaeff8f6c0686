"""The scanner of remote-write 2.0 bodies: io.prometheus.write.v2.Request, whose labels are references.

`_plain_v2` is the fast lane for what Prometheus sends; `_series_v2` takes everything else, stream by stream.
Both give the same for what both take; a property test holds them to it.
"""

from __future__ import annotations

import numpy as np

from leadline.wire.kernel import kernel
from leadline.wire.labels import LABELS_MAX, NO_SUFFIX, compare, is_name
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
    keep_sample,
    plain_samples,
    read_sample,
    tell_metadata,
    write_stream,
)
from leadline.wire.series_id import series_slice
from leadline.wire.words import byte_at, put_word, word_at


@kernel
def scan_symbols(data, spans, prefixes):  # type: ignore[no-untyped-def]
    """Where the symbols of a v2 Request lie: (OK, how many), or (code, position). Writes as many as fit."""
    at, end, number = 0, len(data), 0
    while at < end:
        field_at = at
        field, at = tag(data, at, end)
        if at > 0 and field == 0x22:
            start, at = length(data, at, end)
            if at > 0:
                if number < len(spans):
                    spans[number, 0], spans[number, 1] = start, at
                    prefixes[number] = _prefix(data, start, at)
                number += 1
        elif at > 0:
            at = skip(data, at, end, field)
        if at < 0:
            return -at, field_at
    return OK, number


@kernel
def _prefix(data, start, end):  # type: ignore[no-untyped-def]
    """The first 8 bytes of a slice as a number that compares as they do; zeros where it is shorter."""
    prefix = np.uint64(0)
    for i in range(min(8, end - start)):
        prefix |= np.uint64(byte_at(data, start + i)) << np.uint64(56 - 8 * i)
    return prefix


@kernel
def scan_v2(data, symbols, told, streams, samples, labels, metadata, pairs, state, tally):  # type: ignore[no-untyped-def]
    """Scan an io.prometheus.write.v2.Request from `state[AT]` on, as `scan_v1` does."""
    end = len(data)
    spans, prefixes = symbols
    start_S, end_S, ids_S = streams
    series_N, time_N, bits_N = samples
    while True:
        _plain_v2(data, spans, prefixes, told, start_S, end_S, ids_S, series_N, time_N, bits_N, labels, state)
        field_at = state[AT]
        if field_at >= end:
            return OK
        field, at = tag(data, field_at, end)  # `scan_symbols` saw all of these: they are well-formed
        if field == 0x2A:
            start, at = length(data, at, end)
            code = _series_v2(data, start, at, spans, told, streams, samples, labels, metadata, pairs, state, tally)
            if code != OK:
                return code
        else:
            at = skip(data, at, end, field)
        state[AT] = at


@kernel
def _plain_v2(  # type: ignore[no-untyped-def]
    data, spans, prefixes, told, start_S, end_S, ids_S, series_N, time_N, bits_N, labels, state
):
    """The fast lane of version 2: as `_plain_v1`, with metadata, and the labels written out from symbols."""
    size, series, n, label_at = len(data), state[STREAMS], state[SAMPLES], state[LABELS]
    symbols, streams_max, labels_max = np.uint64(len(spans)), len(start_S), len(labels)
    at = state[AT]
    while at + 16 <= size and series < streams_max and byte_at(data, at) == 0x2A:
        first, end = length(data, at + 1, size)
        if end < 0 or end - first < 4 or byte_at(data, first) != 0x0A:
            break
        p, refs_end = length(data, first + 1, end)
        if refs_end < 0:
            break
        out, name_ref, before, n0, n1 = label_at, np.int64(-1), np.uint64(0), 0, 0
        while p < refs_end:
            name, p = varint(data, p, refs_end)
            if p < 0:
                break
            value, p = varint(data, p, refs_end)
            if p < 0 or name >= symbols or value >= symbols:
                p = -1
                break
            key, text = np.int64(name), np.int64(value)
            m0, m1, v0, v1 = spans[key, 0], spans[key, 1], spans[text, 0], spans[text, 1]
            whole, prefix = 4 + m1 - m0 + v1 - v0, prefixes[key]
            unlike = m1 == m0 or v1 == v0 or whole > 0x7F or prefix < before
            if unlike or out + whole + 18 > labels_max or m1 + 8 > size or v1 + 8 > size:
                p = -1
                break
            if prefix == before and compare(data, n0, n1, m0, m1) >= 0:
                p = -1
                break
            if m1 - m0 == 8 and prefix == NAME_PREFIX:
                name_ref = text
            before, n0, n1 = prefix, m0, m1
            labels[out], labels[out + 1], labels[out + 2], labels[out + 3] = 0x0A, whole, 0x0A, m1 - m0
            out += 4
            for i in range(0, m1 - m0, 8):  # words may run past the end, into what is written next
                put_word(labels, out + i, word_at(data, m0 + i))
            out += m1 - m0
            labels[out], labels[out + 1] = 0x12, v1 - v0
            out += 2
            for i in range(0, v1 - v0, 8):
                put_word(labels, out + i, word_at(data, v0 + i))
            out += v1 - v0
        if p < 0 or name_ref < 0:
            break
        p, taken = plain_samples(data, p, end, series, series_N, time_N, bits_N, n)
        if taken == n:
            break
        if p < end and byte_at(data, p) == 0x2A:
            start, p = length(data, p + 1, end)
            if not told[name_ref] or p < 0 or _metadata_v2(data, start, p, 0, 0, 0)[0] != OK:
                break
        if p != end:
            break
        low, high = series_slice(labels, label_at, out)
        start_S[series] = label_at
        end_S[series] = out
        ids_S[series, 0] = low
        ids_S[series, 1] = high
        series += 1
        n = taken
        at = end
        label_at = out
    state[AT], state[STREAMS], state[SAMPLES], state[LABELS] = at, series, n, label_at


@kernel
def _series_v2(data, at, end, symbols, told, streams, samples, labels, metadata, pairs, state, tally):  # type: ignore[no-untyped-def]
    """Scan one v2 TimeSeries `data[at:end]` and append what it holds."""
    begin, series, first = at, state[STREAMS], state[SAMPLES]
    n, seen, histograms, exemplars, old, future = first, 0, 0, 0, 0, 0
    refs, name_ref, is_told = 0, -1, False
    kind, help_ref, unit_ref = np.int64(0), np.int64(0), np.int64(0)
    while at < end:
        field_at = at
        field, at = tag(data, at, end)
        if at > 0 and field == 0x08:
            ref, after = varint(data, at, end)
            if after > 0:
                refs, name_ref = _refer(data, ref, refs, name_ref, symbols, pairs)
            at = after
        elif at > 0 and field & 7 != 2:
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
        code = OK
        if field == 0x0A:
            while start < stop:
                ref, after = varint(data, start, stop)
                if after < 0:
                    state[ERROR_AT] = start
                    return -after
                refs, name_ref = _refer(data, ref, refs, name_ref, symbols, pairs)
                start = after
        elif field == 0x12:
            seen += 1
            code, ms, bits = read_sample(data, start, stop)
            if code == OK:
                if ms > MS_MAX:
                    future += 1
                elif ms < -MS_MAX:
                    old += 1
                elif n >= len(samples[0]):
                    return MORE_SAMPLES
                else:
                    n = keep_sample(samples, n, series, ms, bits)
        elif field == 0x1A:
            histograms += 1
        elif field == 0x22:
            exemplars += 1
        elif field == 0x2A:
            is_told = True
            code, kind, help_ref, unit_ref = _metadata_v2(data, start, stop, kind, help_ref, unit_ref)
        if code != OK:
            state[ERROR_AT] = start
            return code
        at = stop
    if series + 3 > len(streams[0]):
        return MORE_STREAMS

    count, reason = 0, INVALID
    if refs >= 0 and refs % 2 == 0:
        count, reason = checked_labels(data, pairs, refs // 2)
    if reason >= 0:
        tally[reason] += seen + 2 * histograms
        tally[EXEMPLAR] += exemplars
        return OK
    label_at = state[LABELS]
    if n > first:
        label_at = write_stream(data, pairs, count, NO_SUFFIX, labels, label_at, 0, streams, series)
        if label_at < 0:
            return -label_at
        series += 1
    if histograms > 0:
        code = append_histograms(
            data, begin, end, 0x1A, pairs, count, streams, samples, labels, 0, state, tally,
            series, n, label_at, old, future, exemplars,
        )  # fmt: skip
        if code != OK:
            return code
    else:
        commit_stream(state, tally, series, n, label_at, old, future, exemplars)
    if is_told and name_ref >= 0 and not told[name_ref]:
        told[name_ref] = True
        n0, n1 = symbols[name_ref, 0], symbols[name_ref, 1]
        h0, h1 = _symbol(symbols, help_ref)
        u0, u1 = _symbol(symbols, unit_ref)
        tell_metadata(metadata, state, tally, kind, n0, n1, h0, h1, u0, u1)
    return OK


@kernel
def _refer(data, ref, refs, name_ref, symbols, pairs):  # type: ignore[no-untyped-def]
    """Take one more of a stream's label references: (references so far or -1 if one was bad, the name's)."""
    symbol = np.int64(ref & np.uint64(0xFFFFFFFF))
    if refs < 0 or symbol >= len(symbols):
        return np.int64(-1), name_ref
    label, column = refs // 2, 2 * (refs % 2)
    if label < LABELS_MAX:
        pairs[label, column], pairs[label, column + 1] = symbols[symbol, 0], symbols[symbol, 1]
        is_value = column == 2 and pairs[label, 3] > pairs[label, 2]
        if is_value and is_name(data, pairs[label, 0], pairs[label, 1]):
            name_ref = symbol
    return refs + 1, name_ref


@kernel
def _symbol(symbols, ref):  # type: ignore[no-untyped-def]
    """Where a symbol lies; the empty slice if there is none."""
    if ref >= len(symbols):
        return np.int64(0), np.int64(0)
    return symbols[ref, 0], symbols[ref, 1]


@kernel
def _metadata_v2(data, at, end, kind, help_ref, unit_ref):  # type: ignore[no-untyped-def]
    """Scan a v2 Metadata over what an earlier one of the same stream said: (code, type, help, unit)."""
    while at < end:
        field, at = tag(data, at, end)
        if at < 0:
            return -at, kind, help_ref, unit_ref
        if field == 0x08 or field == 0x18 or field == 0x20:
            value, at = varint(data, at, end)
            number = np.int64(value & np.uint64(0xFFFFFFFF))
            if field == 0x08:
                kind = number
            elif field == 0x18:
                help_ref = number
            else:
                unit_ref = number
        else:
            at = skip(data, at, end, field)
        if at < 0:
            return -at, kind, help_ref, unit_ref
    return OK, kind, help_ref, unit_ref
