"""What a rank says when it gives up: whether because of others."""

from __future__ import annotations

import re

FAILED = "rank-failed"  # kind of the event
_OF_COLLECTIVE = re.compile(
    r"collective|gloo|nccl|timed? ?out|time-out|connection|peer|not over after|heard nothing", re.I
)
_OF_LIBRARY = re.compile(
    r"collective|gloo|nccl|c10d|TCPStore|monitoredBarrier|Dist(Backend|Network|Store)Error"
    r"|RuntimeError: .*connection (closed|reset) by peer",
    re.I,
)


def is_of_peers(words: str, code: str) -> bool:
    """Whether it gave up because a collective failed, as a peer was gone or silent: then it is a victim.

    `code`: class of its exception; empty: a program said it in its own words. An exception names the library, or is the
    RuntimeError of torch. Those of sockets (a storage, a hub) and time-outs of loaders are the rank's own.
    """
    return bool((_OF_LIBRARY if code else _OF_COLLECTIVE).search(words))
