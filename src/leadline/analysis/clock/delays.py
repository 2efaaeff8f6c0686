"""Rows of `delay`: how long packets took each way between two hosts in a window, by the mesh's own time.

By an edge's own line both ways take as long. What the mesh says of it instead is added to the delays there, and taken
from those back. Loss and queueing need no common clock, and who is dark none at all: of a pair that was probed and from
which nothing came all is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.clock.follow import Followed
from leadline.analysis.clock.told import SELF, Told
from leadline.analysis.spec import Window

WAYS = ("there", "back")
NUMBERS = tuple(f"{way}_{what}" for way in WAYS for what in ("min_ns", "p50_ns", "p99_ns", "queue_ns"))
COUNTS = tuple(f"{way}_{what}" for way in WAYS for what in ("sent", "lost"))
_SEEN = ("min", "p50", "p99")
_BOUND_MAX_NS = 3600e9  # beyond which a bound says nothing any more. Source: definition.
_ASYMMETRIC_SHARE = 0.5  # of a window's steps in which an edge must be flagged. Source: judgement.
KNOWN, ASYMMETRIC, UNCLOCKED, DARK = "known", "asymmetric", "unclocked", "dark"


def delays(followed: Followed, told: Told, rows: pa.Table, window: Window) -> list[dict[str, Any]]:
    """Both ways of each edge, port and class. `rows`: of the window alone.

    One of the two hosts tells an edge. Where both did, as when others joined and it changed sides, the one counts that
    heard more.
    """
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _told(followed, told, rows, window):
        key = row["src"], row["dst"], row["src_port"], row["class"]
        if key not in best or best[key]["count"] < row["count"]:
            best[key] = row
    return list(best.values())


def _told(followed: Followed, told: Told, rows: pa.Table, window: Window) -> Iterator[dict[str, Any]]:
    place = {host: number for number, host in enumerate(told.hosts)}
    edge_of = {edge: number for number, edge in enumerate(told.edges)}
    columns = {name: rows[name].to_pylist() for name in ("src_port", "class", *NUMBERS, *COUNTS)}
    src, dst, state = (rows[name].cast(pa.string()).to_pylist() for name in ("src", "dst", "state"))
    rows_of: dict[tuple[str, str, int, int], list[int]] = {}
    for row in range(rows.num_rows):
        if state[row] != SELF and src[row] != dst[row]:
            rows_of.setdefault((src[row], dst[row], columns["src_port"][row], columns["class"][row]), []).append(row)
    bound_H = followed.mesh.bound_H
    for key, mine in sorted(rows_of.items()):
        one, other, port, dscp = key
        said = [each for each in followed.edges.get(edge_of[key], []) if np.isfinite(each.wrong_ns)]
        wrong_ns = round(float(np.median([each.wrong_ns for each in said]))) if said else 0
        bound = float(bound_H[place[one]] + bound_H[place[other]])
        known = bool(said) and bound < _BOUND_MAX_NS
        flagged = known and sum(each.flagged for each in said) > _ASYMMETRIC_SHARE * len(said)
        ways = {way: _way(way, mine, columns) for way in WAYS}
        # What nobody heard of nobody knows the fate of: where nothing came at all, all is lost.
        dark = not any(each["count"] for each in ways.values())
        for way, ends, sign in (("there", (one, other), 1), ("back", (other, one), -1)):
            found = ways[way]
            if not (found["sent"] or dark):
                continue
            shift_ns = sign * wrong_ns
            seen = found["min"] is not None
            word = DARK if dark or not found["count"] else ASYMMETRIC if flagged else KNOWN if known else UNCLOCKED
            yield {
                "src": ends[0], "dst": ends[1], "src_port": port, "class": dscp, "end_ns": window.to_ns,
                "window_ns": window.window_ns,
                **{f"{what}_ns": found[what] + shift_ns if seen else None for what in _SEEN},
                "queue_p99_ns": found["queue"], "lost": 1.0 if dark else found["lost"] / found["sent"],
                "count": found["count"], "bound_ns": round(bound) if known and seen else None, "state": word,
            }  # fmt: skip


def _way(way: str, rows: list[int], columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    seen = [row for row in rows if all(columns[f"{way}_{what}_ns"][row] is not None for what in _SEEN)]
    sent = sum(columns[f"{way}_sent"][row] for row in rows)
    lost = min(sent, sum(columns[f"{way}_lost"][row] for row in rows))
    found: dict[str, Any] = {"sent": sent, "lost": lost, "count": min(sent - lost, 2**63 - 1)}
    if not seen:
        return found | dict.fromkeys(("min", "p50", "p99", "queue"))
    return found | {
        "min": min(columns[f"{way}_min_ns"][row] for row in seen),
        "p50": sorted(columns[f"{way}_p50_ns"][row] for row in seen)[len(seen) // 2],
        "p99": max(columns[f"{way}_p99_ns"][row] for row in seen),
        "queue": max(columns[f"{way}_queue_ns"][row] or 0 for row in seen),
    }
