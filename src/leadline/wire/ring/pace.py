"""How often agents look into rings: the server says it in its answers, by how many of them there are. Pure."""

from __future__ import annotations

LOOK_HEADER = "leadline-look-s"
"""Of answers to agents: no more than a look in so many seconds is needed."""
LOOKS_PER_S = 100.0
"""Of all agents together: a look costs the server two requests, 2 ms of CPU whatever is in them."""
LOOK_S_MAX = 2.0
"""With a second until it is stored, what a rank did is 3 s old then: less than what makes a sender late (5 s)."""


def look_s(hosts: int) -> float:
    """Time between two looks of each of so many agents, seconds."""
    return min(LOOK_S_MAX, hosts / LOOKS_PER_S)


def told_look_s(text: str | None) -> float:
    """What an answer says, seconds; 0 for nothing, or nothing that can be meant."""
    try:
        return min(LOOK_S_MAX, max(0.0, float(text or 0.0)))
    except ValueError:
        return 0.0
