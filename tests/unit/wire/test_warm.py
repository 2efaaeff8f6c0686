"""After `warm` no kernel compiles any more when real input comes."""

from __future__ import annotations

import numpy as np
from numba.core.dispatcher import Dispatcher

from leadline.wire import labels, murmur, proto, series_index
from leadline.wire.exposition.pages import OPENMETRICS, decode_exposition
from leadline.wire.exposition.pages import kernels as exposition_kernels
from leadline.wire.otlp import arena as otlp_arena
from leadline.wire.otlp import attributes as otlp_attributes
from leadline.wire.otlp import points as otlp_points
from leadline.wire.otlp import requests as otlp_requests
from leadline.wire.otlp import streams as otlp_streams
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.remote_write import parts as remote_write_parts
from leadline.wire.remote_write import v1 as remote_write_v1
from leadline.wire.remote_write import v2 as remote_write_v2
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.series_index import SeriesIndex, touch
from leadline.wire.sflow import headers as sflow_headers
from leadline.wire.sflow import kernels as sflow_kernels
from leadline.wire.sflow.datagrams import decode_sflow
from leadline.wire.warm import warm

UP = bytes.fromhex("0a1e 0a0e 0a08 5f5f6e616d655f5f 1202 7570 120c 09 000000000000f03f 10e807")  # up 1 1000

# One gauge `up` with one point: time 5 ns, value 1.
GAUGE = bytes.fromhex("0a1e 121c 121a 0a02 7570 2a14 0a12 19 0500000000000000 21 000000000000f03f")


def _compiled() -> dict[str, int]:
    modules = (
        exposition_kernels,
        labels,
        murmur,
        otlp_arena,
        otlp_attributes,
        otlp_points,
        otlp_requests,
        otlp_streams,
        proto,
        remote_write_parts,
        remote_write_v1,
        remote_write_v2,
        series_index,
        sflow_headers,
        sflow_kernels,
    )
    return {
        f"{module.__name__}.{name}": len(kernel.signatures)
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
    }


def test_warm_leaves_nothing_to_compile() -> None:
    assert warm() > 0
    before = _compiled()
    got = decode_remote_write(UP, 1)
    assert (got.time_ns.tolist(), got.value.tolist()) == ([1_000_000_000], [1.0])
    decode_remote_write(b"\x22\x00", 2)
    assert decode_exposition(b'up{job="x"} 1\n# EOF\n', OPENMETRICS, 0).value.tolist() == [1.0]
    assert decode_otlp_metrics(GAUGE, "application/x-protobuf").value.tolist() == [1.0]
    assert decode_sflow(b"x", [1]).error(0) is not None
    index = SeriesIndex(10)
    touch(index.insert(got.ids), got.sample_series, got.time_ns, np.zeros(10, np.int64))
    index.lookup(got.ids)
    assert _compiled() == before
