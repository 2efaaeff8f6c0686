"""How much room there is for what the engine does by itself. Pure.

    free >= floor + largest merge   roomy   merges as the engine likes
    free >= floor                   short   only small merges, so that appends do not pile up parts
    free <  floor                   full    no merge; appends are refused; the ballast is let go

The engine does not notice a write that fails (chDB 26.9): a merge that meets a full disk puts an empty part in the
place of good ones. So merges stop before the space does. Source of the idea: VictoriaMetrics obeys its
storage.minFreeDiskSpaceBytes in merges too.
"""

from __future__ import annotations

from enum import StrEnum

SMALL_MERGE_BYTES = 32 << 20
"""What a merge may make while space is short: a thirtieth of the usual floor (1 GiB), and large enough that the parts
of half an hour of appends (20 kB each) become one."""


class Space(StrEnum):
    """How much room there is."""

    ROOMY = "roomy"
    SHORT = "short"
    FULL = "full"


def space(free_bytes: int, floor_bytes: int, merge_bytes: int, before: Space) -> Space:
    """How much room there is, given the largest merge that may begin (it needs its result beside its sources).

    An eighth more is wanted to come out of a state than to fall into it, so that it does not change with each merge.
    """
    full, short = floor_bytes, floor_bytes + merge_bytes
    if before is Space.FULL:
        full += full // 8
    if before is not Space.ROOMY:
        short += short // 8
    return Space.FULL if free_bytes < full else Space.SHORT if free_bytes < short else Space.ROOMY
