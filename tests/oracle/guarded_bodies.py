"""A program: decodes bodies that end at the last byte of readable memory. Reading further kills the process.

Prints how many were decoded or refused with DataError. Run by tests/property/wire/test_remote_write.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracle.remote_write import V1, V2

from leadline.model.errors import DataError, RefusedError
from leadline.wire.remote_write.requests import decode_remote_write

PAGE = mmap.PAGESIZE
PROT_NONE = 0


def v1() -> bytes:
    request = V1["WriteRequest"]()
    for number in range(3):
        stream = request.timeseries.add()
        for name, value in (("__name__", "up"), ("instance", f"node-{number}:9100"), ("job", "node")):
            stream.labels.add(name=name, value=value)
        stream.samples.add(value=number, timestamp=1_760_000_000_000)
    stream.histograms.add(count_int=3, sum=2.5, timestamp=1_760_000_000_000).positive_deltas.extend([1, 2])
    request.metadata.add(type=1, metric_family_name="up", help="help")
    return bytes(request.SerializeToString())


def v2() -> bytes:
    request = V2["Request"](symbols=["", "__name__", "up", "job", "node", "instance", "n1", "n2", "help"])
    for number in range(3):
        stream = request.timeseries.add(labels_refs=[1, 2, 5, 6 + number % 2, 3, 4])
        stream.samples.add(value=number, timestamp=1_760_000_000_000)
        stream.metadata.type, stream.metadata.help_ref = 1, 8
    stream.histograms.add(count_int=3, sum=2.5, timestamp=1_760_000_000_000).positive_deltas.extend([1, 2])
    # Symbols last, so that their bytes are the ones that lie before the guard.
    symbols = V2["Request"](symbols=request.symbols).SerializeToString()
    whole = bytes(request.SerializeToString())
    return whole[len(symbols) :] + bytes(symbols)


def main() -> None:
    guarded = mmap.mmap(-1, 3 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(guarded))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + 2 * PAGE), PAGE, PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    chance = random.Random(20260101)
    tried = 0
    for body, version in ((v1(), 1), (v2(), 2)):
        cases = [body[:size] for size in range(len(body) + 1)] + [body[at:] for at in range(len(body))]
        for _ in range(1500):
            damaged = bytearray(body[: chance.randint(1, len(body))])
            for _ in range(chance.randint(1, 3)):
                damaged[chance.randrange(len(damaged))] = chance.choice([0, 0x0A, 0x12, 0x7F, 0x80, 0xFF])
            cases.append(bytes(damaged))
        for case in cases:
            guarded[2 * PAGE - len(case) : 2 * PAGE] = case
            view = memoryview(guarded)[2 * PAGE - len(case) : 2 * PAGE].toreadonly()
            with contextlib.suppress(DataError, RefusedError):
                decode_remote_write(view, version)  # type: ignore[arg-type]
            tried += 1
    print(tried, flush=True)
    # The interpreter's own end would unmap pages that numpy views still name: leave without it.
    os._exit(0)


if __name__ == "__main__":
    main()
