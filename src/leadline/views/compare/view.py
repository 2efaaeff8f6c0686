"""Two sides beside each other: what differs in versions and settings, and what differs in time.

Nothing here says that one made the other: both are told, and a person judges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leadline.model.errors import UsageError
from leadline.store import Store
from leadline.views.asked import Asked, only_cluster
from leadline.views.compare.metrics import metric_answer
from leadline.views.compare.settings import settings_of, told_apart
from leadline.views.compare.sides import Reader, Side, peers_of, side_of
from leadline.views.compare.slow_workers import slow_workers
from leadline.views.compare.times import ledger_of, times_of
from leadline.views.rows import SCHEMA_VERSION

NO_CAUSE = "what differs is not what made the difference: change one setting alone to know"


def compare_answer(store: Store, asked: Asked, a: str, b: str) -> dict[str, Any]:
    """What `/api/v1/compare` says: see `docs/how-to/compare-runs-and-hosts.md`. Without `b`: the peers of `a`.

    Errors: UsageError for what cannot be compared; StoreError.
    """
    asked = replace(asked, cluster=asked.cluster or only_cluster(store, asked.principal))
    reader = Reader(store, asked)
    one = side_of(reader, a)
    other = side_of(reader, b) if b else peers_of(reader, one)
    _check(one, other)
    return {
        "schema": SCHEMA_VERSION,
        "a": one.as_answer(),
        "b": other.as_answer(),
        "settings": told_apart(settings_of(reader, one), settings_of(reader, other)),
        "times": times_of(reader, one, other),
        "ledger": ledger_of(reader, one, other),
        "metrics": metric_answer(reader, one, other),
        "slow_workers": {name: _slow(reader, side) for name, side in (("a", one), ("b", other))},
        "note": NO_CAUSE,
    }


def _slow(reader: Reader, side: Side) -> dict[str, Any] | None:
    return slow_workers(reader, side.name, side.from_ns, side.to_ns) if side.kind == "job" else None


def _check(a: Side, b: Side) -> None:
    """Errors: UsageError for kinds that have nothing in common, and for a thing and itself."""
    if a.kind != b.kind:
        raise UsageError(f"like is compared with like: {a.title} is a {a.kind}, {b.title} a {b.kind}")
    if (a.name, a.from_ns, a.to_ns, a.peers_of) == (b.name, b.from_ns, b.to_ns, b.peers_of):
        raise UsageError(f"both sides are {a.title} in the same span; say which span with {a.name}@-2h or @FROM..TO")
