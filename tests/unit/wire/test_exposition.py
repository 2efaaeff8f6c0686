"""`wire.exposition`: what pages say, line by line; what errors say; how fast at least."""

from __future__ import annotations

import time

import numpy as np
import pytest

from leadline.model.errors import DataError, RefusedError
from leadline.wire.exposition.pages import OPENMETRICS, decode_exposition
from leadline.wire.labels import LABELS_MAX, NAME_BYTES_MAX
from leadline.wire.samples import NORMAL_NAN_BITS, Metadata, Samples

NOW_NS = 1_700_000_000_000_000_000
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def read(page: str, content_type: str = TEXT) -> Samples:
    return decode_exposition(page.encode(), content_type, NOW_NS)


def one(page: str, content_type: str = TEXT) -> tuple[dict[str, str], float, int]:
    samples = read(page, content_type)
    assert len(samples.value) == 1
    return samples.labels(0), float(samples.value[0]), int(samples.time_ns[0])


def test_the_documented_example() -> None:
    page = """
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\\\DIR\\\\FILE.TXT",error="Cannot find file:\\n\\"FILE.TXT\\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero"} +Inf -3982045
"""
    samples = read(page)
    assert samples.value.tolist() == [1027.0, 1458255915.0, 12.47, float("inf")]
    assert samples.time_ns.tolist() == [1395066363000000000, NOW_NS, NOW_NS, -3982045000000]
    assert samples.labels(1)["path"] == "C:\\DIR\\FILE.TXT"
    assert samples.labels(1)["error"] == 'Cannot find file:\n"FILE.TXT"'
    told = Metadata("counter", "", "The total number of HTTP requests.")
    assert samples.metadata == {"http_requests_total": told}


def test_openmetrics() -> None:
    page = """# TYPE acme_seconds counter
# UNIT acme_seconds seconds
# HELP acme_seconds Time \\"spent\\".
acme_seconds_total{path="/a"} 1.5 1520879607.789 # {trace_id="abc"} 0.5 1520879606.5
acme_seconds_created{path="/a"} 1520430000.123
# EOF
"""
    samples = read(page, OPENMETRICS + "; version=1.0.0")
    assert samples.time_ns.tolist() == [1520879607789000000, NOW_NS]
    assert samples.dropped == {"exemplar": 1}
    assert samples.metadata["acme_seconds_total"] == Metadata("counter", "s", 'Time "spent".')


def test_a_histogram_has_its_metadata_under_each_name() -> None:
    metadata = read("# TYPE h histogram\n# HELP h wait\n").metadata
    assert set(metadata) == {"h", "h_bucket", "h_count", "h_sum"}
    assert {each.type for each in metadata.values()} == {"histogram"}


def test_counts_of_a_histogram_have_no_unit_of_its_values() -> None:
    metadata = read("# TYPE h histogram\n# UNIT h seconds\n").metadata
    assert {name: each.unit for name, each in metadata.items()} == {
        "h": "s",
        "h_sum": "s",
        "h_bucket": "1",
        "h_count": "1",
    }


def test_a_type_nobody_knows_is_not_told() -> None:
    assert read("# TYPE a untyped\n").metadata["a"].type == ""


def test_quoted_names_of_prometheus_3() -> None:
    assert one('{"my.metric", "a b"="c"} 1\n')[0] == {"__name__": "my.metric", "a b": "c"}
    assert one('{a="b","é"} 1\n')[0] == {"__name__": "é", "a": "b"}
    assert read('# TYPE "my.metric" gauge\n').metadata["my.metric"].type == "gauge"


@pytest.mark.parametrize("line", ["a{} 1", "a 1", " a\t1 ", 'a{b=""} 1', "a{ }1", "a 1\r", "a 1.", "a +1", "a 1e0"])
def test_spellings_of_one_sample(line: str) -> None:
    assert one(line)[:2] == ({"__name__": "a"}, 1.0)


def test_nan_is_the_ordinary_one() -> None:
    assert read("a NaN\nb nan\n").value.view(np.uint64).tolist() == [NORMAL_NAN_BITS] * 2


