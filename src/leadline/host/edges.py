"""From edges that are seen to rows of `relation`: told when they begin and when they end, not in between.

Pure. What holds is remembered across restarts of the agent (as a mark in the spool), so that an edge keeps the time
since when it was seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from leadline.host.found import Edge
from leadline.host.rows import Relation

Held = dict[tuple[str, str, str], int]  # child, parent, kind -> since when


def changed(held: Held, seen: Iterable[Edge], now_ns: int, source: str) -> tuple[Held, list[Relation]]:
    """What holds now, and the rows that tell what is different from `held`.

    Inputs: the edges held before and those seen now, of one source.
    Returns: (held now, rows): an edge that is new, and one that is gone with its end. In order of their names, so the
    same change gives the same rows.
    """
    now: Held = {}
    for edge in seen:
        key = (edge.child, edge.parent, edge.kind)
        now[key] = held.get(key) or edge.since_ns or now_ns
    rows = [Relation(*key, held[key], max(now_ns, held[key]), source) for key in sorted(held.keys() - now.keys())]
    rows += [Relation(*key, now[key], None, source) for key in sorted(now.keys() - held.keys())]
    return now, rows


def to_mark(held: Held) -> str:
    """As a text that the spool keeps."""
    return json.dumps([[*key, since] for key, since in sorted(held.items())], separators=(",", ":"))


def from_mark(text: str) -> Held:
    """What `to_mark` made; a text that is none holds nothing: edges are then told anew."""
    try:
        return {(str(a), str(b), str(c)): int(since) for a, b, c, since in json.loads(text)}
    except (ValueError, TypeError):
        return {}
