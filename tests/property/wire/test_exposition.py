"""Laws of exposition pages: the scanner agrees with a plain reader and with prometheus_client; nothing crashes it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from tests.oracle.agreement import bits, exposition_agrees, rows_of

from leadline.wire.exposition.pages import OPENMETRICS, decode_exposition

NOW_NS = 1_700_000_000_123_456_789
TEXT = "text/plain; version=0.0.4"


good_numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=6).map(str),
    st.tuples(st.text("0123456789", min_size=1, max_size=25), st.integers(-330, 330)).map(lambda p: f"{p[0]}e{p[1]}"),
    st.sampled_from(
        ["+Inf", "-inf", "NaN", "infinity", "9223372036854775794", "1.", ".5", "-0", "+7", "0e999", "1e999"]
    ),
)
numbers = st.one_of(good_numbers, good_numbers, st.text("0123456789.eE+-naifty_x", max_size=8))
names = st.sampled_from(["a", "up", "node_x_total", "le", "_", "Z9"])
values = st.one_of(st.text(max_size=8), st.sampled_from(["", 'q"', "b\\", "\n", "é", "x" * 130, "\\n", "\x00"]))
blanks = st.sampled_from(["", " ", "  ", "\t"])
TIMES = {
    TEXT: ["", "", " 1395066363000", " -5", " +9223372036854"],
    OPENMETRICS: ["", "", " 1520879607.789", " -5", " 1.5e9", " 1.1234567891", " 1760000000.123456789", " 9223372035"],
}
EXEMPLARS = {TEXT: [""], OPENMETRICS: ["", "", ' # {trace_id="x"} 0.5', " # {} 1 1.5"]}
BAD_TAILS = [
    " 1.5.5",
    " nan",
    " 1x",
    " 9223372036855",
    " 9223372036",
    " # x",
    "# {} 1",
    " #{} 1 2 3",
    "{",
    ' # {"a"} 1',
    " 1e400",
]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def bent(draw: st.DrawFn) -> bool:
    """Whether this place of a line is to be wrong, or odd: seldom, so that most lines are read."""
    return draw(st.integers(0, 24)) == 24


@st.composite
def lines(draw: st.DrawFn, content_type: str = TEXT) -> str:
    """A line that is mostly well formed."""
    labels = draw(st.lists(st.tuples(names, values), max_size=5, unique_by=lambda pair: pair[0]))
    if bent(draw):
        labels.append(draw(st.sampled_from([("__name__", "x"), ("A:b", ""), ("", "y"), ("1", "")])))
    written = []
    for key, text in labels:
        before, middle, after = (draw(blanks) for _ in range(3))
        written.append(f"{before}{quoted(key) if draw(st.booleans()) else key}{middle}={after}{quoted(text)}{middle}")
    name = draw(st.sampled_from(["up", "A:b", "le", ":", "x" * 200]))
    if draw(st.integers(0, 4)) == 0:
        written.insert(draw(st.integers(0, len(written))), quoted(draw(st.text(min_size=1, max_size=6))))
        name = draw(names) if bent(draw) else ""
    head = name
    if written or draw(st.booleans()):
        trailing = draw(st.sampled_from(["", ","])) if written or bent(draw) else ""
        head = name + draw(blanks) + "{" + ",".join(written) + trailing + "}"
    number = draw(st.text("0123456789.eE+-naifty_x", max_size=8)) if bent(draw) else draw(good_numbers)
    tail = draw(st.sampled_from(TIMES[content_type])) + draw(st.sampled_from(EXEMPLARS[content_type]))
    if bent(draw):
        tail = draw(st.sampled_from(BAD_TAILS))
    return draw(blanks) + head + draw(blanks) + ("" if head.endswith("}") else " ") + number + tail + draw(blanks)


good_comments = st.sampled_from(
    [
        "",
        "# a comment",
        "#",
        "# HELP up Is it up\\n",
        "# TYPE up gauge",
        "# UNIT up seconds",
        '# TYPE "a b" counter',
        "\r",
    ]
)
bad_comments = st.sampled_from(["# TYPE up guage", "# EOF", "# HELP", '# TYPE "" gauge'])


@st.composite
def pages(draw: st.DrawFn, content_type: str) -> bytes:
    page = draw(st.lists(st.one_of(lines(content_type), lines(content_type), good_comments), max_size=6))
    if bent(draw):
        page.append(draw(bad_comments))
    if content_type == OPENMETRICS and not bent(draw):
        page.append(draw(st.sampled_from(["# EOF", "# EOF\n"])))
    return draw(st.sampled_from(["\n", "\r\n"])).join(page).encode("utf-8", "replace")


@pytest.mark.slow
@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS])
def test_agrees_with_a_plain_reader(content_type: str) -> None:
    read = [0, 0]

    @settings(max_examples=400, deadline=None)
    @given(pages(content_type))
    def law(body: bytes) -> None:
        samples = exposition_agrees(body, content_type)
        read[samples is not None and len(samples.value) > 0] += 1

    law()
    assert read[True] > sum(read) / 4, f"most pages were refused or empty, so little was compared: {read}"


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(lines(OPENMETRICS), min_size=1, max_size=2), st.data())
def test_agrees_on_damaged_pages(page: list[str], data: st.DataObject) -> None:
    body = bytearray("\n".join(page).encode("utf-8", "replace"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        put = data.draw(st.sampled_from([b"", b'"', b"\\", b"{", b"}", b",", b"=", b" ", b"\n", b"#", b"\xff", b"1"]))
        body[at : at + data.draw(st.integers(0, 2))] = put
    exposition_agrees(bytes(body), TEXT)
    exposition_agrees(bytes(body) + b"\n# EOF\n", OPENMETRICS)


@settings(max_examples=500, deadline=None)
@example(b'a{b="\\')
@example(b'{"')
@example(b"a 1e")
@example(b"a 1 661709812372638e-51\n# EOF\n")
@example(b"a 1 661709812372638e-3\n# EOF\n")
@given(st.one_of(st.binary(max_size=60), st.text('a{}"\\=, 1.e+-#\n\t:_EOFNai', max_size=40).map(str.encode)))
def test_any_bytes_decode_or_raise_data_error(body: bytes) -> None:
    for content_type in (TEXT, OPENMETRICS):
        exposition_agrees(body, content_type)


@settings(max_examples=500, deadline=None)
@given(numbers)
def test_numbers_are_correctly_rounded(text: str) -> None:
    samples = exposition_agrees(f"a {text}\n".encode(), TEXT)
    if samples is not None and len(samples.value):
        assert int(samples.value.view(np.uint64)[0]) == bits(float(text))


plain_labels = st.dictionaries(
    st.sampled_from(["a", "le", "job", "Z9"]),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), max_size=8),
    max_size=4,
)
plain_lines = st.tuples(st.sampled_from(["up", "a:b", "x_total"]), plain_labels, st.floats())


def _page(made: list[tuple[str, dict[str, str], float]]) -> str:
    out = []
    for name, labels, value in made:
        inner = ",".join(f"{key}={quoted(text)}" for key, text in labels.items())
        out.append(f"{name}{{{inner}}} {value!r}")
    return "\n".join(out) + "\n"


@settings(max_examples=400, deadline=None)
@given(st.lists(plain_lines, max_size=5))
def test_agrees_with_prometheus_client(made: list[tuple[str, dict[str, str], float]]) -> None:
    page = _page(made)
    theirs = sorted(
        (
            tuple(sorted({**{k: v for k, v in sample.labels.items() if v}, "__name__": sample.name}.items())),
            bits(sample.value),
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    )
    ours = sorted((labels, value) for labels, value, _ in rows_of(decode_exposition(page.encode(), TEXT, NOW_NS)))
    assert ours == theirs


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(plain_labels, st.floats(allow_nan=False), st.integers(0, 2**32)),
        max_size=4,
        unique_by=lambda m: str(sorted(m[0].items())),
    )
)
def test_agrees_with_prometheus_client_on_openmetrics(made: list[tuple[dict[str, str], float, int]]) -> None:
    text = "# TYPE t gauge\n# UNIT t \n# HELP t what\n"
    for labels, value, time in made:
        inner = ",".join(f"{key}={quoted(label)}" for key, label in labels.items() if key != "le")
        text += f"t{{{inner}}} {value!r} {time}.25\n"
    text += "# EOF\n"
    theirs = []
    with contextlib.suppress(ValueError):  # stricter than a scraper: groups may not interleave, nor times go back
        theirs = [
            (
                tuple(sorted({**{k: v for k, v in sample.labels.items() if v}, "__name__": sample.name}.items())),
                bits(sample.value),
                int(sample.timestamp.sec) * 10**9 + int(sample.timestamp.nsec),
            )
            for family in openmetrics_parser.text_string_to_metric_families(text)
            for sample in family.samples
        ]
        assert sorted(rows_of(decode_exposition(text.encode(), OPENMETRICS, NOW_NS))) == sorted(theirs)
