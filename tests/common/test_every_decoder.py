"""One suite for every decoder: any bytes decode or raise, twice the same, without touching what they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.model.errors import DataError, RefusedError
from leadline.model.ids import series_id_of
from leadline.wire.body import ENCODINGS, Body
from leadline.wire.samples import Samples, read_canonical_labels

from .decoders import DECODERS, MIB, PACK, ROWS, SAMPLES, Decoder

LAW = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
every = pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)


def outcome(decoder: Decoder, data: bytes) -> Any:
    """What comes out, None if the bytes are not taken. Anything raised but these two is a bug."""
    try:
        return decoder.decode(data)
    except (DataError, RefusedError):
        return None


def plain(result: Any) -> Any:
    """A result as values that compare bit by bit."""
    if isinstance(result, Samples):
        spans = zip(result.label_start, result.label_end, strict=True)
        return (
            [result.label_bytes[start:end].tobytes() for start, end in spans],
            result.ids.tolist(),
            result.sample_series.tolist(),
            result.time_ns.tolist(),
            result.value.view(np.uint64).tolist(),
            dict(result.metadata),
            dict(result.dropped),
        )
    if isinstance(result, pa.Table):
        bits = {
            name: column.to_numpy(zero_copy_only=False).view(np.uint64).tolist()
            for name, column in zip(result.column_names, result.columns, strict=True)
            if column.type == pa.float64() and not column.null_count
        }
        return str(result.schema), bits, repr(result.to_pylist())
    return repr(sorted(result.items())) if isinstance(result, Mapping) else result


def hold(decoder: Decoder, data: bytes) -> Any:
    """The laws for one input. Returns: what came out, None if it was not taken."""
    given_bytes = bytes(bytearray(data))
    result = outcome(decoder, data)
    assert data == given_bytes, "the input was changed"
    again = outcome(decoder, given_bytes)
    assert plain(result) == plain(again)
    if isinstance(result, Samples):
        hold_samples(result)
    elif decoder in ROWS and isinstance(result, dict):
        assert len({len(column) for column in result.values()}) == 1, "columns of one length"
    return result


def hold_samples(samples: Samples) -> None:
    """What `wire.samples` promises of its columns."""
    streams, count = len(samples.ids), len(samples.time_ns)
    assert samples.ids.shape == (streams, 2)
    assert len(samples.label_start) == len(samples.label_end) == streams
    assert len(samples.sample_series) == len(samples.value) == count
    types = [column.dtype for column in (samples.label_bytes, samples.ids, samples.time_ns, samples.value)]
    assert types == [np.uint8, np.uint64, np.int64, np.float64]
    assert samples.sample_series.dtype == samples.label_start.dtype == samples.label_end.dtype == np.int64
    if count:
        assert 0 <= samples.sample_series.min() <= samples.sample_series.max() < streams
    for stream in range(streams):
        start, end = int(samples.label_start[stream]), int(samples.label_end[stream])
        assert 0 <= start <= end <= len(samples.label_bytes)
        raw = samples.label_bytes[start:end].tobytes()
        found = int(samples.ids[stream, 0]) | int(samples.ids[stream, 1]) << 64
        assert found == series_id_of(raw)
        assert (found ^ mmh3.hash128(raw, 0, x64arch=True, signed=False)) & ((1 << 96) - 1) == 0
        try:
            labels = read_canonical_labels(raw)
        except DataError as error:
            if "utf-8" in str(error):  # the way in refuses the stream; anything else would be a bug of the decoder
                continue
            raise
        assert list(labels) == sorted(labels, key=str.encode), "labels are sorted"
        assert all(labels.values()), "empty labels are left out"
    assert all(amount > 0 for amount in samples.dropped.values())


@every
def test_valid_messages_decode(decoder: Decoder) -> None:
    for data in decoder.valid:
        assert hold(decoder, data) is not None


@every
def test_every_truncation_decodes_or_raises(decoder: Decoder) -> None:
    data = decoder.valid[0]
    step = max(1, len(data) // 400)
    for end in range(0, len(data), step):
        hold(decoder, data[:end])


@every
@LAW
@given(data=st.binary(max_size=120))
def test_any_bytes_decode_or_raise(decoder: Decoder, data: bytes) -> None:
    hold(decoder, data)


@every
@LAW
@given(data=st.data())
def test_damaged_messages_decode_or_raise(decoder: Decoder, data: st.DataObject) -> None:
    message = bytearray(data.draw(st.sampled_from(decoder.valid)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(message)))
        kind = data.draw(st.sampled_from(["set", "flip", "remove", "insert", "repeat"]))
        if kind == "insert" or at >= len(message):
            message[at:at] = data.draw(st.binary(max_size=6))
        elif kind == "set":
            message[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == "flip":
            message[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "remove":
            del message[at : at + data.draw(st.integers(1, 8))]
        else:
            message[at:at] = message[at : at + data.draw(st.integers(1, 40))]
    hold(decoder, bytes(message))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding or "none")
@pytest.mark.parametrize("decoder", [*SAMPLES, *ROWS], ids=lambda decoder: decoder.name)
def test_byte_by_byte_equals_all_at_once(decoder: Decoder, encoding: str) -> None:
    """A message in any encoding, cut anywhere on its way, is the same message."""
    for data in decoder.valid:
        body = Body(encoding, MIB, MIB)
        for byte in PACK[encoding](data):
            body.feed(bytes([byte]))
        assert plain(decoder.decode(body.finish())) == plain(decoder.decode(data))


@pytest.mark.parametrize("decoder", SAMPLES, ids=lambda decoder: decoder.name)
def test_samples_do_not_change_when_another_body_is_decoded(decoder: Decoder) -> None:
    """The columns go to another thread and wait there: no buffer of theirs may be used again."""
    first = decoder.decode(decoder.valid[0])
    before = plain(first)
    for _ in range(3):
        decoder.decode(decoder.valid[0])
        outcome(decoder, decoder.valid[0][: len(decoder.valid[0]) // 2])
    assert plain(first) == before


def test_every_decoder_of_wire_is_here() -> None:
    """Public functions `decode_*` of leadline.wire, but for the ones that only another one calls."""
    import ast
    from pathlib import Path

    import leadline.wire

    folder = Path(leadline.wire.__file__).parent
    found = {
        node.name
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("decode_")
    }
    here = (Path(__file__).parent / "decoders.py").read_text()
    assert {name for name in found if f"{name}(" not in here} == set()
