"""A program: scans pages and OTLP bodies that end at the last byte of readable memory. Reading further kills it.

Prints how many were scanned. Run by tests/property/wire/test_guarded_scans.py.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from leadline.wire.exposition.pages import kernels as exposition_kernels
from leadline.wire.labels import LABELS_MAX
from leadline.wire.otlp import requests as otlp_requests
from leadline.wire.otlp.tables import empty_tables

PAGE = mmap.PAGESIZE
PROT_NONE = 0
TEXT = b"""# TYPE a counter
a_total{b="c\\n",d="\xc3\xa9"} 1027 1395066363
{"x.y",b="c"} -1.5e-7 # {t="u"} 0.5 1.25
b +Infinity
"""


def request() -> bytes:
    made = ExportMetricsServiceRequest()
    resource_metrics = made.resource_metrics.add()
    resource_metrics.resource.attributes.add(key="host.name").value.string_value = "né-1"
    metrics = resource_metrics.scope_metrics.add(scope={"name": "s"}).metrics
    point = metrics.add(name="g").gauge.data_points.add(time_unix_nano=5, as_double=1.5)
    point.attributes.add(key="k").value.int_value = -7
    metrics.add(
        name="h", histogram={"data_points": [{"time_unix_nano": 5, "bucket_counts": [1, 2], "explicit_bounds": [1]}]}
    )
    return bytes(made.SerializeToString())


def scan_page(view: memoryview) -> None:
    """As `exposition._scan`, but where the page lies: there `__name__` follows it, here nothing does."""
    page = np.frombuffer(view, np.uint8)
    lines = 20
    counts = exposition_kernels.COUNTS_SIZE
    shapes = [
        (counts,),
        (4096,),
        (lines,),
        (lines,),
        (lines, 2),
        (lines,),
        (lines,),
        (lines, 3),
        (lines, 3),
        (lines, 3),
    ]
    types = [np.int64, np.uint8, np.int64, np.int64, np.uint64, np.int64, np.float64, np.int64, np.int64, np.int64]
    out = [np.zeros(shape, kind) for shape, kind in zip(shapes, types, strict=True)]
    pairs = np.zeros((LABELS_MAX + 1, 4), np.int64)
    exposition_kernels.scan(page, len(page) - 8, True, 0, pairs, *out)


def scan_request(view: memoryview) -> None:
    otlp_requests.scan(empty_tables(500), np.frombuffer(view, np.uint8))


def main() -> None:
    guarded = mmap.mmap(-1, 3 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(guarded))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + 2 * PAGE), PAGE, PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    chance = random.Random(20260101)
    tried = 0
    for body, scan, tail in ((TEXT, scan_page, b"__name__"), (request(), scan_request, b"")):
        cases = [body[:size] for size in range(len(body) + 1)] + [body[at:] for at in range(len(body))]
        for _ in range(1500):
            damaged = bytearray(body[: chance.randint(1, len(body))])
            for _ in range(chance.randint(1, 3)):
                damaged[chance.randrange(len(damaged))] = chance.choice(
                    [0, 0x0A, 0x12, 0x22, 0x5C, 0x7B, 0x7F, 0x80, 0xFF]
                )
            cases.append(bytes(damaged))
        for case in cases:
            whole = case + tail
            guarded[2 * PAGE - len(whole) : 2 * PAGE] = whole
            scan(memoryview(guarded)[2 * PAGE - len(whole) : 2 * PAGE])
            tried += 1
    print(tried, flush=True)
    os._exit(0)  # the interpreter's own end would unmap pages that numpy views still name


if __name__ == "__main__":
    main()
