"""Rows of `edge_fit` as the steps of the live clock: which lines ended in each, and what hosts say of their own clocks.

    rows ── by step, edge ──> newest line of each edge ──> Edges (lines, steps and shifts against the line before)
      └──── by step, host ──> host's clock less its prober's ──> straight line of the last seconds

All lines are of probers' clocks, which nobody steers; a host shows its prober's clock and what it is ahead of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.clock.edge import SHIFT_NS, SHIFT_RATIO, SHIFT_SPREADS, Lines
from leadline.analysis.clock.state import Edges
from leadline.analysis.columns import Bools, Floats, Ints, codes, floats, ints, number_of
from leadline.model.units import S

STEP_NS = S  # from step to step, as agents tell each edge once a second. Source: definition.
# Times the spread of a line in its middle that its `noise_ns`, at its end, is. Source: native/prober/fit.c, AT_END.
END_TO_MIDDLE = 8.0
# ns beyond what two lines' certain bounds allow, above which a clock was set between them. Source: judgement.
SET_NS = 1_000.0
# Steps after which a line is too old to hold the next one against it. Source: judgement.
KNOWN_STEPS = 5
# ns after a step before which no window may have begun: what was sent before is under way. Source: judgement.
UNDER_WAY_NS = 30_000_000
RATE_MAX_PPB = 1e6  # a thousand ppm: no oscillator is so far off. Source: judgement
NOISE_MAX_NS = 1e9  # a second: such a line tells nothing. Source: judgement
SELF, VALID, TORN = (
    "self",
    "valid",
    "torn",
)  # states of rows: a host's own clocks; an edge with a line; bounds that cross
# Steps of which readings of a host's clock and its prober's make a line. Source: judgement; five readings of 50 ns give
# its rate to 15 ppb, and whoever steers a clock does so every few seconds.
READINGS = 5
# ns in a step by which a host's clock may move against its prober's without having been set: `adjtimex` slews by at
# most 500 ppm. Source: definition.
SLEWED_NS = 1_000_000
TIME_MAX_NS = 2**60  # 36 years: offsets beyond it are no clock's, and sums of them hold no ns. Source: bound
# ns, 73 years: a host's clock since 1970 against its prober's since the boot. What is beyond is cut, so that sums hold.
# Source: bound.
AHEAD_MAX_NS = 2**61
READING_NS = 50.0  # by which both clocks are not read at one moment. Source: measured (half of two vDSO calls)


@dataclass(frozen=True, slots=True)
class Told:
    """N rows in the order of steps; H hosts and E edges by number. `edge_N`: -1 for rows of a host alone."""

    hosts: list[str]
    edges: list[tuple[str, str, int, int]]  # source, destination, source port, class
    src_E: Ints
    dst_E: Ints
    begin_ns: int
    row_N: Ints  # place in the table that it is of
    step_N: Ints  # the row ended in (begin + step - 1, begin + step] times STEP_NS
    edge_N: Ints
    src_N: Ints
    dst_N: Ints
    end_N: Ints  # on the host's clock, as the runner mapped it
    probe_N: Ints
    ahead_N: Ints  # host's clock less its prober's
    window_N: Ints
    base_N: Ints  # offset at the end
    rate_N: Floats  # ratio
    width_N: Floats
    bound_N: Floats
    spread_N: Floats
    valid_N: Bools  # a line that clocks could have made
    torn_N: Bools
    clock_N: list[str]  # of the host that says it
    dst_clock_N: list[str]

    def at(self, step: int) -> slice:
        """Rows of a step."""
        first, last = np.searchsorted(self.step_N, [step, step + 1]).tolist()
        return slice(first, last)


def told_of(rows: pa.Table, begin_ns: int) -> Told:
    """Rows of one tenant (columns of `clock.COLUMNS`), in any order."""
    src, dst = codes(rows, "src"), codes(rows, "dst")
    hosts = sorted({*src.names, *dst.names})
    place = {host: number for number, host in enumerate(hosts)}
    src_N = np.array([place[name] for name in src.names], np.int64)[src.code_N]
    dst_N = np.array([place[name] for name in dst.names], np.int64)[dst.code_N]
    end_N, probe_N, port_N, class_N = (ints(rows, name) for name in ("end_ns", "probe_ns", "src_port", "class"))
    step_N = (end_N - begin_ns) // STEP_NS + 1
    order = np.lexsort((ints(rows, "offset_ns"), probe_N, end_N, class_N, port_N, dst_N, src_N, step_N))
    rows = rows.take(order)
    src_N, dst_N, end_N, probe_N = src_N[order], dst_N[order], end_N[order], probe_N[order]
    states = rows["state"].cast(pa.string())
    own_N = _is(states, SELF) | (src_N == dst_N)
    port_N, class_N, edge_N = port_N[order], class_N[order], np.full(len(order), -1, np.int64)
    keys = [each[~own_N] for each in (src_N, dst_N, port_N, class_N)]
    edge_N[~own_N] = number_of(*keys)
    found = np.zeros((int(edge_N.max(initial=-1)) + 1, len(keys)), np.int64)
    found[edge_N[~own_N]] = np.stack(keys, axis=1)
    rate_N, noise_N = floats(rows, "rate_ppb"), floats(rows, "noise_ns")
    bound_N = ints(rows, "bound_ns", -1).astype(np.float64)
    bound_N = np.where(bound_N < 0, np.inf, bound_N)  # none, or nonsense
    sane_N = _is_sane(rows)
    probe_N = np.clip(probe_N, -AHEAD_MAX_NS, AHEAD_MAX_NS)
    ahead_N = np.where(_null(rows, "ahead_ns"), end_N - probe_N, ints(rows, "ahead_ns"))
    ahead_N = np.clip(ahead_N, -AHEAD_MAX_NS, AHEAD_MAX_NS)
    return Told(
        hosts, [(hosts[one], hosts[other], port, dscp) for one, other, port, dscp in found.tolist()],
        found[:, 0], found[:, 1], begin_ns, order, step_N[order], edge_N, src_N, dst_N, end_N, probe_N, ahead_N,
        np.clip(ints(rows, "window_ns"), 0, 60 * S), ints(rows, "offset_ns"), np.where(sane_N, rate_N, 0.0) * 1e-9,
        np.clip(np.nan_to_num(floats(rows, "width_ns")), 0, NOISE_MAX_NS), bound_N,
        np.where(sane_N, noise_N, 0.0) / END_TO_MIDDLE, is_line(rows), ~own_N & _is(states, TORN),
        rows["clock"].cast(pa.string()).to_pylist(), rows["dst_clock"].cast(pa.string()).to_pylist(),
    )  # fmt: skip


def is_line(rows: pa.Table) -> Bools:
    """Rows with a line that the clocks of two hosts could have made."""
    two = pc.fill_null(pc.not_equal(rows["src"].cast(pa.string()), rows["dst"].cast(pa.string())), False)
    found: Bools = _is(rows["state"].cast(pa.string()), VALID) & two.to_numpy(zero_copy_only=False).astype(bool)
    found &= _is_sane(rows) & _within(rows, "offset_ns")
    return found


def _is_sane(rows: pa.Table) -> Bools:
    """Whether a rate and its spread are such as clocks have."""
    rate_N, noise_N = floats(rows, "rate_ppb"), floats(rows, "noise_ns")
    with np.errstate(invalid="ignore"):
        found: Bools = (np.abs(rate_N) <= RATE_MAX_PPB) & (noise_N >= 0) & (noise_N <= NOISE_MAX_NS)
    return found


def _is(states: pa.ChunkedArray, word: str) -> Bools:
    found: Bools = pc.fill_null(pc.equal(states, word), False).to_numpy(zero_copy_only=False).astype(bool)
    return found


def _within(rows: pa.Table, name: str) -> Bools:
    value_N = ints(rows, name)
    found: Bools = ~_null(rows, name) & (value_N >= -TIME_MAX_NS) & (value_N <= TIME_MAX_NS)
    return found


def _null(rows: pa.Table, name: str) -> Bools:
    found: Bools = rows[name].is_null().to_numpy(zero_copy_only=False)
    return found


class LinesOfSteps:
    """Lines step by step; what came before a step of a clock or a restart of its host is left out."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._last_E = np.full(len(told.edges), -1, np.int64)  # row of the last line
        self._since_E = np.full(len(told.edges), -(2**62), np.int64)  # by `end_N`

    def at(self, step: int) -> tuple[Edges, Ints]:
        """What is told in a step, and the rows that it is of."""
        told, end_ns = self._told, self._told.begin_ns + step * STEP_NS
        span = told.at(step)
        rows = np.arange(span.start, span.stop)
        rows = rows[(told.valid_N | told.torn_N)[rows]]
        newest_E = np.full(len(told.edges), -1, np.int64)
        newest_E[told.edge_N[rows]] = rows  # in the order of time: the last one stays
        rows = newest_E[newest_E >= 0]
        edge = told.edge_N[rows]
        moved = self._moved(rows, edge)
        set_E, shift_E = moved
        begun = told.end_N[rows] - told.window_N[rows]
        new = begun >= self._since_E[edge]
        lines = self._lines(rows, end_ns, new)
        self._last_E[edge[told.valid_N[rows]]] = rows[told.valid_N[rows]]
        self._begin(edge[set_E], end_ns)
        return Edges(told.src_E[edge], told.dst_E[edge], lines, set_E, shift_E), rows

    def restart(self, host_H: Bools, end_ns: int) -> None:
        """Windows of some hosts' edges begin anew."""
        self._begin(np.flatnonzero(host_H[self._told.src_E] | host_H[self._told.dst_E]), end_ns)

    def _begin(self, edges: Ints, end_ns: int) -> None:
        self._since_E[edges] = end_ns + UNDER_WAY_NS
        self._last_E[edges] = -1

    def _moved(self, rows: Ints, edge: Ints) -> tuple[Bools, Floats]:
        """Which edges' clocks were set for certain since their last lines; how much others moved (`edge.shifts`)."""
        told, last = self._told, self._last_E[edge]
        known = (last >= 0) & told.valid_N[rows] & (told.step_N[rows] - told.step_N[last] <= KNOWN_STEPS)
        later = (told.probe_N[rows] - told.probe_N[last]).astype(np.float64)
        # Offsets first as integers: they may be of two clocks that are years apart.
        moved = (told.base_N[rows] - told.base_N[last]).astype(np.float64) - told.rate_N[last] * later
        window = np.maximum(told.window_N[last], 1).astype(np.float64)
        # The rate of the last line is as uncertain as both of its ends are.
        certain = told.bound_N[rows] + told.bound_N[last] * (1 + 2 * np.abs(later) / window) + SET_NS
        wider = told.width_N[rows] - told.width_N[last]
        spread = np.hypot(told.spread_N[rows], told.spread_N[last] * (1 + 2 * np.abs(later) / window))
        least = SHIFT_RATIO * np.maximum(wider, 0.0) + SHIFT_NS + SHIFT_SPREADS * spread
        set_E = known & (np.abs(moved) > certain)
        return set_E, np.where(known & ~set_E & (np.abs(moved) > least), moved, np.nan)

    def _lines(self, rows: Ints, end_ns: int, new: Bools) -> Lines:
        told = self._told
        rate, valid, torn = told.rate_N[rows], told.valid_N[rows], told.torn_N[rows]
        at = told.probe_N[rows] + (end_ns - told.end_N[rows])
        half = told.window_N[rows] // 2
        nothing = np.full(len(rows), np.nan)
        return Lines(
            at_E=at, mid_at_E=told.probe_N[rows] - half, base_E=told.base_N[rows],
            offset_E=rate * (at - told.probe_N[rows]), mid_E=-rate * half, rate_E=rate,
            half_E=np.where(torn, -1.0, told.width_N[rows]), low_E=nothing, high_E=nothing,
            spread_E=told.spread_N[rows], count_E=np.zeros(len(rows), np.int64), valid_E=(valid | torn) & new,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Own:
    """What hosts' clocks are ahead of their probers' at the end of a step. NaN-free where `known_H`."""

    known_H: Bools
    base_H: Ints
    above_H: Floats  # ns, above the base
    rate_H: Floats  # ppb
    off_H: Floats  # ns that it may be off
    set_H: Bools  # it moved by more than slewing does, in this step
    daemon_H: Floats  # ns within which it is right, as the host's clock daemon says; inf: nobody does


class OwnClocks:
    """Readings of hosts' clocks step by step."""

    def __init__(self, told: Told) -> None:
        hosts = len(told.hosts)
        self._told = told
        self._base_H = np.zeros(hosts, np.int64)
        self._seen_H = np.zeros(hosts, bool)
        self._at_RH = np.full((READINGS, hosts), np.nan)  # s, of the last readings
        self._ahead_RH = np.full((READINGS, hosts), np.nan)  # ns above the base
        self._daemon_H = np.full(hosts, np.inf)
        self.clock_H = [""] * hosts

    def at(self, step: int) -> Own:
        """What the readings of a step say."""
        told, span = self._told, self._told.at(step)
        hosts = len(told.hosts)
        if not all(self.clock_H):
            for each in range(span.start, span.stop):  # until the host itself says it
                self.clock_H[told.dst_N[each]] = self.clock_H[told.dst_N[each]] or told.dst_clock_N[each] or ""
        rows = np.arange(span.start, span.stop)
        rows = rows[np.argsort(told.end_N[rows], kind="stable")]
        newest_H = np.full(hosts, -1, np.int64)
        newest_H[told.src_N[rows]] = rows
        here = np.flatnonzero(newest_H >= 0)
        row = newest_H[here]
        for host, place in zip(here.tolist(), row.tolist(), strict=True):
            self.clock_H[host] = told.clock_N[place] or self.clock_H[host]
        alone = rows[told.edge_N[rows] < 0]
        self._daemon_H[told.src_N[alone]] = told.bound_N[alone]  # in the order of time: the last one stays
        first = here[~self._seen_H[here]]
        self._base_H[first] = told.ahead_N[newest_H[first]]
        self._seen_H[first] = True
        ahead = (told.ahead_N[row] - self._base_H[here]).astype(np.float64)
        at = (told.end_N[row] - told.begin_ns) / S
        set_H = np.zeros(hosts, bool)
        before = self._line(step)
        expected = before[0][here] + before[1][here] * 1e-9 * S * (at - step * STEP_NS / S)
        with np.errstate(invalid="ignore"):
            set_H[here] = np.abs(ahead - expected) > SLEWED_NS * np.maximum(
                1, (step * STEP_NS / S - self._at_RH[-1, here])
            )
        self._at_RH[:, set_H] = self._ahead_RH[:, set_H] = np.nan
        for part, new in ((self._at_RH, at), (self._ahead_RH, ahead)):
            part[:-1, here] = part[1:, here]
            part[-1, here] = new
        above_H, rate_H, off_H = self._line(step)
        return Own(np.isfinite(above_H), self._base_H.copy(), np.nan_to_num(above_H), rate_H, off_H, set_H,
                   self._daemon_H.copy())  # fmt: skip

    def _line(self, step: int) -> tuple[Floats, Floats, Floats]:
        """Value at the end of a step, rate (ppb), and how far a reading is from the line at most."""
        since_RH = self._at_RH - step * STEP_NS / S
        known_RH = np.isfinite(since_RH)
        count_H = np.maximum(known_RH.sum(axis=0), 1)
        at_RH, y_RH = np.where(known_RH, since_RH, 0.0), np.where(known_RH, self._ahead_RH, 0.0)
        mean_H, level_H = at_RH.sum(axis=0) / count_H, y_RH.sum(axis=0) / count_H
        left_RH = np.where(known_RH, at_RH - mean_H, 0.0)
        square_H = (left_RH**2).sum(axis=0)
        rate_H = np.where(square_H > 0, (left_RH * (y_RH - level_H)).sum(axis=0) / np.maximum(square_H, 1e-12), 0.0)
        rate_H = np.clip(rate_H, -RATE_MAX_PPB, RATE_MAX_PPB)  # two readings at nearly one moment tell any rate
        off_H = np.abs(np.where(known_RH, y_RH - level_H - rate_H * left_RH, 0.0)).max(axis=0)
        value_H = np.where(known_RH.any(axis=0), level_H - rate_H * mean_H, np.nan)
        return value_H, rate_H, off_H
