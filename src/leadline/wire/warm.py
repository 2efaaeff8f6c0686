"""Compile, or load from the cache, every kernel of this package before the first request needs it.

A kernel that is compiled inside a request costs that request seconds; one that is loaded from numba's cache,
tens of milliseconds. Each warmer decodes something tiny through the public function, so that the argument
types are the ones that requests will bring. A new format appends its warmer to `WARMERS`. `make` compiles
(`leadline.server.background.kernels`) after deleting the caches, for the reason below.

Numba keeps compiled code beside the source (or in NUMBA_CACHE_DIR) and renews it when *that* file changes,
but not when a kernel it calls changes in another file: after editing `words.py`, `proto.py`, `murmur.py` or
`series_id.py` delete the caches (`find src -name '*.nb[ic]' -delete`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from leadline.wire.exposition.pages import decode_exposition
from leadline.wire.murmur import murmur3_slices
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.series_id import series_slices
from leadline.wire.series_index import SeriesIndex, touch
from leadline.wire.sflow.datagrams import decode_sflow


def _murmur() -> object:
    ids = np.zeros((1, 2), np.uint64)
    murmur3_slices(np.frombuffer(b"x", np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), ids)
    return ids


def _series_id() -> object:
    ids = np.zeros((1, 2), np.uint64)
    series_slices(np.frombuffer(b"x", np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), ids)
    return ids


def _remote_write_v1() -> object:
    return decode_remote_write(b"", 1)


def _remote_write_v2() -> object:
    return decode_remote_write(b"", 2)


def _series_index() -> object:
    index = SeriesIndex(series_max=1000)
    ids = np.zeros((600, 2), np.uint64)
    ids[:, 0] = np.arange(600)  # enough to make it grow once
    numbers = index.insert(ids)
    times = np.zeros(600, np.int64)
    return touch(index.lookup(ids), numbers, times, times)


def _exposition() -> object:
    return decode_exposition(b"", "text/plain", 0)


def _otlp_metrics() -> object:
    return decode_otlp_metrics(b"", "application/x-protobuf")


def _sflow() -> object:
    return decode_sflow(b"", [])


WARMERS: tuple[Callable[[], object], ...] = (
    _murmur,
    _series_id,
    _remote_write_v1,
    _remote_write_v2,
    _series_index,
    _exposition,
    _otlp_metrics,
    _sflow,
)


def warm() -> float:
    """Run every warmer once. Returns: how long that took, in seconds (a later call takes microseconds)."""
    began = time.perf_counter()
    for warmer in WARMERS:
        warmer()
    return time.perf_counter() - began
