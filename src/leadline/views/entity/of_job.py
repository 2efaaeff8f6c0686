"""`GET /api/v1/jobs/{job}/hardware`: what the GPUs, ports and hosts of a job measured: of each bin a band over all of
them, and those that are furthest from the rest by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadline.model.principal import OPERATE
from leadline.views.entity.around import Around
from leadline.views.entity.catalogue import HOW, PLOTS, As, Line, Plot
from leadline.views.entity.streams import Owner, Stream, fitting, is_of, peer_streams
from leadline.views.entity.values import Sampled, Span, Values, band, drawn, kept, together
from leadline.views.graph.view import Graphs
from leadline.views.jobs.rows import JobRows
from leadline.views.rows import SCHEMA_VERSION

# Kind and title of plots in the catalogue; of each the leading line, of `ADDED` all lines as one.
SHOWN: tuple[tuple[str, str], ...] = (
    ("gpu", "GPU busy"), ("gpu", "Power"), ("gpu", "Temperature"), ("gpu", "SM clock"), ("port", "Traffic"),
    ("port", "Errors"), ("port", "Discards"), ("host", "CPUs busy"),
)  # fmt: skip
MEMBERS_MAX = (
    128  # of a kind that are read, always the same ones: a 10th percentile of 128 is within 3 % of that of all
)
ADDED = ("Errors", "Discards")
STREAMS_MAX = 3000
APART_MAX = 3  # members drawn by themselves
APART_MIN = 3.0  # times as far from the median as the middle member is
FLOOR = 0.05  # of the level: nearer than that is not apart, however alike the others are


def hardware_answer(rows: JobRows, graphs: Graphs, points: int) -> dict[str, Any]:
    """What the end point says."""
    mine = None if rows.asked.principal.may(OPERATE) else [rows.tenant]
    around = Around(graphs.of(rows.asked.cluster).graph, rows.from_ns, rows.to_ns, mine)
    span = Span.of(rows.from_ns, rows.to_ns, points)
    plots = []
    for kind in dict.fromkeys(kind for kind, _ in SHOWN):
        wanted = [each for each in PLOTS[kind] if (kind, each.title) in SHOWN]
        members = around.below(rows.job, kind)
        plots += _of_kind(rows, kind, members, wanted, span)
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": span.from_ns, "to_ns": span.to_ns,
        "bin_ns": span.bin_ns, "t_ns": span.t_ns, "plots": plots, "note": rows.note,
    }  # fmt: skip


def _of_kind(
    rows: JobRows, kind: str, members: Sequence[str], plots: Sequence[Plot], span: Span
) -> list[dict[str, Any]]:
    """Plots of the members of one kind: one query for their streams, one for the samples."""
    names = _names(rows, plots, members)
    owner = Owner(names[0], rows.asked.cluster) if names else Owner(rows.tenant, rows.asked.cluster)
    most = min(STREAMS_MAX, MEMBERS_MAX * max(1, len(names[1]) if names else 1))
    found = peer_streams(rows.store, owner, names[1], list(members), (), kind, most) if names and members else []
    streams: dict[str, list[Stream]] = {}
    for each in found:
        streams.setdefault(each.entity, []).append(each)
    lines = {
        plot.title: {entity: fit for entity, some in streams.items() if (fit := _fitting(plot, some))} for plot in plots
    }
    used = [stream for some in lines.values() for fit in some.values() for _, each in fit for stream in each]
    sampled = Sampled(rows.store, owner, used, span)
    return [_plot(kind, plot, lines[plot.title], sampled, len(members)) for plot in plots]


def _names(rows: JobRows, plots: Sequence[Plot], members: Sequence[str]) -> tuple[str, list[str]] | None:
    """Names of metrics that the leading lines have, of some members, and the tenant whose they are."""
    if not members:
        return None
    where = " AND ".join([*rows.asked.conditions(), "entity IN {some:Array(String)}"])
    found = rows.query(
        "SELECT toString(tenant) AS whose, toString(name) AS name, count() AS n FROM leadline.series "
        f"WHERE {where} GROUP BY whose, name ORDER BY n DESC",
        some=list(members[:MEMBERS_MAX]),
    )
    lines = [line for plot in plots for line in _lines(plot)]
    fits = [row for row in found if any(is_of(line, row["name"].replace(".", "_")) for line in lines)]
    return (fits[0]["whose"], sorted({row["name"] for row in fits})) if fits else None


def _lines(plot: Plot) -> tuple[Line, ...]:
    return plot.lines if plot.title in ADDED else plot.lines[:1]


def _fitting(plot: Plot, streams: Sequence[Stream]) -> list[tuple[Line, tuple[Stream, ...]]]:
    """The lines of one member that have streams."""
    return [(line, some) for line in _lines(plot) if (some := fitting(line, streams))]


def _plot(
    kind: str, plot: Plot, lines: dict[str, list[tuple[Line, tuple[Stream, ...]]]], sampled: Sampled, members: int
) -> dict[str, Any]:
    page, command = HOW[plot.source]
    base = {
        "title": plot.title, "kind": kind, "unit": plot.unit, "about": plot.about,
        "line": "all kinds" if plot.title in ADDED else plot.lines[0].label,
        "members": members, "count": len(lines), "apart": [], "median": [], "low": [], "high": [],
        "source": "" if lines else plot.source.value, "page": page, "command": command,
    }  # fmt: skip
    if not lines:
        return base
    column = "rate" if plot.how is As.RATE else "mean"
    values_MB = np.stack([
        sum((together(sampled.of(some, column), line) for line, some in found), np.zeros(sampled.span.bins))
        for found in lines.values()
    ])  # fmt: skip
    median, low, high = band(values_MB)
    names = list(lines)
    return base | {
        "median": drawn(median), "low": drawn(low), "high": drawn(high),
        "apart": [{"entity": names[place], "mean": drawn(values_MB[place])} for place in _apart(plot, kind, values_MB)],
    }  # fmt: skip


def _apart(plot: Plot, kind: str, values_MB: Values) -> list[int]:
    """Ports of a host are of several networks, so that nobody's traffic is what another's should be."""
    return [] if kind == "port" and plot.title == "Traffic" else apart(values_MB)


def apart(values_MB: Values) -> list[int]:
    """Places of the members that are furthest from the median over the whole span, if they are far from it at all."""
    filled_MB = kept(values_MB)
    known_B = ~np.isnan(filled_MB).all(axis=0)
    if len(filled_MB) < 3 or not known_B.any():
        return []
    filled_MB = filled_MB[:, known_B]
    middle_B = np.nanmedian(filled_MB, axis=0)
    off_MB = np.abs(filled_MB - middle_B)
    off_M = np.where(np.isnan(off_MB).all(axis=1), 0.0, np.nanmean(np.where(np.isnan(off_MB), 0.0, off_MB), axis=1))
    least = max(APART_MIN * float(np.median(off_M)), FLOOR * float(np.mean(np.abs(middle_B))))
    order: NDArray[np.int64] = np.argsort(-off_M, kind="stable")[:APART_MAX]
    return [int(place) for place in order.tolist() if off_M[place] > least]
