"""The allocators of the server and of its workers: each keeps memory that was freed, and is told to keep little.

    Python, numpy, pyarrow ──> glibc      an arena for each thread, up to eight a core
    the engine ──────────────> jemalloc   its own: an arena a core

pyarrow's own choice, mimalloc, is not used: it held 150 MB of huge pages for 31 MB of rows (20,000 streams, 5,000
samples/s), and as much in each worker.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping

# Read when a program or library begins, so they have to be there before.
SETTINGS: dict[str, str] = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # The process has some 50 threads; what one frees in an arena of its own the others cannot use.
    "MALLOC_ARENA_MAX": "2",
    # Arrays from 1 MiB on are mapped, and gone when they are freed; glibc raises this up to 32 MiB by itself.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 20),  # what is free at the end of an arena
    # Pages that were freed are given back after a second, not five, and by a thread: else only an arena that is used
    # gives back, and after a burst none is.
    "JE_MALLOC_CONF": "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true",
}


def environ(given: Mapping[str, str]) -> dict[str, str]:
    """An environment in which allocators keep little; what it says of them already holds."""
    return {**SETTINGS, **given}


def trim() -> None:
    """Have glibc give back whole pages that are free within its arenas; by itself it does so at their ends only.

    Takes 15 to 50 ms for 250 MB, in which threads that allocate wait.
    """
    give = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give is not None:  # no glibc
        give(0)


def give_back() -> None:
    """Have Python, pyarrow and glibc give back what they keep; the engine is asked by a statement of its own."""
    import pyarrow as pa  # not for the supervisor, which imports this too

    gc.collect()
    pa.default_memory_pool().release_unused()
    trim()
