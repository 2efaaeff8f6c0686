"""Remote-write bodies by hand: what is kept, what is dropped and under which name, what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from tests.oracle.remote_write import V1, V2

from leadline.model.counters import refused as counter_of
from leadline.model.errors import DataError, RefusedError, UsageError
from leadline.model.ids import canonical_labels, series_id
from leadline.wire.labels import LABELS_MAX, NAME_BYTES_MAX
from leadline.wire.remote_write import requests as remote_write
from leadline.wire.remote_write.parts import REASONS
from leadline.wire.remote_write.requests import METADATA_MAX, TEXT_BYTES_MAX, decode_remote_write
from leadline.wire.samples import STALE_NAN_BITS, Metadata, Samples

NOW = 1_760_000_000_000  # ms
UP = {"__name__": "up", "instance": "n1:9100", "job": "node"}


def v1(*streams: dict[str, Any], metadata: list[dict[str, Any]] | None = None) -> bytes:
    return bytes(V1["WriteRequest"](timeseries=streams, metadata=metadata or []).SerializeToString())


def stream(labels: dict[str, str] | list[tuple[str, str]], *samples: tuple[float, int], **more: Any) -> dict[str, Any]:
    pairs = labels.items() if isinstance(labels, dict) else labels
    return {
        "labels": [{"name": name, "value": value} for name, value in pairs],
        "samples": [{"value": value, "timestamp": time} for value, time in samples],
        **more,
    }


def v2(symbols: list[str], *streams: dict[str, Any]) -> bytes:
    return bytes(V2["Request"](symbols=symbols, timeseries=streams).SerializeToString())


def ids(got: Samples) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in got.ids.tolist()]


def test_prometheus_labels_are_not_copied() -> None:
    body = v1(stream(UP, (1.0, NOW), (2.5, NOW + 1)), stream(UP | {"job": "x"}, (3.0, NOW)))
    got = decode_remote_write(body, 1)
    assert np.shares_memory(got.label_bytes, np.frombuffer(body, np.uint8))
    assert len(got.label_bytes) == len(body)
    assert [got.labels(0), got.labels(1)] == [UP, UP | {"job": "x"}]
    assert ids(got) == [series_id(UP), series_id(UP | {"job": "x"})]
    assert got.sample_series.tolist() == [0, 0, 1]
    assert got.time_ns.tolist() == [NOW * 10**6, (NOW + 1) * 10**6, NOW * 10**6]
    assert got.value.tolist() == [1.0, 2.5, 3.0]
    assert dict(got.dropped) == {}
    assert dict(got.metadata) == {}


@pytest.mark.parametrize(
    "labels",
    [
        list(reversed(UP.items())),
        [*UP.items(), ("zone", "")],
        [("instance", "n1:9100"), ("", ""), ("__name__", "up"), ("job", "node")],
    ],
    ids=["unsorted", "empty value", "empty label"],
)
def test_other_labels_are_written_canonically(labels: list[tuple[str, str]]) -> None:
    got = decode_remote_write(v1(stream(UP, (1.0, NOW)), stream(labels, (2.0, NOW))), 1)
    assert ids(got) == [series_id(UP)] * 2
    raw = got.label_bytes[got.label_start[1] : got.label_end[1]].tobytes()
    assert raw == canonical_labels(UP)


@pytest.mark.parametrize(
    "labels",
    [{}, {"job": "x"}, [("__name__", "a"), ("__name__", "a")], [*UP.items(), ("job", "y")], {**UP, "": "x"}],
    ids=["none", "no name", "name twice", "label twice", "label without a name"],
)
def test_streams_that_cannot_be_are_dropped_and_counted(labels: Any) -> None:
    got = decode_remote_write(v1(stream(labels, (1.0, NOW), (2.0, NOW)), stream(UP, (3.0, NOW))), 1)
    assert dict(got.dropped) == {"label_invalid": 2}
    assert (ids(got), got.sample_series.tolist(), got.value.tolist()) == ([series_id(UP)], [0], [3.0])


def test_as_many_labels_as_allowed_and_one_more() -> None:
    many = {f"label_{i:03}": "x" for i in range(LABELS_MAX - 1)}
    unsorted = [*reversed(many.items()), ("__name__", "up")]
    got = decode_remote_write(v1(stream(unsorted, (1.0, NOW)), stream([*unsorted, ("a", "b")], (1.0, NOW))), 1)
    assert ids(got) == [series_id(many | {"__name__": "up"})]
    assert dict(got.dropped) == {"labels_too_many": 1}


@pytest.mark.parametrize(("size", "dropped"), [(NAME_BYTES_MAX, {}), (NAME_BYTES_MAX + 1, {"label_too_long": 1})])
@pytest.mark.parametrize("version", [1, 2])
def test_a_name_as_long_as_allowed_and_one_byte_more(version: int, size: int, dropped: dict[str, int]) -> None:
    name = "n" * size
    one = {"labels_refs": [0, 1, 2, 3], "samples": [{"value": 1.0, "timestamp": NOW}]}
    labels = {"__name__": "up", name: "x"}
    body = v1(stream(labels, (1.0, NOW))) if version == 1 else v2(["__name__", "up", name, "x"], one)
    got = decode_remote_write(body, version)
    assert dict(got.dropped) == dropped
    assert ids(got) == ([] if dropped else [series_id(labels)])


def test_a_name_of_a_megabyte_named_by_two_bytes_is_not_compared() -> None:
    """A thousand streams that give the same huge name twice: compared, this would take seconds."""
    one = {"labels_refs": [0, 0, 0, 0], "samples": [{"value": 1.0, "timestamp": NOW}]}
    got = decode_remote_write(v2(["n" * (1 << 20)], *[one] * 1000), 2)
    assert dict(got.dropped) == {"label_too_long": 1000}


def test_help_is_cut() -> None:
    told = {"type": 1, "metric_family_name": "m", "help": "h" * 5000}
    assert len(decode_remote_write(v1(metadata=[told]), 1).metadata["m"].help) == TEXT_BYTES_MAX


def test_more_symbols_than_anyone_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "SYMBOLS_MAX", 1000)
    decode_remote_write(b"\x22\x00" * 1000, 2)
    with pytest.raises(RefusedError, match="1001 symbols, more than 1000") as refused:
        decode_remote_write(b"\x22\x00" * 1001, 2)
    assert refused.value.reason == "decompressed_too_large"


@pytest.mark.parametrize("lane", ["plain", "general"])
def test_values_keep_their_bits(lane: str) -> None:
    bits = [STALE_NAN_BITS, 0x7FF8000000000001, 0x7FF0000000000001, 1 << 63, 0, 0x7FF0000000000000]
    values = [struct.unpack("<d", struct.pack("<Q", one))[0] for one in bits]
    labels = UP if lane == "plain" else list(reversed(UP.items()))
    got = decode_remote_write(v1(stream(labels, *((value, NOW) for value in values))), 1)
    assert got.value.view(np.uint64).tolist() == bits


def test_times_that_no_int64_of_ns_can_hold_are_dropped_and_counted() -> None:
    most = (2**63 - 1) // 10**6
    times = [most, most + 1, 2**63 - 1, -most, -most - 1, -(2**63), 0]
    got = decode_remote_write(v1(stream(UP, *((1.0, time) for time in times))), 1)
    assert got.time_ns.tolist() == [most * 10**6, -most * 10**6, 0]
    assert dict(got.dropped) == {"too_old": 2, "in_future": 2}


def test_a_stream_without_samples_is_not_told() -> None:
    got = decode_remote_write(v1(stream(UP), stream(UP, (1.0, 2**62))), 1)
    assert (len(got.ids), len(got.value), dict(got.dropped)) == (0, 0, {"in_future": 1})


def test_native_histograms_become_count_and_sum() -> None:
    one = {"count_int": 7, "sum": 2.5, "timestamp": NOW, "positive_deltas": [1, -1, 300], "negative_counts": [1.0]}
    two = {"count_float": 8.5, "sum": 3.5, "timestamp": NOW + 1, "negative_deltas": [1, 1]}
    got = decode_remote_write(v1(stream(UP, (1.0, NOW), histograms=[one, two]), stream(UP, (2.0, NOW))), 1)
    assert [got.labels(row)["__name__"] for row in range(4)] == ["up", "up_count", "up_sum", "up"]
    assert got.labels(1) == UP | {"__name__": "up_count"}
    assert got.sample_series.tolist() == [0, 1, 1, 2, 2, 3]
    assert got.value.tolist() == [1.0, 7.0, 8.5, 2.5, 3.5, 2.0]
    assert got.time_ns.tolist()[1:5] == [NOW * 10**6, (NOW + 1) * 10**6] * 2
    assert dict(got.dropped) == {"histogram_buckets": 6}


def test_a_stale_histogram_does_not_look_like_a_reset() -> None:
    stale = struct.unpack("<d", struct.pack("<Q", STALE_NAN_BITS))[0]
    got = decode_remote_write(v1(stream(UP, histograms=[{"sum": stale, "timestamp": NOW}])), 1)
    assert got.value.view(np.uint64).tolist() == [STALE_NAN_BITS] * 2


def test_exemplars_are_counted() -> None:
    got = decode_remote_write(v1(stream(UP, (1.0, NOW), exemplars=[{"value": 1.0}, {"value": 2.0}])), 1)
    assert dict(got.dropped) == {"exemplar": 2}


def test_metadata_of_version_1() -> None:
    told = [
        {"type": 1, "metric_family_name": "a_total", "help": "First.", "unit": "bytes"},
        {"type": 2, "metric_family_name": "a_total", "help": "Second."},
        {"type": 77, "metric_family_name": "b"},
        {"type": 1, "help": "about nothing"},
    ]
    got = decode_remote_write(v1(metadata=told), 1)
    assert dict(got.metadata) == {"a_total": Metadata("counter", "bytes", "First."), "b": Metadata()}


def test_metadata_beyond_its_bound_is_counted() -> None:
    told = [{"type": 1, "metric_family_name": f"m{i}"} for i in range(METADATA_MAX + 3)]
    got = decode_remote_write(v1(metadata=told), 1)
    assert len(got.metadata) == METADATA_MAX
    assert dict(got.dropped) == {"metadata_limit": 3}


def test_help_that_is_not_utf8_costs_no_samples() -> None:
    body = b"\x1a\x08\x12\x01m\x22\x03a\xffb" + v1(stream(UP, (1.0, NOW)))
    got = decode_remote_write(body, 1)
    assert got.metadata["m"].help == "a�b"
    assert len(got.value) == 1


SYMBOLS = ["", "__name__", "up", "instance", "n1:9100", "job", "node", "Whether it answers.", "seconds"]
REFS = [1, 2, 3, 4, 5, 6]


def test_version_2() -> None:
    told = {"labels_refs": REFS, "metadata": {"type": 2, "help_ref": 7, "unit_ref": 8}}
    samples = [{"value": 1.0, "timestamp": NOW}, {"value": 2.0, "timestamp": NOW + 1}]
    body = v2(SYMBOLS, {**told, "samples": samples}, {**told, "samples": samples, "created_timestamp": 5})
    got = decode_remote_write(body, 2)
    assert ids(got) == [series_id(UP)] * 2
    assert [got.labels(0), got.labels(1)] == [UP, UP]
    assert got.sample_series.tolist() == [0, 0, 1, 1]
    assert got.value.tolist() == [1.0, 2.0] * 2
    assert dict(got.metadata) == {"up": Metadata("gauge", "seconds", "Whether it answers.")}


def test_symbols_may_come_last() -> None:
    streams = v2([], {"labels_refs": REFS, "samples": [{"value": 1.0, "timestamp": NOW}]})
    got = decode_remote_write(streams + v2(SYMBOLS), 2)
    assert ids(got) == [series_id(UP)]


@pytest.mark.parametrize("refs", [[1], [1, 2, 3], [1, 99], [99, 2], [*REFS, 2**32 - 1, 0]])
def test_references_that_lead_nowhere(refs: list[int]) -> None:
    bad = {"labels_refs": refs, "samples": [{"value": 1.0, "timestamp": NOW}]}
    got = decode_remote_write(v2(SYMBOLS, bad, {**bad, "labels_refs": REFS}), 2)
    assert dict(got.dropped) == {"label_invalid": 1}
    assert ids(got) == [series_id(UP)]


def test_unsorted_references_and_histograms_of_version_2() -> None:
    one = {"count_int": 7, "sum": 2.5, "timestamp": NOW, "positive_deltas": [1]}
    got = decode_remote_write(v2(SYMBOLS, {"labels_refs": [5, 6, 3, 4, 1, 2], "histograms": [one]}), 2)
    assert [got.labels(row) for row in range(2)] == [UP | {"__name__": f"up_{kind}"} for kind in ("count", "sum")]
    assert got.value.tolist() == [7.0, 2.5]


def test_a_bomb_of_references_is_refused() -> None:
    """A megabyte of symbol, named by two bytes again and again."""
    symbols = ["", "__name__", "up", "a", "x" * (1 << 20)]
    one = {"labels_refs": [1, 2, 3, 4], "samples": [{"value": 1.0, "timestamp": NOW}]}
    with pytest.raises(RefusedError, match="labels written out exceed") as refused:
        decode_remote_write(v2(symbols, *[one] * 100), 2)
    assert refused.value.reason == "decompressed_too_large"
    assert len(decode_remote_write(v2(symbols, *[one] * 20), 2).value) == 20


def test_columns_grow_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of two bytes: many more than the room that is guessed from the body's size."""
    labels = canonical_labels(UP)
    inside = labels + b"\x12\x00" * 50_000
    size = bytes([len(inside) & 0x7F | 0x80, len(inside) >> 7 & 0x7F | 0x80, len(inside) >> 14])
    body = v1(stream(UP, (1.0, NOW))) + b"\x0a" + size + inside
    got = decode_remote_write(body, 1)
    assert len(got.value) == 50_001
    assert got.sample_series[-1] == 1
    monkeypatch.setattr(remote_write, "SAMPLES_MAX", 50_000)
    with pytest.raises(RefusedError, match="more than 50000 samples"):
        decode_remote_write(body, 1)


