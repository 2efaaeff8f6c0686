"""Makes streams of scanned OTLP points: `list_streams` says which, `write_streams` writes their labels and ids.

Of a number there is one stream; of a histogram or summary one for its count, its sum, each bucket or quantile.
docs/formats/otlp.md has the mapping.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.labels import (
    LABELS_MAX,
    LATER_WINS,
    NO_SUFFIX,
    TOO_LONG,
    Pairs,
    canonical_bytes_max,
    in_order,
    is_name,
    write_canonical,
)
from leadline.wire.otlp.arena import (
    DELTA_TEXT,
    INFINITY,
    LE,
    NAME_LABEL,
    QUANTILE,
    SCOPE_LABEL,
    SUFFIX_AT,
    TEMPORALITY_LABEL,
)
from leadline.wire.otlp.tables import (
    ATTRIBUTE_HI,
    ATTRIBUTE_LO,
    BOUND_HI,
    BOUND_LO,
    BUCKET_HI,
    BUCKET_LO,
    COUNT,
    DATA,
    DELTA,
    FLAGS,
    GAUGE,
    GIVEN,
    HISTOGRAM,
    KEY,
    KEY_SIZE,
    METRIC,
    NAME,
    NAME_SIZE,
    NAMES_AT,
    NO_RECORDED_VALUE,
    POINTS,
    SCOPE,
    SCOPE_HI,
    SCOPE_LO,
    SCOPE_NAME,
    SCOPE_NAME_SIZE,
    SUM,
    SUMMARY,
    TEMPORALITY,
    TIME,
    VALUE,
    VALUE_SIZE,
    Bytes,
    Doubles,
    Ints,
    Tables,
)
from leadline.wire.samples import STALE_NAN_BITS
from leadline.wire.series_id import series_slice

# Places in `counts`, which `list_streams` and `write_streams` share.
LISTED, STREAMS, LABEL_BYTES, NO_TIME, LATE, EMPTY, CROWDED, UNNAMED, LONG, LOST_BUCKETS, ROOM, COUNTS_SIZE = range(12)

# Columns of `listed`: the stream's point, the span of its name, the spans of one label more (le, quantile).
POINT, FULL_NAME, FULL_NAME_SIZE, MORE, MORE_SIZE, MORE_TEXT, MORE_TEXT_SIZE = range(7)

# Suffixes of names, as `otlp_arena.SUFFIXES` has them; _PLAIN: the name as it is.
_PLAIN, _BUCKET, _COUNT_OF, _SUM_OF = -1, 0, 1, 2

_STALE = np.array([STALE_NAN_BITS], np.uint64).view(np.float64)[0]
_SPECIALS = 4  # labels beside attributes: scope, temporality, le or quantile, name


@kernel
def list_streams(
    t: Tables,
    counts: Ints,
    listed: Ints,
    value: Doubles,
    words: int,
    texts: Ints,
) -> None:
    """List the streams that the points are, each with its value; what is left out is counted.

    Inputs: scanned tables; `counts` of zeros; `listed` (L, 7) and `value` (L,) with room for all; where WORDS
    stand in the arena; `texts` (D, 2), the spans of the bounds' and quantiles' texts.
    """
    for point in range(t.state[POINTS]):
        time, given = t.points[point, TIME], t.points[point, GIVEN]
        stale = t.points[point, FLAGS] & NO_RECORDED_VALUE != 0
        metric = t.metrics[t.points[point, METRIC]]
        kind = metric[DATA]
        if time <= 0:
            counts[NO_TIME if time == 0 else LATE] += 1
            continue
        if metric[NAME_SIZE] == 0:
            counts[UNNAMED] += 1
            continue
        first = counts[LISTED]
        if kind in (GAUGE, SUM):
            if given == 0 and not stale:
                counts[EMPTY] += 1
                continue
            _list(counts, listed, value, metric, point, _PLAIN, t.value[point, 0])
        else:
            everything = np.float64(np.uint64(t.points[point, COUNT]))
            _list(counts, listed, value, metric, point, _COUNT_OF, everything)
            if kind == SUMMARY:
                if given & 1 == 0:
                    t.value[point, 0] = 0.0  # protobuf leaves out a zero
                given = 1
            for i in range(3):
                if given & 1 << i:
                    _list(counts, listed, value, metric, point, _SUM_OF + i, t.value[point, i])
            if kind == HISTOGRAM:
                _list_buckets(t, counts, listed, value, point, words, texts)
            elif kind == SUMMARY:
                _list_quantiles(t, counts, listed, value, point, words, texts)
        if stale:
            value[first : counts[LISTED]] = _STALE


@kernel
def _list(
    counts: Ints,
    listed: Ints,
    value: Doubles,
    metric: Ints,
    point: int,
    suffix: int,
    number: float,
) -> int:
    """Append one stream with its value and no label more; returns its row."""
    row = counts[LISTED]
    counts[LISTED] = row + 1
    start, size = metric[NAME], metric[NAME_SIZE]
    if suffix != _PLAIN:
        start = metric[NAMES_AT] + suffix * size + SUFFIX_AT[suffix]
        size += SUFFIX_AT[suffix + 1] - SUFFIX_AT[suffix]
    listed[row, POINT], listed[row, FULL_NAME], listed[row, FULL_NAME_SIZE] = point, start, size
    listed[row, MORE] = listed[row, MORE_SIZE] = listed[row, MORE_TEXT] = listed[row, MORE_TEXT_SIZE] = 0
    value[row] = number
    return int(row)


@kernel
def _list_buckets(
    t: Tables,
    counts: Ints,
    listed: Ints,
    value: Doubles,
    point: int,
    words: int,
    texts: Ints,
) -> None:
    """Append the buckets of a histogram, cumulative, the one without a bound last."""
    metric = t.metrics[t.points[point, METRIC]]
    lo, bounds = t.points[point, BOUND_LO], t.points[point, BOUND_HI] - t.points[point, BOUND_LO]
    first = t.points[point, BUCKET_LO]
    given = t.points[point, BUCKET_HI] - first
    if given != bounds + 1 and (given != 0 or bounds != 0):
        counts[LOST_BUCKETS] += max(given, bounds + 1)
        return
    total = np.uint64(0)
    for i in range(bounds + 1):
        last = i == bounds
        if last:
            total = np.uint64(t.points[point, COUNT])
        else:
            total += np.uint64(t.buckets[first + i])
        row = _list(counts, listed, value, metric, point, _BUCKET, np.float64(total))
        listed[row, MORE], listed[row, MORE_SIZE] = words + LE[0], LE[1]
        listed[row, MORE_TEXT] = words + INFINITY[0] if last else texts[lo + i, 0]
        listed[row, MORE_TEXT_SIZE] = INFINITY[1] if last else texts[lo + i, 1]


@kernel
def _list_quantiles(
    t: Tables,
    counts: Ints,
    listed: Ints,
    value: Doubles,
    point: int,
    words: int,
    texts: Ints,
) -> None:
    """Append the quantiles of a summary."""
    metric = t.metrics[t.points[point, METRIC]]
    for i in range(t.points[point, BOUND_LO], t.points[point, BOUND_HI], 2):
        row = _list(counts, listed, value, metric, point, _PLAIN, t.bounds[i + 1])
        listed[row, MORE], listed[row, MORE_SIZE] = words + QUANTILE[0], QUANTILE[1]
        listed[row, MORE_TEXT], listed[row, MORE_TEXT_SIZE] = texts[i, 0], texts[i, 1]


@kernel
def write_streams(
    attributes: Ints,
    scopes: Ints,
    metrics: Ints,
    points: Ints,
    arena: Bytes,
    words: int,
    pairs: Pairs,
    counts: Ints,
    listed: Ints,
    value: Doubles,
    label_bytes: Bytes,
    label_start: Ints,
    label_end: Ints,
    ids: NDArray[np.uint64],
    time_ns: Ints,
) -> None:
    """Write labels, id and time of every listed stream; `value` is closed up where one is left out.

    Inputs: what `scan` and `list_streams` filled; the arena and where WORDS stand in it; (LABELS_MAX, 4) `pairs`,
    scratch. Later labels win: those of the resource, the scope, the point, then ours. With `counts[ROOM]` > 0
    `label_bytes` was too small, and the caller lists and writes again.
    """
    used = streams = 0
    for row in range(counts[LISTED]):
        point = listed[row, POINT]
        metric = points[point, METRIC]
        scope = metrics[metric, SCOPE]
        lo, hi = scopes[scope, SCOPE_LO], scopes[scope, SCOPE_HI]
        own_lo, own_hi = points[point, ATTRIBUTE_LO], points[point, ATTRIBUTE_HI]
        if hi - lo + own_hi - own_lo + _SPECIALS > LABELS_MAX:
            counts[CROWDED] += 1
            continue
        # The name first: it sorts before lower case, so the insertion has nothing to move.
        start, size = listed[row, FULL_NAME], listed[row, FULL_NAME_SIZE]
        count = _add(pairs, 0, words + NAME_LABEL[0], NAME_LABEL[1], start, size)
        count = _add_attributes(attributes, lo, hi, arena, pairs, count)
        start, size = scopes[scope, SCOPE_NAME], scopes[scope, SCOPE_NAME_SIZE]
        if size > 0:
            count = _add(pairs, count, words + SCOPE_LABEL[0], SCOPE_LABEL[1], start, size)
        count = _add_attributes(attributes, own_lo, own_hi, arena, pairs, count)
        if metrics[metric, TEMPORALITY] == DELTA:
            start, size = words + TEMPORALITY_LABEL[0], TEMPORALITY_LABEL[1]
            count = _add(pairs, count, start, size, words + DELTA_TEXT[0], DELTA_TEXT[1])
        if listed[row, MORE_SIZE] > 0:
            start, size = listed[row, MORE_TEXT], listed[row, MORE_TEXT_SIZE]
            count = _add(pairs, count, listed[row, MORE], listed[row, MORE_SIZE], start, size)
        kept = in_order(arena, pairs, count, LATER_WINS)
        if kept < 0:
            counts[LONG if kept == TOO_LONG else UNNAMED] += 1  # unnamed: an attribute without a key
            continue
        if canonical_bytes_max(pairs, kept, 0) > len(label_bytes) - used:
            counts[ROOM] = 1
            return
        end = write_canonical(arena, pairs, kept, NO_SUFFIX, label_bytes, used)
        label_start[streams] = used
        label_end[streams] = end
        low, high = series_slice(label_bytes, used, end)
        ids[streams, 0] = low
        ids[streams, 1] = high
        time_ns[streams] = points[point, TIME]
        value[streams] = value[row]
        streams += 1
        used = end
    counts[STREAMS] = streams
    counts[LABEL_BYTES] = used


@kernel
def _add(pairs: Pairs, row: int, name: int, name_size: int, value: int, value_size: int) -> int:
    """Append a label. Returns: how many there are now."""
    pairs[row, 0], pairs[row, 1] = name, name + name_size
    pairs[row, 2], pairs[row, 3] = value, value + value_size
    return row + 1


@kernel
def _add_attributes(attributes: Ints, lo: int, hi: int, arena: Bytes, pairs: Pairs, count: int) -> int:
    """Append attributes as labels. One named `__name__` is left out: the metric's own name stands."""
    for row in range(lo, hi):
        key, size = attributes[row, KEY], attributes[row, KEY_SIZE]
        if not is_name(arena, key, key + size):
            count = _add(pairs, count, key, size, attributes[row, VALUE], attributes[row, VALUE_SIZE])
    return count
