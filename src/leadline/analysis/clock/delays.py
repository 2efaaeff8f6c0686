"""Rows of `delay`: how long packets took each way between two hosts in a window, by the mesh's own time.

By an edge's own line both ways take as long. What the mesh says of it instead is added to the delays there, and taken
from those back. Loss and queueing need no common clock, and who is dark none at all: of a pair that was probed and from
which nothing came all is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.clock.follow import Columns, Followed, Said
from leadline.analysis.clock.told import TIME_MAX_NS, Told
from leadline.analysis.columns import Bools, Floats, Ints, ints, number_of
from leadline.analysis.spec import Window

WAYS = ("there", "back")
NUMBERS = tuple(f"{way}_{what}" for way in WAYS for what in ("min_ns", "p50_ns", "p99_ns", "queue_ns"))
COUNTS = tuple(f"{way}_{what}" for way in WAYS for what in ("sent", "lost"))
_SEEN = ("min", "p50", "p99")
_BOUND_MAX_NS = 3600e9  # beyond which a bound says nothing any more. Source: definition.
_ASYMMETRIC_SHARE = 0.5  # of a window's steps in which an edge must be flagged. Source: judgement.
KNOWN, ASYMMETRIC, UNCLOCKED, DARK = _WORDS = ("known", "asymmetric", "unclocked", "dark")
# Probes of an edge in a second that are counted at most, so that sums hold: nobody sends 10^12. Source: bound.
_COUNT_MAX = 10**12
DELAY = (
    "src", "dst", "src_port", "class", "end_ns", "window_ns", "min_ns", "p50_ns", "p99_ns", "queue_p99_ns", "lost",
    "count", "bound_ns", "state",
)  # fmt: skip


def delays(followed: Followed, told: Told, rows: pa.Table, window: Window) -> Columns:
    """Columns of `delay`: both ways of each edge, port and class. `rows`: those that `told` is of.

    One of the two hosts tells an edge. Where both did, as when others joined and it changed sides, the one counts that
    heard more.
    """
    mine = np.flatnonzero((told.edge_N >= 0) & (told.end_N >= window.from_ns))
    if not len(mine):
        return {name: [] for name in DELAY}
    mine = mine[np.argsort(told.edge_N[mine], kind="stable")]
    edge_K, first_K = np.unique(told.edge_N[mine], return_index=True)
    here = rows.take(told.row_N[mine])
    there, back = (_way_of(here, way, first_K) for way in WAYS)
    wrong_K, said_K, flagged_K = _of_mesh(followed.said, edge_K, len(told.edges))
    src_K, dst_K = told.src_E[edge_K], told.dst_E[edge_K]
    bound_K = followed.mesh.bound_H[src_K] + followed.mesh.bound_H[dst_K]
    known_K = said_K & (bound_K < _BOUND_MAX_NS)
    # What nobody heard of nobody knows the fate of: where nothing came at all, all is lost.
    dark_K = (there.count_K == 0) & (back.count_K == 0)
    parts = [
        _rows(way, edge_K, ends, sign * wrong_K, bound_K, known_K, flagged_K & known_K, dark_K)
        for way, ends, sign in ((there, (src_K, dst_K), 1), (back, (dst_K, src_K), -1))
    ]
    # Both ways of an edge beside each other, in the order of edges.
    order = np.argsort(np.concatenate([each["edge"] for each in parts]), kind="stable")
    whole = {name: np.concatenate([each[name] for each in parts])[order] for name in parts[0]}
    kept = _heard_most(whole, told)
    whole = {name: value[kept] for name, value in whole.items()}
    ports = [told.edges[edge][2:] for edge in whole["edge"].tolist()]
    count = len(kept)
    return {
        "src": [told.hosts[host] for host in whole["src"].tolist()],
        "dst": [told.hosts[host] for host in whole["dst"].tolist()],
        "src_port": [port for port, _ in ports], "class": [dscp for _, dscp in ports],
        "end_ns": [window.to_ns] * count, "window_ns": [window.window_ns] * count,
        **{f"{what}_ns": _or_none(whole[what], whole["seen"]) for what in _SEEN},
        "queue_p99_ns": _or_none(whole["queue"], whole["seen"]), "lost": whole["lost"].tolist(),
        "count": whole["count"].tolist(), "bound_ns": _or_none(whole["bound"], whole["bounded"]),
        "state": [_WORDS[each] for each in whole["word"].tolist()],
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of K edges in a window."""

    sent_K: Ints
    lost_K: Ints
    count_K: Ints
    seen_K: Bools  # whether delays are known
    least_K: Ints
    middle_K: Ints
    most_K: Ints
    queue_K: Ints


