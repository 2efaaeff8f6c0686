"""Which of several contradicting claims is used, where one must be: a fixed order, and always told (`conflict`).

What a machine sees live comes before what somebody wrote down, and what several say before what one says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Earlier is better; what is not listed stands in the middle, so that a new source is neither blindly believed nor
# ignored. LLDP is heard from the neighbour itself; an inventory is a file.
_TRUST = ("lldp", "agent", "torch-hook", "nccl-plugin", "", "scheduler", "inventory")
_MIDDLE = _TRUST.index("")


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that is claimed of an entity: what, by whom, since when, how sure."""

    says: str
    sources: tuple[str, ...]
    from_ns: int
    confidence: float = 1.0


def trust(source: str) -> int:
    """Place of a source in the order of trust, 0 is best. `agent/lldp` is as good as `lldp`."""
    places = [_TRUST.index(word) for word in source.split("/") if word in _TRUST]
    return min(places, default=_MIDDLE)


def chosen(claims: Sequence[Claim]) -> int:
    """Index of the claim to use: the surest, then the best source's, then that of most sources, the newest, by name."""
    assert claims, "nothing is claimed"

    def rank(place: int) -> tuple[float, int, int, int, str]:
        claim = claims[place]
        best = min(map(trust, claim.sources), default=_MIDDLE)
        return (-claim.confidence, best, -len(set(claim.sources)), -claim.from_ns, claim.says)

    return min(range(len(claims)), key=rank)
