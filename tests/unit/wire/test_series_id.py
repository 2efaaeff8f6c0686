"""The kernel of series ids against the definition in model.ids."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.model.ids import canonical_labels, murmur3_128, series_id
from leadline.wire.series_id import series_slice, series_slices

STREAMS = (
    {"__name__": "up", "job": "node"},
    {"Hostname": "n1", "UUID": "GPU-1", "__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"},  # capitals sort before _
    {"__name__": "x" * 300, "job": "y" * 200},
    {"A": "__name__", "__name__": "up"},
    {"A": "\n\x08__name__\x12\x02no", "__name__": "up", "a": "z" * 20_000},
    {"a" * 200: "b" * 200, "__name__": "up"},
    {"job": "node"},  # without a name
)


def _ids(raw: bytes, start: int = 0) -> int:
    low, high = series_slice(np.frombuffer(raw, np.uint8), start, len(raw))
    return int(low) | int(high) << 64


@pytest.mark.parametrize("labels", STREAMS, ids=range(len(STREAMS)))
@pytest.mark.parametrize("before", [0, 5])
def test_equals_definition(labels: dict[str, str], before: int) -> None:
    assert _ids(b"\x07" * before + canonical_labels(labels), before) == series_id(labels)


def test_many() -> None:
    encoded = [canonical_labels(labels) for labels in STREAMS]
    ends = np.cumsum([len(raw) for raw in encoded], dtype=np.int64)
    starts = ends - [len(raw) for raw in encoded]
    ids = np.zeros((len(encoded), 2), np.uint64)
    series_slices(np.frombuffer(b"".join(encoded), np.uint8), starts, ends, ids)
    assert [int(low) | int(high) << 64 for low, high in ids] == [series_id(labels) for labels in STREAMS]
    with pytest.raises(IndexError, match="differ in length"):
        series_slices(np.frombuffer(b"x", np.uint8), starts, ends, ids[:2])


@pytest.mark.parametrize("cut", range(1, 29))
def test_bytes_that_are_cut_off_are_hashed_without_a_name_or_with_it(cut: int) -> None:
    whole = canonical_labels({"__name__": "up", "job": "node"})[:cut]
    of_name = murmur3_128(b"up" if cut >= 16 else b"") & 0xFFFFFFFF
    assert _ids(whole) == of_name << 96 | murmur3_128(whole) & ((1 << 96) - 1)


def test_any_bytes_are_hashed() -> None:
    data = np.random.default_rng(1).integers(0, 256, 4000, dtype=np.uint8)
    data[::7] = 0x0A
    for end in range(0, 4000, 13):
        raw = data[:end].tobytes()
        assert _ids(raw) & ((1 << 96) - 1) == murmur3_128(raw) & ((1 << 96) - 1)
    with pytest.raises(IndexError, match="leaves the array"):
        series_slice(data, 5, 4)
