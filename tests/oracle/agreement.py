"""What holds of any body, whatever its bytes: our decoder and another way to read the same say the same.

Shared by the laws of tests/property, which make bodies, and by tests/fuzz, which mutates them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.oracle import exposition, otlp_metrics, remote_write

from leadline.model.errors import DataError, RefusedError
from leadline.model.ids import series_id
from leadline.wire.exposition.pages import OPENMETRICS, decode_exposition
from leadline.wire.otlp import metrics as otlp
from leadline.wire.otlp.tables import TWICE
from leadline.wire.otlp.text import PROTOBUF
from leadline.wire.proto import GROUP
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.samples import NORMAL_NAN_BITS, Samples
from leadline.wire.sflow import headers as sflow_headers
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import SflowBatch, Switch, decode_sflow, flow_columns

NOW_NS = 1_700_000_000_123_456_789
LEAF = Switch("leaf1")
# What protobuf allows and we refuse by choice; see wire/otlp/requests.py.
_OTLP_OURS = {otlp.EXPECTED[code] for code in (TWICE, GROUP)}

Row = tuple[tuple[tuple[str, str], ...], int, int]


def rows_of(samples: Samples) -> list[Row]:
    """Labels, bits of the value and time in ns of each sample; the id of each stream is that of its labels."""
    out = []
    raw = samples.value.view(np.uint64)
    for n in range(len(samples.value)):
        stream = int(samples.sample_series[n])
        labels = samples.labels(stream)
        low, high = (int(half) for half in samples.ids[stream])
        assert series_id(labels) == high << 64 | low
        out.append((tuple(sorted(labels.items())), int(raw[n]), int(samples.time_ns[n])))
    return out


# --- remote-write ------------------------------------------------------------------------------------------------


def remote_write_agrees(body: bytes, version: int, seen: bytes | memoryview | None = None) -> Samples | None:
    """Any bytes decode or raise; where upb takes them too, both say the same. Groups are the one exception.

    `seen`: the same bytes, where the decoder is to read them. Returns: what was decoded, None if it was refused.
    """
    try:
        expected = remote_write.decode(body, version)
    except DecodeError:
        expected = None
    try:
        got = decode_remote_write(body if seen is None else seen, version)  # type: ignore[arg-type]
    except DataError as error:
        if expected is not None and "group" not in str(error):
            raise AssertionError(f"upb reads it; we: {error}") from error
        return None
    except RefusedError:
        return None
    if expected is not None:
        samples_agree(got, expected)
    return got


def samples_agree(got: Samples, expected: remote_write.Decoded) -> None:
    """Samples, metadata, labels, and what was dropped, are those of the plain walk."""
    assert remote_write_rows(got) == expected.samples
    assert dict(got.metadata) == expected.metadata
    assert dict(got.dropped) == expected.dropped
    ids = [int(low) | int(high) << 64 for low, high in got.ids.tolist()]
    assert {series: got.labels(row) for row, series in enumerate(ids)} == expected.labels


def remote_write_rows(got: Samples) -> list[tuple[int, int, int]]:
    """Series id, time in ns and bits of the value, of each sample."""
    ids = [int(low) | int(high) << 64 for low, high in got.ids.tolist()]
    rows = zip(got.sample_series.tolist(), got.time_ns.tolist(), got.value.view(np.uint64).tolist(), strict=True)
    return [(ids[series], time, bits) for series, time, bits in rows]


# --- OTLP --------------------------------------------------------------------------------------------------------


def otlp_agrees(samples: Samples, request: ExportMetricsServiceRequest) -> None:
    """The samples, and what was dropped, are those of the message as upb read it."""
    expected, dropped = otlp_metrics.read(request)
    assert sorted(rows_of(samples)) == sorted(expected)
    assert samples.dropped == {reason: count for reason, count in dropped.items() if count}


def otlp_metrics_agree(body: bytes) -> None:
    """Any bytes decode or raise; what we refuse upb refuses, what both take says the same."""
    try:
        samples = otlp.decode_otlp_metrics(body, PROTOBUF)
    except RefusedError:
        return
    except DataError as error:
        if error.expected in _OTLP_OURS or "levels of arrays" in error.expected:
            return
        try:
            ExportMetricsServiceRequest.FromString(body)
        except DecodeError:
            return
        raise AssertionError(f"upb reads it; we: {error}") from error
    try:
        request = ExportMetricsServiceRequest.FromString(body)
    except DecodeError:
        return  # wrong in something that we do not read: an exemplar, a scope's attributes
    otlp_agrees(samples, request)


# --- exposition --------------------------------------------------------------------------------------------------


def bits(value: float) -> int:
    """The float's bits, with any NaN as Prometheus' ordinary one."""
    return NORMAL_NAN_BITS if math.isnan(value) else int(struct.unpack("<Q", struct.pack("<d", value))[0])


def exposition_agrees(body: bytes, content_type: str) -> Samples | None:
    """The scanner and the plain reader do the same: both refuse (None), or both give the same samples."""
    try:
        expected, exemplars = exposition.read(body, content_type == OPENMETRICS, NOW_NS)
    except exposition.Malformed:
        try:
            decode_exposition(body, content_type, NOW_NS)
        except DataError:
            return None
        raise AssertionError("the plain reader refuses this page") from None
    samples = decode_exposition(body, content_type, NOW_NS)
    if not samples.dropped.keys() <= {"exemplar"}:
        return samples  # the plain reader knows no limits
    assert rows_of(samples) == [(labels, bits(value), time) for labels, value, time in expected]
    assert samples.dropped.get("exemplar", 0) == exemplars
    return samples


# --- sFlow -------------------------------------------------------------------------------------------------------


def sflow_read(*datagrams: bytes) -> SflowBatch:
    """The datagrams in one batch."""
    return decode_sflow(b"".join(datagrams), np.cumsum([len(one) for one in datagrams], dtype=np.int64))


def sflow_datagrams_agree(datagrams: Sequence[bytes]) -> None:
    """Any datagrams decode or say why, and each says the same alone and beside the others."""
    together = sflow_read(*datagrams)
    switch_D, arrived_ns = [LEAF] * len(datagrams), np.full(len(datagrams), NOW_NS)
    columns, count = flow_columns(together, switch_D, arrived_ns)
    assert all(len(column) == count == len(together.flows) for column in columns.values())
    counters = CounterStreams().counters(together, switch_D, arrived_ns)
    alone = [sflow_read(one) for one in datagrams]
    since_rate = slice(sflow_headers.RATE, None)
    assert together.flows[:, since_rate].tolist() == [row for a in alone for row in a.flows[:, since_rate].tolist()]
    assert together.addresses.tolist() == [row for a in alone for row in a.addresses.tolist()]
    assert together.skipped_records == sum(a.skipped_records for a in alone)
    apart = (CounterStreams().counters(a, [LEAF], np.array([NOW_NS])) for a in alone)
    assert len(counters.value) == sum(len(each.value) for each in apart)
    for d, one in enumerate(alone):
        error, same = together.error(d, "x"), one.error(0, "x")
        assert (error is None) == (same is None)
        if error is not None and same is not None:
            assert isinstance(error, DataError)
            assert (error.expected, error.got) == (same.expected, same.got)
            assert not len(one.flows)
