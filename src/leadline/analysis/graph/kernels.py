"""Kernels of the graph: a hash of each name and of its kind, from the bytes of an Arrow column of texts."""
# Numba's types are unknown to mypy.
# mypy: disable-error-code="no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.compiled import compiled

Hashes = NDArray[np.uint64]


@compiled()
def name_hashes(data: NDArray[np.uint8], begin_N: NDArray[np.int32], name_N: Hashes, kind_N: Hashes) -> None:
    """FNV-1a, 64 bits, of each text, and of what stands before its first colon (0: it has none).

    Inputs: `data` all bytes, uint8 (B,); `begin_N` int32 (N + 1,), where each text begins, the last end behind them.
    Writes: `name_N`, `kind_N`, uint64 (N,).
    Hashes only find; whoever finds compares the texts. Source: Fowler, Noll, Vo; RFC 9923, parameters of 64 bits.
    """
    prime = np.uint64(0x100000001B3)
    for n in range(begin_N.shape[0] - 1):
        value = np.uint64(0xCBF29CE484222325)
        kind = np.uint64(0)
        found = False
        for at in range(begin_N[n], begin_N[n + 1]):
            byte = data[at]
            if byte == 58 and not found:
                found = True
                kind = value
            value = (value ^ np.uint64(byte)) * prime
        name_N[n] = value
        kind_N[n] = kind