def test_many_small_streams() -> None:
    body = v1(*(stream({"__name__": f"m{i}"}, (0.0, i)) for i in range(5000)))
    got = decode_remote_write(body, 1)
    assert ids(got) == [series_id({"__name__": f"m{i}"}) for i in range(5000)]
    assert got.time_ns.tolist() == [i * 10**6 for i in range(5000)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x0a", "a whole field"),
        (b"\x0a\x05", "a length that stays inside"),
        (b"\x00", "a field number"),
        (b"\x78" + b"\xff" * 10, "a varint of at most 10 bytes"),
        (b"\x0b", "no groups"),
        (b"\x0f", "a wire type of"),
        (b"\x0a\x04\x12\x02\x09\x01", "a whole field"),
        (b"\x0a\x03\x0a\x01\x0a", "a whole field"),
        (b"\x0a\x15" + canonical_labels({"__name__": "up"}) + b"\x22\x03\x6a\x01\x00", "packed doubles"),
    ],
)
def test_malformed_bodies_say_what_and_where(body: bytes, expected: str) -> None:
    with pytest.raises(DataError, match=expected) as raised:
        decode_remote_write(v1(stream(UP, (1.0, NOW))) + body, 1)
    assert "remote-write 1.0 body, byte" in str(raised.value)


@pytest.mark.parametrize("body", [b"\x22", b"\x22\x05", b"\x2a\x02\x0a\x01", b"\x2a\x03\x2a\x01\x08", b"\x2b"])
def test_malformed_bodies_of_version_2(body: bytes) -> None:
    with pytest.raises(DataError, match=r"remote-write 2\.0 body, byte"):
        decode_remote_write(body, 2)


def test_other_versions() -> None:
    with pytest.raises(UsageError, match="versions 1 and 2; got 3"):
        decode_remote_write(b"", 3)


def test_empty_bodies_and_bodies_of_the_other_version_hold_nothing() -> None:
    """Field numbers of the two versions do not overlap on purpose: a mistaken sender sends an empty message."""
    for body, version in ((b"", 1), (b"", 2), (v2(SYMBOLS, {"labels_refs": REFS}), 1), (v1(stream(UP, (1.0, 1))), 2)):
        got = decode_remote_write(body, version)
        assert (len(got.ids), len(got.value)) == (0, 0)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_a_declared_counter(reason: str) -> None:
    assert counter_of(reason).reason == reason
