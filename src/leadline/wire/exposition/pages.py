"""Decodes exposition pages: the Prometheus text format 0.0.4 and OpenMetrics 1.0, as scrapes bring them.

    # TYPE http_requests_total counter
    http_requests_total{method="post",code="200"} 1027 1395066363000
    {"http.requests", method="post"} 3                                    Prometheus 3: any UTF-8 name, quoted

Source: prometheus/docs, exposition_formats.md; OpenMetrics 1.0 (ABNF); Prometheus 3, "UTF-8 in Prometheus".
Where they are stricter than a scraper needs (order of metadata, one blank between fields), both forms of a line
are taken; docs/formats/exposition.md lists each choice. The body arrives whole: `wire.body.Body` collects it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.model.errors import DataError, RefusedError
from leadline.model.units import COUNT, canonical_unit
from leadline.wire.exposition import kernels
from leadline.wire.labels import LABELS_MAX
from leadline.wire.samples import Metadata, Samples

OPENMETRICS = "application/openmetrics-text"

# What stands in an error, by the codes of `exposition_kernels`.
EXPECTED = (
    "",
    "a metric name ([a-zA-Z_:][a-zA-Z0-9_:]*, or quoted in braces)",
    "a label name ([a-zA-Z_][a-zA-Z0-9_]*, or quoted)",
    "'=' behind the label name",
    "a quoted label value",
    "a closing quote on the same line",
    "',' or '}' behind the label",
    "a number, +Inf, -Inf or NaN",
    "a time in integer milliseconds within the years 1677 to 2262",
    "a time in seconds within the years 1677 to 2262",
    "the end of the line, or an exemplar (OpenMetrics)",
    "each label name, and the metric's name, once",
    "room for the labels",
)

TYPES = frozenset(
    (
        "counter", "gauge", "histogram", "summary", "untyped",
        "unknown", "info", "stateset", "gaugehistogram",  # OpenMetrics
    )
)  # fmt: skip

# Names of samples of one family, so that a stream finds its metadata under its own name.
_SUFFIXES = {
    "counter": ("_total",),
    "info": ("_info",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "summary": ("_count", "_sum"),
}

_COUNTS = ("_bucket", "_count", "_gcount")  # these count observations, whatever the unit of what is observed

# A blank is a space or a tab: what else Unicode counts as one (0x1c, 0x85) is a part of words.
_TOLD = re.compile(r"#[ \t]+(HELP|TYPE|UNIT)(?:[ \t]+(.*))?", re.DOTALL)
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"|([^ \t"][^ \t]*)', re.DOTALL)
_EXCERPT_BYTES = 60  # of a bad line, in an error
_TIME_MAX_S = 9_223_372_036


class _Page(NamedTuple):
    """What one scan of a page filled; L = lines that can hold a sample. See `exposition_kernels.scan`."""

    counts: NDArray[np.int64]  # at the places of `exposition_kernels`
    label_bytes: NDArray[np.uint8]
    label_start: NDArray[np.int64]  # (L,), as the following
    label_end: NDArray[np.int64]
    ids: NDArray[np.uint64]  # (L, 2)
    time_ns: NDArray[np.int64]
    value: NDArray[np.float64]
    hard_value: NDArray[np.int64]  # (L, 3), as the following
    hard_time: NDArray[np.int64]
    comments: NDArray[np.int64]  # (C, 3)


def decode_exposition(body: bytes, content_type: str, now_ns: int) -> Samples:
    """Streams, samples and metadata of one page.

    Inputs: the page; the answer's content type (`application/openmetrics-text` says OpenMetrics, anything else
    is read as Prometheus text); the time of the scrape, which lines without a time of their own get.
    Returns: one stream and one sample per line, in the order of the page. NaN is Prometheus' ordinary NaN.
    Metadata is keyed by family and by the names of the family's samples.
    Errors: DataError naming the first line that is malformed: nothing of such a page is kept.
    RefusedError for protobuf, which a scraper must not ask for.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type.startswith("application/vnd.google.protobuf"):
        raise RefusedError("unsupported_encoding", f"a page in {media_type}; ask for text or {OPENMETRICS}")
    openmetrics = media_type == OPENMETRICS
    body = bytes(body)
    _check_text(body)
    page = _scan(body, openmetrics, now_ns)
    samples, label_bytes, hard_values, hard_times, comments, exemplars, crowded, long = page.counts.tolist()
    for sample, start, end in page.hard_value[:hard_values].tolist():
        page.value[sample] = float(body[start:end])
    for sample, start, end in page.hard_time[:hard_times].tolist():
        page.time_ns[sample] = _exact_ns(body, start, end)
    metadata = _metadata(body, page.comments[:comments].tolist(), openmetrics)
    dropped = {"exemplar": exemplars, "labels_too_many": crowded, "label_too_long": long}
    return Samples(
        label_bytes=page.label_bytes[:label_bytes],
        label_start=page.label_start[:samples],
        label_end=page.label_end[:samples],
        ids=page.ids[:samples],
        sample_series=np.arange(samples, dtype=np.int64),
        time_ns=page.time_ns[:samples],
        value=page.value[:samples],
        metadata=metadata,
        dropped={reason: count for reason, count in dropped.items() if count},
    )


