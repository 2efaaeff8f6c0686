"""What several faults may hold at once: a CPU quota, a control file, a port's rate, a link.

Each holder says what it wants of a lever; what all of them want together is applied, and the lever is free again when
the last one lets go. So any fault may be combined with any other, in any order of their ends.

    levers.hold(lever, holder, 0.3)     # 0.3 cores
    levers.hold(lever, other, 0.1)      # the stronger claim rules: 0.1
    levers.release(lever, other)        # 0.3 again
    levers.release(lever, holder)       # free
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing that can be held. `key` tells levers apart; `apply` gets what all want together, or None: free."""

    key: tuple[str, ...]
    together: Callable[[Sequence[Any]], Any]
    apply: Callable[[Any], None]


@dataclass(slots=True)
class Levers:
    """Who holds what. Holders are told apart by identity: two equal faults are two holders. For several threads."""

    _held: dict[tuple[str, ...], dict[int, Any]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)  # a link flaps in a thread of its own

    def hold(self, lever: Lever, holder: object, value: Any) -> None:
        """Claim it, or change one's claim. Errors: what `apply` raises; the claim stands nevertheless."""
        with self._lock:
            claims = self._held.setdefault(lever.key, {})
            claims[id(holder)] = value
            lever.apply(lever.together(list(claims.values())))

    def renew(self, lever: Lever) -> None:
        """Apply again what is wanted of it: what it takes hold of has been made anew. Nothing if nobody holds it."""
        with self._lock:
            if claims := self._held.get(lever.key):
                lever.apply(lever.together(list(claims.values())))

    def release(self, lever: Lever, holder: object) -> None:
        """Let go; nothing happens if it was not held by this holder."""
        with self._lock:
            claims = self._held.get(lever.key, {})
            if id(holder) not in claims:
                return
            del claims[id(holder)]
            if claims:
                lever.apply(lever.together(list(claims.values())))
            else:
                del self._held[lever.key]
                lever.apply(None)


def strongest(claims: Sequence[float]) -> float:
    """For what is made scarce: the least that anybody leaves."""
    return min(claims)


def merged(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For settings by name: all of them. Numbers that two want: the larger; maps: merged alike; else the later."""
    out: dict[str, Any] = {}
    for claim in claims:
        for name, value in claim.items():
            before = out.get(name)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                out[name] = merged([before, value])
            elif _number(before) and _number(value):
                # A multiple of the healthy value (`clock_factor` 0.4, `sequence_factor` 2) is worse further from 1.
                by = _off_one if name.endswith(("_factor", "_ratio")) else float
                out[name] = max(before, value, key=by)
            else:
                out[name] = value
    return out


def _off_one(value: float) -> float:
    return abs(math.log(value)) if value > 0 else math.inf


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