def test_int64_values_are_rounded_as_floats_are() -> None:
    assert one("a 9223372036854775794")[1] == float(9223372036854775794)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("a 1\nb{c=d} 2\n", "line 2, character 5: expected a quoted label value, got 'd} 2'"),
        ('a{b="c} 1\n', "line 1, character 5: expected a closing quote"),
        ('a{b="c"; 1\n', "character 8: expected ',' or '}' behind the label"),
        ('a{1="c"} 1\n', "expected a label name"),
        ('a{b "c"} 1\n', "expected '=' behind the label name"),
        ("a\n", "expected a number, +Inf, -Inf or NaN, got the end of the line"),
        ("a 1.2.3\n", "expected a number, +Inf, -Inf or NaN, got '1.2.3'"),
        ("a 0x10\n", "expected a number"),
        ("a 1_000\n", "expected a number"),
        ("1a 1\n", "expected a metric name"),
        ("{} 1\n", "expected a metric name"),
        ('{b="c"} 1\n', "expected a metric name"),
        ("a-b 1\n", "expected a metric name"),
        ('a{b="1",b="2"} 1\n', "each label name, and the metric's name, once"),
        ('a{__name__="b"} 1\n', "each label name, and the metric's name, once"),
        ('a{"b"} 1\n', "each label name, and the metric's name, once"),
        ("a 1 1.5\n", "integer milliseconds"),
        ("a 1 9223372036855\n", "integer milliseconds"),
        ("a 1 5 x\n", "expected the end of the line"),
        ("# TYPE a guage\n", "line 1: expected a type (counter"),
        ("# TYPE\n", "expected a metric name behind # TYPE"),
        ('# HELP "a b\n', "expected a metric name behind # HELP, got"),
        ("<html>\n", "expected a metric name"),
        ("a{" + "b" * 500 + "} 1", "got '} 1'"),
    ],
)
def test_errors_name_the_line(page: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        read(page)
    assert said in str(error.value)


@pytest.mark.parametrize("blank", ["\x1c", "\x85", "\u2003", "\x0b"])
def test_only_spaces_and_tabs_are_blanks(blank: str) -> None:
    """As in Prometheus: with anything else between them TYPE and a name are a comment, not metadata that is wrong."""
    assert not read(f"# TYPE{blank}a -5\n#{blank}TYPE a -5\n").metadata
    assert read(f"#\tTYPE \ta{blank}b \tgauge\t\n").metadata[f"a{blank}b"].type == "gauge"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("a 1\n", "'# EOF' as the last line"),
        ("# EOF\na 1\n", "line 2: expected nothing behind '# EOF', got 'a 1'"),
        ("a 1 1e12\n# EOF", "seconds within"),
        ("a 1 nan\n# EOF", "seconds within"),
        ("a 1 # b\n# EOF", "the end of the line, or an exemplar"),
        ("a 1 # {b} 1\n# EOF", "'=' behind the label name"),
        ("a 1 # {} x\n# EOF", "a number"),
    ],
)
def test_errors_of_openmetrics(page: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        read(page, OPENMETRICS)
    assert said in str(error.value)


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(DataError, match="line 2: expected UTF-8 text, got byte 0xff at byte 10"):
        decode_exposition(b'a 1\nb{c="d\xff"} 1\n', TEXT, NOW_NS)


def test_protobuf_is_refused() -> None:
    with pytest.raises(RefusedError) as error:
        read("", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily")
    assert error.value.reason == "unsupported_encoding"


def test_streams_with_too_many_labels_are_counted() -> None:
    def line(count: int) -> str:
        return "a{" + ",".join(f'l{n}="x"' for n in range(count)) + "} 1\n"

    samples = read(line(LABELS_MAX - 1) + line(LABELS_MAX) + "b 2\n")
    assert samples.dropped == {"labels_too_many": 1}
    assert samples.value.tolist() == [1.0, 2.0]


def test_streams_with_too_long_a_name_are_counted() -> None:
    names = ["n" * size for size in (NAME_BYTES_MAX, NAME_BYTES_MAX + 1)]
    samples = read("".join(f'a{{{name}="x"}} 1\n' for name in names) + "b 2\n")
    assert samples.dropped == {"label_too_long": 1}
    assert samples.value.tolist() == [1.0, 2.0]
    assert samples.labels(0) == {"__name__": "a", names[0]: "x"}


def test_one_stream_twice() -> None:
    samples = read('a{b="1",c="2"} 1 1\na{c="2",b="1"} 2 2\n')
    assert samples.ids[0].tolist() == samples.ids[1].tolist()
    assert samples.sample_series.tolist() == [0, 1]


def test_hostile_order_of_labels_stays_cheap() -> None:
    """Sorting is by insertion: the worst order of the most labels must not take a scrape's time."""
    line = "a{" + ",".join(f'l{n:03}="x"' for n in reversed(range(LABELS_MAX - 1))) + "} 1\n"
    read(line)
    began = time.perf_counter()
    read(line * 500)  # 1.2 MB
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("page", ["\n" * 1000, "#\n" * 1000, "a 1\n" * 1000, "a 1\n" * 1000 + "a 1", '{"a"}1\n' * 1000])
def test_shortest_lines_have_room(page: str) -> None:
    assert len(read(page).value) == page.count("1")