def _check_text(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        got = f"byte {body[error.start]:#04x} at byte {error.start} ({error.reason})"
        raise DataError(f"line {line}", "UTF-8 text", got) from None


def _scan(body: bytes, openmetrics: bool, now_ns: int) -> _Page:
    """Run the kernel over a copy of the page. Errors: DataError."""
    copy = np.frombuffer(body + b"__name__", np.uint8).copy()
    samples = min(body.count(b"\n"), len(body) // 4) + 1  # the shortest line with a sample is `a 1`
    page = _Page(
        counts=np.zeros(kernels.COUNTS_SIZE, np.int64),
        label_bytes=np.empty(_label_room(body, samples), np.uint8),
        label_start=np.empty(samples, np.int64),
        label_end=np.empty(samples, np.int64),
        ids=np.empty((samples, 2), np.uint64),
        time_ns=np.empty(samples, np.int64),
        value=np.empty(samples, np.float64),
        hard_value=np.empty((samples, 3), np.int64),
        hard_time=np.empty((samples, 3), np.int64),
        comments=np.empty((body.count(b"#"), 3), np.int64),
    )
    pairs = np.empty((LABELS_MAX + 1, 4), np.int64)  # one more: a label beyond is read there
    error, line, begin, at = kernels.scan(copy, len(body), openmetrics, now_ns, pairs, *page)
    assert error != kernels.ROOM, "canonical labels are longer than _label_room allows"
    if error != kernels.OK:
        raise DataError(f"line {line}, character {at - begin + 1}", EXPECTED[error], _excerpt(body, at))
    return page


def _label_room(body: bytes, samples: int) -> int:
    """Most bytes that the canonical labels of a page can take.

    A label is `name="value"` on the page (3 bytes beside name and value) and 3 tags with 3 varints in the
    output; a varint takes 1 byte and 1 more for at most every 128 bytes of its text, so 3 per label + 1/32 of
    the text covers them all. The metric's name has no quotes but adds 8 bytes of `__name__` and 6 of framing.
    """
    labels = body.count(b'"') // 2
    return len(body) + len(body) // 32 + 4 * labels + 32 * samples + 64


def _excerpt(body: bytes, at: int) -> str:
    """What stands at a place of the page, cut short, for an error."""
    end = body.find(b"\n", at)
    text = body[at : len(body) if end < 0 else end].decode(errors="replace")
    if not text:
        return "the end of the line"
    return repr(text if len(text) <= _EXCERPT_BYTES else text[:_EXCERPT_BYTES] + "...")


def _exact_ns(body: bytes, start: int, end: int) -> int:
    """Seconds written with an exponent or over nine decimals, rounded to ns. Errors: DataError."""
    text = body[start:end].decode()
    rough = float(text)
    if abs(rough) >= _TIME_MAX_S:
        line = body.count(b"\n", 0, start) + 1
        raise DataError(f"line {line}", EXPECTED[kernels.SECONDS], repr(text[:_EXCERPT_BYTES]))
    if abs(rough) < 1e-10:  # also keeps Decimal away from exponents it cannot hold
        return 0
    return round(Decimal(text) * 1_000_000_000)


def _metadata(body: bytes, comments: list[list[int]], openmetrics: bool) -> dict[str, Metadata]:
    """TYPE, UNIT and HELP by name; checks that OpenMetrics ends with `# EOF`. Errors: DataError."""
    told: dict[str, dict[str, str]] = {}
    ended = False
    for line, start, end in comments:
        text = body[start:end].decode()
        if openmetrics and text == "# EOF":
            _check_nothing_follows(body, line, end)
            ended = True
            continue
        meant = _TOLD.fullmatch(text.removesuffix("\r"))
        if meant is None:
            continue
        word = meant[1]
        name, rest = _told_name(line, word, meant[2] or "")
        if word == "TYPE" and rest not in TYPES:
            raise DataError(f"line {line}", f"a type ({', '.join(sorted(TYPES))})", repr(rest[:_EXCERPT_BYTES]))
        told.setdefault(name, {})[word] = rest
    if openmetrics and not ended:
        raise DataError("the page", "'# EOF' as the last line (OpenMetrics)", "a page without it; it may be cut off")
    return _by_sample_name(told)


def _check_nothing_follows(body: bytes, line: int, end: int) -> None:
    if body[end:].strip(b"\r\n"):
        raise DataError(f"line {line + 1}", "nothing behind '# EOF'", _excerpt(body, body.find(b"\n", end) + 1))


def _told_name(line: int, word: str, rest: str) -> tuple[str, str]:
    """Split `name text` behind HELP, TYPE or UNIT; the name may be quoted. Errors: DataError."""
    found = _NAME.match(rest)
    name = "" if found is None else found[2] or _unescaped(found[1] or "")
    if found is None or not name:
        got = repr(rest[:_EXCERPT_BYTES]) if rest else "none"
        raise DataError(f"line {line}", f"a metric name behind # {word}", got)
    text = rest[found.end() :].lstrip(" \t")
    return name, text if word == "HELP" else text.rstrip(" \t")


def _unescaped(text: str) -> str:
    r"""Undo `\\`, `\"` and `\n`; other backslashes stay."""
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair in ("\\\\", '\\"', "\\n"):
            out.append("\n" if pair == "\\n" else pair[1])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _by_sample_name(told: dict[str, dict[str, str]]) -> dict[str, Metadata]:
    metadata = {}
    for name, words in told.items():
        kind = words.get("TYPE", "")
        one = Metadata(
            "" if kind in ("untyped", "unknown") else kind,
            canonical_unit(words.get("UNIT", "")),
            _unescaped(words.get("HELP", "")),
        )
        metadata[name] = one
        for suffix in _SUFFIXES.get(kind, ()):
            if name + suffix not in told and not name.endswith(suffix):
                counted = bool(one.unit) and suffix in _COUNTS
                metadata[name + suffix] = replace(one, unit=COUNT) if counted else one
    return metadata
