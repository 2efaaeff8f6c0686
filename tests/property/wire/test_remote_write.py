"""Laws of remote-write: what upb reads we read; any bytes decode or raise; the two lanes agree."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.oracle import remote_write as oracle
from tests.oracle.agreement import remote_write_agrees, remote_write_rows, samples_agree

from leadline.model.errors import DataError, RefusedError
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.samples import NORMAL_NAN_BITS, STALE_NAN_BITS, Samples

# Few names, so that duplicates, equal prefixes and missing names occur; a value over 127 bytes takes two bytes of
# length. The name of the metric is there most of the time, first or not.
NAMES = st.sampled_from(
    ["__name__", "a", "job", "exported_instance", "exported_instance_b", "exported_job", "", "B", "é"]
)
VALUES = st.one_of(st.sampled_from(["", "x", "node-1:9100", "v" * 130, "ü"]), st.text(max_size=12))
PAIRS = st.one_of(
    st.lists(st.tuples(NAMES, VALUES), max_size=6),
    st.dictionaries(NAMES.filter(bool), VALUES, max_size=6).map(
        lambda labels: sorted({**labels, "__name__": "up"}.items())
    ),
)
BITS = st.one_of(
    st.sampled_from([0, 1 << 63, STALE_NAN_BITS, NORMAL_NAN_BITS, 0x7FF0000000000001]),
    st.floats(width=64, allow_nan=False).map(lambda value: struct.unpack("<Q", struct.pack("<d", value))[0]),
)
TIMES = st.one_of(
    st.integers(1_700_000_000_000, 1_800_000_000_000),
    st.sampled_from([0, -1, 2**63 - 1, -(2**63), (2**63 - 1) // 10**6, (2**63 - 1) // 10**6 + 1]),
)
SAMPLES = st.lists(st.tuples(TIMES, BITS), max_size=4)


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


@st.composite
def _histograms(draw: st.DrawFn, kind: Any) -> Any:
    one = kind(timestamp=draw(TIMES), sum=_double(draw(BITS)))
    if draw(st.booleans()):
        one.count_int = draw(st.integers(0, 2**64 - 1))
    else:
        one.count_float = draw(st.floats(allow_nan=False))
    one.positive_deltas.extend(draw(st.lists(st.integers(-(2**40), 2**40), max_size=4)))
    one.negative_counts.extend(draw(st.lists(st.floats(), max_size=3)))
    one.custom_values.extend(draw(st.lists(st.floats(), max_size=2)))
    one.positive_spans.add(offset=draw(st.integers(-3, 3)), length=2)
    return one


@st.composite
def bodies_v1(draw: st.DrawFn) -> bytes:
    request = oracle.V1["WriteRequest"]()
    for _ in range(draw(st.integers(0, 5))):
        stream = request.timeseries.add()
        for name, value in draw(PAIRS):
            stream.labels.add(name=name, value=value)
        for time, bits in draw(SAMPLES):
            stream.samples.add(timestamp=time, value=_double(bits))
        if draw(st.integers(0, 3)) == 0:
            stream.exemplars.add(value=1.5, timestamp=3).labels.add(name="trace", value="t")
            stream.histograms.extend(draw(st.lists(_histograms(oracle.V1["Histogram"]), max_size=2)))
    for _ in range(draw(st.integers(0, 2))):
        request.metadata.add(
            type=draw(st.integers(-1, 9)), metric_family_name=draw(VALUES), help=draw(VALUES), unit=draw(VALUES)
        )
    return bytes(request.SerializeToString())


@st.composite
def bodies_v2(draw: st.DrawFn) -> bytes:
    request = oracle.V2["Request"]()
    symbols: dict[str, int] = {"": 0}
    bad = draw(st.integers(0, 9)) == 0  # now and then a reference to no symbol
    for _ in range(draw(st.integers(0, 5))):
        stream = request.timeseries.add()
        for name, value in draw(PAIRS):
            stream.labels_refs.extend(symbols.setdefault(text, len(symbols)) for text in (name, value))
        if bad:
            stream.labels_refs.extend(draw(st.lists(st.integers(0, 2**32 - 1), max_size=3)))
        for time, bits in draw(SAMPLES):
            stream.samples.add(timestamp=time, value=_double(bits))
        if draw(st.integers(0, 3)) == 0:
            stream.exemplars.add(value=1.5, timestamp=3, labels_refs=[0, 1])
            stream.histograms.extend(draw(st.lists(_histograms(oracle.V2["Histogram"]), max_size=2)))
        if draw(st.booleans()):
            stream.metadata.type = draw(st.integers(-1, 9))
            stream.metadata.help_ref = draw(st.integers(0, 20))
            stream.metadata.unit_ref = draw(st.integers(0, 3))
        if draw(st.integers(0, 3)) == 0:
            stream.created_timestamp = draw(TIMES)
    request.symbols.extend(symbols)
    return bytes(request.SerializeToString())


BODIES = st.one_of(
    st.tuples(bodies_v1(), st.just(1)),
    st.tuples(bodies_v2(), st.just(2)),
)
LAW = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


@LAW
@given(BODIES)
def test_what_upb_writes_decodes_as_upb_reads_it(item: tuple[bytes, int]) -> None:
    body, version = item
    samples_agree(decode_remote_write(body, version), oracle.decode(body, version))


def _decoded(body: bytes, version: int, **limits: int) -> Samples | DataError | RefusedError:
    try:
        return decode_remote_write(body, version, **limits)
    except (DataError, RefusedError) as error:
        return error


@LAW
@given(st.binary(max_size=200), st.sampled_from([1, 2]))
@example(b"\x0a\x02\x12\x00", 1)  # a stream without labels
@example(b"\x0a\x04\x0a\x00\x12\x00", 1)  # ... with one that is empty
@example(b"\x0b\x0c", 1)  # an empty group, which upb skips
def test_any_bytes_decode_or_raise(body: bytes, version: int) -> None:
    remote_write_agrees(body, version)


@LAW
@given(BODIES, st.data())
def test_damaged_bodies_decode_or_raise(item: tuple[bytes, int], data: st.DataObject) -> None:
    body, version = item
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        body = data.draw(
            st.sampled_from(
                [
                    body[:at],
                    body[:at] + body[at + 1 :],
                    body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :],
                    body[:at] + data.draw(st.binary(max_size=4)) + body[at:],
                ]
            )
        )
    remote_write_agrees(body, version)


@LAW
@given(BODIES)
def test_the_fast_lane_and_the_general_one_agree(item: tuple[bytes, int]) -> None:
    """A field that nobody knows, put into every stream, sends it down the general lane and changes nothing."""
    body, version = item
    request = oracle.V1["WriteRequest"]() if version == 1 else oracle.V2["Request"]()
    request.ParseFromString(body)
    streams = [stream.SerializeToString() + b"\xc0\x3e\x07" for stream in request.timeseries]  # field 1000
    del request.timeseries[:]
    slow = request.SerializeToString()
    for stream in streams:
        slow += (b"\x0a" if version == 1 else b"\x2a") + oracle.varint(len(stream)) + stream
    fast, general = decode_remote_write(body, version), decode_remote_write(slow, version)
    assert remote_write_rows(fast) == remote_write_rows(general)
    assert fast.dropped == general.dropped
    assert fast.metadata == general.metadata
    assert [fast.labels(row) for row in range(len(fast.ids))] == [
        general.labels(row) for row in range(len(general.ids))
    ]


@LAW
@given(BODIES, BODIES)
def test_bodies_concatenate(one: tuple[bytes, int], other: tuple[bytes, int]) -> None:
    """Protobuf's own law for version 1: the bytes of two messages behind each other are both of them."""
    if one[1] == other[1] == 1:
        both = remote_write_rows(decode_remote_write(one[0] + other[0], 1))
        assert both == remote_write_rows(decode_remote_write(one[0], 1)) + remote_write_rows(
            decode_remote_write(other[0], 1)
        )


@settings(LAW, max_examples=40)
@given(BODIES, st.integers(0, 200))
def test_a_bound_on_labels_refuses_or_changes_nothing(item: tuple[bytes, int], most: int) -> None:
    body, version = item
    got = _decoded(body, version, label_bytes_max=most)
    if isinstance(got, RefusedError):
        assert got.reason == "decompressed_too_large"
    else:
        assert isinstance(got, Samples)
        assert remote_write_rows(got) == remote_write_rows(decode_remote_write(body, version))


def test_nothing_outside_the_body_is_read() -> None:
    """Bodies, whole, cut and damaged, that end where readable memory ends: one byte further is a crash."""
    program = Path(__file__).parents[2] / "oracle" / "guarded_bodies.py"
    if not sys.platform.startswith("linux"):
        pytest.skip("protects a page of memory with mprotect, as Linux does it")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    assert int(done.stdout) > 3000