def _way_of(rows: pa.Table, way: str, first_K: Ints) -> _Way:
    """`rows`: edge by edge; `first_K`: where each begins."""
    sent_K, lost_K = (
        np.add.reduceat(np.clip(ints(rows, f"{way}_{what}"), 0, _COUNT_MAX), first_K) for what in ("sent", "lost")
    )
    lost_K = np.minimum(sent_K, lost_K)
    seen_R = np.ones(rows.num_rows, bool)
    for what in _SEEN:
        seen_R &= rows[f"{way}_{what}_ns"].is_valid().to_numpy(zero_copy_only=False)
    least, middle, most, queue = (
        np.clip(ints(rows, f"{way}_{what}_ns", 0), -TIME_MAX_NS, TIME_MAX_NS) for what in (*_SEEN, "queue")
    )
    edge_R = np.repeat(np.arange(len(first_K)), np.diff(first_K, append=rows.num_rows))
    seen_K = np.add.reduceat(seen_R.astype(np.int64), first_K)
    ordered = middle[np.lexsort((middle, ~seen_R, edge_R))]  # those that are known come first in an edge
    return _Way(
        sent_K, lost_K, sent_K - lost_K, seen_K > 0,
        np.minimum.reduceat(np.where(seen_R, least, TIME_MAX_NS), first_K),
        ordered[first_K + np.where(seen_K > 0, seen_K // 2, 0)],
        np.maximum.reduceat(np.where(seen_R, most, -TIME_MAX_NS), first_K),
        np.maximum.reduceat(np.where(seen_R, queue, -TIME_MAX_NS), first_K),
    )  # fmt: skip


def _of_mesh(said: Said, edge_K: Ints, edges: int) -> tuple[Floats, Bools, Bools]:
    """By how much lines of edges are off (median of the steps, ns), whether that is known, and whether ways differ."""
    known_M = np.isfinite(said.wrong_M)
    edge_M, wrong_M, flagged_M = said.edge_M[known_M], said.wrong_M[known_M], said.flagged_M[known_M]
    count_E = np.bincount(edge_M, minlength=edges)
    flagged_E = np.bincount(edge_M, flagged_M.astype(np.float64), edges) > _ASYMMETRIC_SHARE * count_E
    ordered = np.append(wrong_M[np.lexsort((wrong_M, edge_M))], 0.0)  # and one for edges at the end of which none is
    first_E = np.cumsum(count_E) - count_E
    low_E, high_E = (ordered[first_E + np.maximum(each, 0) // 2] for each in (count_E - 1, count_E))
    wrong_E = np.where(count_E > 0, np.rint((low_E + high_E) / 2), 0.0)
    return wrong_E[edge_K], count_E[edge_K] > 0, flagged_E[edge_K]


def _rows(
    way: _Way, edge_K: Ints, ends: tuple[Ints, Ints], shift_K: Floats, bound_K: Floats, known_K: Bools,
    flagged_K: Bools, dark_K: Bools,
) -> dict[str, Any]:  # fmt: skip
    """Rows of one way, but for those of which nothing is told."""
    told = np.flatnonzero((way.sent_K > 0) | dark_K)
    shift = shift_K.astype(np.int64)
    bounded_K = known_K & way.seen_K
    word_K = np.where(known_K, _WORDS.index(KNOWN), _WORDS.index(UNCLOCKED))
    word_K = np.where(flagged_K, _WORDS.index(ASYMMETRIC), word_K)
    word_K = np.where(dark_K | (way.count_K == 0), _WORDS.index(DARK), word_K)
    columns = {
        "edge": edge_K, "src": ends[0], "dst": ends[1], "seen": way.seen_K, "min": way.least_K + shift,
        "p50": way.middle_K + shift, "p99": way.most_K + shift, "queue": way.queue_K,
        "lost": np.where(dark_K, 1.0, way.lost_K / np.maximum(way.sent_K, 1)), "count": way.count_K,
        "bounded": bounded_K, "bound": np.rint(np.where(bounded_K, bound_K, 0.0)).astype(np.int64), "word": word_K,
    }  # fmt: skip
    return {name: value[told] for name, value in columns.items()}


def _heard_most(whole: dict[str, Any], told: Told) -> Ints:
    """Of rows with the same ends, port and class the one that heard most; of the same the first."""
    rest = np.array([edge[2:] for edge in told.edges], np.int64).reshape(-1, 2)[whole["edge"]]
    same = number_of(whole["src"], whole["dst"], rest[:, 0], rest[:, 1])
    order = np.lexsort((np.arange(len(same)), -whole["count"], same))
    _, first = np.unique(same[order], return_index=True)
    kept: Ints = np.sort(order[first])
    return kept


def _or_none(value_N: Any, known_N: Bools) -> list[Any]:
    return [value if known else None for value, known in zip(value_N.tolist(), known_N.tolist(), strict=True)]
