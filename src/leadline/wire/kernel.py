"""How this package compiles its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from leadline.model.sources import kept_by_content

_njit: Any = njit  # its annotations leave out _nrt


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that reads and writes the arrays it is given, and makes none of its own.

    nogil: other threads run meanwhile. cache: compiled once per machine; a user who may write neither beside the source
    nor at home (a service account) compiles at every start, unless NUMBA_CACHE_DIR says where else.

    _nrt=False: no counting of references to arrays. That counting is atomic and done for every array at every call, and
    it was most of the time: without it a remote-write stream takes 60 ns instead of 130, one of the general lane 170
    instead of 1000 (numba 0.68). The caller holds the arrays for the length of the call, so nothing is lost but the
    right to allocate in a kernel; numba says so when one tries.
    """
    try:
        return kept_by_content(_njit(nogil=True, cache=True, _nrt=False)(function))
    except RuntimeError:  # "cannot cache function: no locator available"
        return _njit(nogil=True, _nrt=False)(function)
