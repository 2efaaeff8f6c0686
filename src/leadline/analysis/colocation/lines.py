"""Offsets of probers' clocks by block of time, from the lines of edges: what machines are told apart by.

    edge_fit ── lines at their middle, by the time of one clock ──┐
                  rates, offsets at one moment: the model ────────┴──> what is left, block by block ──mesh──> offsets

Why not `clock_fit`: it says how far each host's own clock is off, which NTP, PTP or chrony steers, and with that what
would tell two oscillators apart is gone. Lines are of probers' clocks, which nobody steers. They are taken at their
middle, where their spread is an eighth of that at their end (`native/prober/fit.c`).

What an edge is off by all the time (its ways differ) is taken off: machines are told by what changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.clock.mesh import solved
from leadline.analysis.clock.told import TIME_MAX_NS, is_line
from leadline.analysis.colocation.history import BLOCK_NS, History, Series, fed, series
from leadline.analysis.columns import Floats, Ints, codes, floats, ints
from leadline.analysis.robust import MAD_TO_SIGMA
from leadline.model.units import S

COLUMNS = (
    "tenant", "clock", "src", "dst", "dst_clock", "src_port", "class", "end_ns", "probe_ns", "window_ns", "offset_ns",
    "rate_ppb", "noise_ns", "state",
)  # fmt: skip
SPAN_NS = 2 * S  # of a line, where rows do not say. Source: native/prober
ROUNDS = 3  # what is left is known by block, and lines lie between middles of blocks. Source: measured, 2 are enough
# Spreads of an edge's lines, and ns at least, beyond which one is odd: its probes waited, or were of another clock.
# Within them solving for the block weighs edges against each other. Source: judgement.
ODD_TIMES, ODD_LEAST_NS = 8.0, 300.0
# ns from the middle of the rows beyond which a line is of another clock than its name says, as of a prober that began
# anew: rows are of two minutes. Source: bound.
FAR_NS = 600 * S


@dataclass(frozen=True, slots=True)
class _Lines:
    """N lines at their middles; V clocks, E edges (of two clocks, port and class) by number."""

    clocks: list[tuple[str, str]]  # host, name of its prober's clock
    src_N: Ints
    dst_N: Ints
    edge_N: Ints
    src_E: Ints
    dst_E: Ints
    at_N: Ints  # on the source's prober's clock
    real_N: Ints  # cluster time, as well as the source's own clock is known
    offset_N: Ints
    rate_N: Floats  # ratio
    spread_N: Floats
    span_ns: int


@dataclass(frozen=True, slots=True)
class _Model:
    """Clocks as straight lines: offsets at one moment and rates."""

    island_V: Ints
    offset_V: Ints  # ns, at `zero_ns` of cluster time
    rate_V: Floats  # ratio
    zero_ns: int


def series_of(rows: pa.Table) -> tuple[Series, int]:
    """Offsets of hosts by block, ready to be compared, and over how long each line was drawn, ns.

    Inputs: rows of one tenant (`COLUMNS`), in any order, each line at most once. A host is told by the clock that its
    prober had last: one that began anew has a new one.
    """
    shown_N = np.abs(ints(rows, "probe_ns", null=2**62)) <= 2 * TIME_MAX_NS
    told = _lines(rows.filter(pa.array(is_line(rows) & shown_N)))
    history = History()
    if len(told.edge_N):
        model = _model(told)
        history = _history(told, model, *_left(told, model))
    return series(history), told.span_ns


def _lines(rows: pa.Table) -> _Lines:
    src, dst, own, far = (codes(rows, name) for name in ("src", "dst", "clock", "dst_clock"))
    port_N, class_N, end_N, probe_N = (ints(rows, name) for name in ("src_port", "class", "end_ns", "probe_ns"))
    order = np.lexsort((ints(rows, "offset_ns"), probe_N, class_N, port_N, dst.code_N, src.code_N, end_N))

    def texts(coded_names: list[str], code_N: Ints) -> list[str]:
        return [coded_names[code] if code >= 0 else "" for code in code_N[order].tolist()]

    srcs, dsts = texts(src.names, src.code_N), texts(dst.names, dst.code_N)
    owns, fars = texts(own.names, own.code_N), texts(far.names, far.code_N)
    last = dict(zip(srcs, owns, strict=True))  # where nobody says the clock of the other end, it is that one's last
    one, other = list(zip(srcs, owns, strict=True)), [
        (host, name or last.get(host, "")) for host, name in zip(dsts, fars, strict=True)
    ]  # fmt: skip
    clocks = sorted({*one, *other})
    place = {clock: number for number, clock in enumerate(clocks)}
    src_N, dst_N = (np.array([place[each] for each in those], np.int64) for those in (one, other))
    keys = np.stack([src_N, dst_N, port_N[order], class_N[order]], axis=1) if len(order) else np.zeros((0, 4), np.int64)
    edges, edge_N = np.unique(keys, axis=0, return_inverse=True)
    rate_N = floats(rows, "rate_ppb")[order] * 1e-9
    half_N = np.clip(ints(rows, "window_ns", null=SPAN_NS)[order], 0, 60 * S) // 2
    return _Lines(
        clocks, src_N, dst_N, edge_N.reshape(-1), edges[:, 0], edges[:, 1], probe_N[order] - half_N,
        end_N[order] - half_N, ints(rows, "offset_ns")[order] - np.rint(rate_N * half_N).astype(np.int64), rate_N,
        floats(rows, "noise_ns")[order], int(np.median(2 * half_N)) if len(order) else SPAN_NS,
    )  # fmt: skip


def _model(told: _Lines) -> _Model:
    """Rates by those of lines, then offsets at the middle of the rows."""
    clocks, edges = len(told.clocks), len(told.src_E)
    count_E = np.bincount(told.edge_N, minlength=edges)
    spread_E = np.bincount(told.edge_N, told.spread_N, edges) / count_E
    rates = solved(
        told.src_E, told.dst_E, np.bincount(told.edge_N, told.rate_N * 1e9, edges) / count_E, spread_E, clocks
    )
    rate_V, zero_ns = rates.x_H * 1e-9, int(np.sort(told.real_N)[len(told.real_N) // 2])
    apart_N = rate_V[told.dst_N] - rate_V[told.src_N]
    line_N = told.offset_N - np.rint(apart_N * (told.real_N - zero_ns)).astype(np.int64)
    base_E = np.zeros(edges, np.int64)
    base_E[told.edge_N[::-1]] = line_N[::-1]
    more_N = (line_N - base_E[told.edge_N]).astype(np.float64)
    line_E = base_E + np.rint(_middles(more_N, told.edge_N, count_E)).astype(np.int64)
    offset_V = np.zeros(clocks, np.int64)
    for _ in range(ROUNDS):  # float64 holds no ns of what is years: the second round has the rest
        left_E = (line_E - (offset_V[told.dst_E] - offset_V[told.src_E])).astype(np.float64)
        offset_V = offset_V + np.rint(solved(told.src_E, told.dst_E, left_E, spread_E, clocks).x_H).astype(np.int64)
    return _Model(rates.island_H, offset_V, rate_V, zero_ns)


def _left(told: _Lines, model: _Model) -> tuple[int, Floats]:
    """What clocks are beside their straight lines: number of the first block, ns by clock and block (NaN: not known).

    Lines of one block lie at different moments, in which an oscillator moves by more than noise: what is left is taken
    as straight between middles of blocks, and sought again with that taken off.
    """
    clocks, edges = len(told.clocks), len(told.src_E)
    own_N = told.at_N - model.offset_V[told.src_N]  # time of the island's clock, but for a constant
    shift_V = np.zeros(clocks, np.int64)
    for island in np.unique(model.island_V).tolist():
        mine_N = model.island_V[told.src_N] == island
        if mine_N.any():
            apart_N = told.real_N[mine_N] - own_N[mine_N]
            shift_V[model.island_V == island] = np.sort(apart_N)[len(apart_N) // 2]
    # Since the middle, on the clock of the whole island: a source's own goes by its rate.
    since_N = (own_N + shift_V[told.src_N] - model.zero_ns).astype(np.float64) / (1 + model.rate_V[told.src_N])
    near_N = np.abs(since_N) <= FAR_NS
    place_N = (np.clip(since_N, -FAR_NS, FAR_NS) + model.zero_ns % BLOCK_NS) / BLOCK_NS  # from that of the middle
    first = int(np.floor(place_N.min()))
    block_N = np.floor(place_N).astype(np.int64) - first
    blocks = int(block_N.max()) + 1
    plain_N = (told.offset_N - (model.offset_V[told.dst_N] - model.offset_V[told.src_N])).astype(np.float64)
    plain_N -= (model.rate_V[told.dst_N] - model.rate_V[told.src_N]) * since_N
    count_E = np.bincount(told.edge_N, minlength=edges)
    left_VB = np.full((clocks, blocks), np.nan)
    for _ in range(ROUNDS):
        bent_VB = _bridged(left_VB)
        there_N = place_N - first - 0.5
        rest_N = plain_N - (_between(bent_VB, told.dst_N, there_N) - _between(bent_VB, told.src_N, there_N))
        rest_N = rest_N - _middles(rest_N, told.edge_N, count_E)[told.edge_N]
        usual_E = MAD_TO_SIGMA * _middles(np.abs(rest_N), told.edge_N, count_E)
        sane_N = near_N & (np.abs(rest_N) <= np.maximum(ODD_TIMES * usual_E, ODD_LEAST_NS)[told.edge_N])
        left_VB = bent_VB + _by_block(told, model, rest_N, np.where(sane_N, block_N, -1), blocks)
    return model.zero_ns // BLOCK_NS + first, left_VB


def _by_block(told: _Lines, model: _Model, rest_N: Floats, block_N: Ints, blocks: int) -> Floats:
    """The mesh of each block (-1: a line of none); NaN for clocks that are not connected with most of their island."""
    clocks, edges = len(told.clocks), len(told.src_E)
    found_VB = np.full((clocks, blocks), np.nan)
    order = np.argsort(block_N, kind="stable")
    cuts = np.searchsorted(block_N[order], np.arange(blocks + 1))
    for block in range(blocks):
        mine = order[cuts[block] : cuts[block + 1]]
        if not len(mine):
            continue
        edge_N = told.edge_N[mine]
        count_E = np.bincount(edge_N, minlength=edges)
        some = np.flatnonzero(count_E)
        value = np.bincount(edge_N, rest_N[mine], edges)[some] / count_E[some]
        spread = np.bincount(edge_N, told.spread_N[mine], edges)[some] / count_E[some] ** 1.5
        mesh = solved(told.src_E[some], told.dst_E[some], value, spread, clocks)
        for island in np.unique(model.island_V[told.src_E[some]]).tolist():
            here = np.flatnonzero(model.island_V == island)
            parts, size = np.unique(mesh.island_H[here], return_counts=True)
            most = here[mesh.island_H[here] == parts[np.argmax(size)]]
            if len(most) > 1:
                found_VB[most, block] = mesh.x_H[most] - np.median(mesh.x_H[most])
    return found_VB


def _middles(value_N: Floats, edge_N: Ints, count_E: Ints) -> Floats:
    """Median of each edge, the lower of two."""
    order = np.lexsort((value_N, edge_N))
    found: Floats = value_N[order[np.cumsum(count_E) - count_E + (count_E - 1) // 2]]
    return found


def _between(bent_VB: Floats, clock_N: Ints, place_N: Floats) -> Floats:
    """What clocks are at places between middles of blocks; 0.0 is the middle of the first."""
    if bent_VB.shape[1] < 2:
        return np.asarray(bent_VB[clock_N, 0], np.float64)
    low_N = np.clip(np.floor(place_N).astype(np.int64), 0, bent_VB.shape[1] - 2)
    low, high = bent_VB[clock_N, low_N], bent_VB[clock_N, low_N + 1]
    found: Floats = low + (high - low) * (place_N - low_N)
    return found


def _bridged(left_VB: Floats) -> Floats:
    """With straight lines where nothing is known; 0 for clocks of which nothing is."""
    out, at = np.nan_to_num(left_VB), np.arange(left_VB.shape[1])
    lacks_VB = np.isnan(left_VB)
    for clock in np.flatnonzero(lacks_VB.any(axis=1) & ~lacks_VB.all(axis=1)).tolist():
        known = np.flatnonzero(~lacks_VB[clock])
        out[clock] = np.interp(at, known, left_VB[clock, known])
    return out


def _history(told: _Lines, model: _Model, first: int, left_VB: Floats) -> History:
    last: Mapping[str, int] = _newest(told)
    hosts = sorted(last)
    clock_H = np.array([last[host] for host in hosts], np.int64)
    host_N, block_N = np.nonzero(~np.isnan(left_VB[clock_H]))
    time_N = (first + block_N) * BLOCK_NS + BLOCK_NS // 2
    clock_N = clock_H[host_N]
    more_N = model.rate_V[clock_N] * (time_N - model.zero_ns) + left_VB[clock_N, block_N]
    return fed(History(), hosts, host_N, time_N, np.rint(more_N).astype(np.int64), model.island_V[clock_N])


def _newest(told: _Lines) -> dict[str, int]:
    """The clock of each host's prober, by its newest line."""
    newest_V = np.full(len(told.clocks), -(2**63), np.int64)
    for side_N in (told.src_N, told.dst_N):
        np.maximum.at(newest_V, side_N, told.real_N)
    found: dict[str, int] = {}
    for number, (host, _) in enumerate(told.clocks):
        if host not in found or newest_V[number] > newest_V[found[host]]:
            found[host] = number
    return found
