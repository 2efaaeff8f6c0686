"""The line of one edge: what clock j shows above clock i, from the probes both ways within a window.

A probe i to j, sent at T_i and received at R_j, says that j is ahead by at most R_j - T_i; one from j to i, sent at T_j
and received at R_i, that it is ahead by at least T_j - R_i. Over a window of some seconds the difference is a line of
the time on clock i, with all upper points above it and all lower points below. Of the widest strip that fits between
them the middle is taken. A line, its bounds and both abscissae are on clock i: mixing clocks costs rate times offset.

Sources: Duda, Harrus, Haddad and Bernard 1987 (hulls of two-way messages); Moon, Skelly and Towsley 1999; Zhang, Liu
and Xia 2002 (hulls in linear time). Soft margin: for a given slope the optimum of a linear penalty is an order
statistic; `SOFT_RATIO` of packets may be on the wrong side, since stamps of some sent packets are late.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from leadline.analysis.clock import edge_kernels as kernels
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

# Share of packets that may be on the wrong side of a margin: at 10 % hulls follow the queues, at 0 late stamps.
# Source: measured (simulated traces, docs/log.md; 1 to 2 % lie within each other's noise).
SOFT_RATIO = 0.02
# ns above the smallest delay up to which a packet counts as one that found no queue, because the share above is of
# those: of packets that queued none is near the margin. Source: measured (99 % of packets of an idle virtual Ethernet).
FREE_NS = 20_000.0
# Points of each direction below which an edge has no line, as their margin is that of chance. Source: judgement.
POINTS_MIN = 30
# Number of vertices of each hull below which the slope is that of two points, which may be chance. Source: judgement.
VERTICES_MIN = 3
# Share of the window that the points span at least: beyond them a line is a guess. Source: judgement.
SPAN_RATIO = 0.5
# Points on the wrong side of the last line that tell a step of a clock: single ones are late stamps. Source: judgement.
CROSSED_MIN = 3
# ns beyond the line, above which a point is on the wrong side because of the clock and not of its stamp, as late stamps
# are late by some hundred ns. Source: judgement.
CROSSED_NS = 3_000.0
# Length of a window, since clocks of servers run straight enough for some ns within it. Source: measured (reference
# runs and simulated traces, docs/log.md).
WINDOW_NS = 2 * S
# Length of the window of an edge whose delays at the margin are sparse: there queues cost more than wander.
# Source: measured (simulated traces, docs/log.md).
LONG_NS = 4 * S
# ns of spread of an edge's offset above which its margin is sparse, as at ports that are busy most of the time.
# Source: measured (simulated traces, docs/log.md).
SPARSE_NS = 12.0
# Ratio of a shift of newest points to what lies wider between them, above which it is none of queues (theirs is 1); ns
# that are added, because lines may be off a quarter of a second ahead. Source: judgement.
SHIFT_RATIO, SHIFT_NS = 1.5, 250.0
# Deviations of the line that are added too, since sparse ones are off by more. Source: judgement.
SHIFT_SPREADS = 6.0


@dataclass(frozen=True, slots=True)
class Points:
    """Bounds of E edges, N of one direction: those of edge e are `begin_E[e]` to `begin_E[e + 1]`, (E + 1,). int64."""

    begin_E: Ints
    at_N: Ints  # abscissa, on the clock of the edge's source
    bound_N: Ints  # R_j - T_i of upper points, T_j - R_i of lower ones

    def __len__(self) -> int:
        return len(self.begin_E) - 1


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of E edges. Offsets are `base_E` (int64, ns) plus a float above it: float64 never holds time of day.

    NaN where there is no line at all. `valid_E`: the line stands on enough points, see `POINTS_MIN` and below.
    """

    at_E: Ints  # abscissa at which `offset_E` holds: the end of the window on the source's clock
    mid_at_E: Ints  # abscissa at which `mid_E` holds: the middle of the points, where the line is known best
    base_E: Ints
    offset_E: Floats
    mid_E: Floats
    rate_E: Floats  # ratio: how much faster j runs than i, on clock i
    half_E: Floats  # half the width of the widest hard strip, ns: half the smallest two-way delay; < 0: bounds cross
    low_E: Floats  # of all lines within the bounds the least and the greatest value at `at_E`, ns above the base
    high_E: Floats
    spread_E: Floats  # statistical, of the offset in the middle, ns
    count_E: Ints  # points of the direction that has fewer
    valid_E: Bools

    def __len__(self) -> int:
        return len(self.at_E)

    @property
    def rate_ppb_E(self) -> Floats:
        """Rate of j against i, ppb."""
        return self.rate_E * 1e9

    @property
    def certain_E(self) -> Floats:
        """How far the offset at the end may be off for certain, ns, if no stamp is wrong and clocks run straight."""
        far_E: Floats = np.maximum(self.high_E - self.offset_E, self.offset_E - self.low_E)
        return far_E

    @property
    def crossed_E(self) -> Bools:
        """Bounds cross: no line fits, so a clock stepped or a stamp lies."""
        return self.half_E < 0

    def where(self, keep: Bools | Ints) -> Lines:
        """Some of them."""
        parts: dict[str, Any] = {each.name: getattr(self, each.name)[keep] for each in fields(self)}
        return Lines(**parts)


def fitted(upper: Points, lower: Points, end_E: Ints, window_ns: int | Ints, soft_ratio: float = SOFT_RATIO) -> Lines:
    """Lines of E edges in one window each.

    Inputs: points of both directions, each edge's in any order (sorted is faster); `end_E`, end of the window on the
    source's clock, int64 ns; `window_ns`, its length, or (E,), for `valid_E`. `soft_ratio` 0: the hard margin.
    Accuracy: with right stamps, straight clocks and the hard margin, the true offset at `at_E` lies within
    [low, high]. The soft margin is as good as delays at the margin are dense: some tens of ns on virtual Ethernet.
    Errors: ValueError if the numbers of edges differ. An edge without points is NaN and not valid.
    """
    if not len(upper) == len(lower) == len(end_E):
        raise ValueError(f"upper, lower and end_E tell {len(upper)}, {len(lower)} and {len(end_E)} edges; give as many")
    found, base_E, middle_E, valid_E = kernels.fit_edges(
        upper.begin_E, upper.at_N, upper.bound_N, lower.begin_E, lower.at_N, lower.bound_N,
        np.ascontiguousarray(end_E, np.int64), soft_ratio, FREE_NS, POINTS_MIN, VERTICES_MIN,
        np.broadcast_to(SPAN_RATIO * np.asarray(window_ns, np.float64), len(end_E)).copy(),
    )  # fmt: skip
    count_E = np.minimum(np.diff(upper.begin_E), np.diff(lower.begin_E))
    return Lines(
        end_E, middle_E, base_E, found[:, kernels.OFFSET], found[:, kernels.MID], found[:, kernels.RATE],
        found[:, kernels.HALF], found[:, kernels.LOW], found[:, kernels.HIGH], found[:, kernels.SPREAD], count_E,
        valid_E,
    )  # fmt: skip


def windows_ns(last: Lines) -> Ints:
    """How far back the next window of each edge reaches, ns, (E,): longer where the last one's margin was sparse."""
    found_E: Ints = np.where(last.spread_E > SPARSE_NS, LONG_NS, WINDOW_NS).astype(np.int64)
    return found_E


def stepped(lines: Lines, upper: Points, lower: Points) -> Bools:
    """Edges whose newest points contradict their last line, (E,).

    Inputs: the last lines, and points that came since. A clock of either end was set (or a path's two ways changed at
    once, which nothing tells from it). What came before belongs to no window with what comes after: begin anew.
    """
    args = (lines.at_E, lines.base_E, lines.offset_E, lines.rate_E, np.where(lines.valid_E, CROSSED_NS, np.inf))
    below_E = kernels.crossings(upper.begin_E, upper.at_N, upper.bound_N, 1, *args)
    above_E = kernels.crossings(lower.begin_E, lower.at_N, lower.bound_N, -1, *args)
    found_E: Bools = np.maximum(below_E, above_E) >= CROSSED_MIN
    return found_E


def shifts(lines: Lines, upper: Points, lower: Points) -> Floats:
    """How far the newest points of edges have moved from their last lines, ns, (E,); NaN where queues may have done it.

    Inputs: as for `stepped`. A queue on one of the ways moves the middle between both ways' smallest delays by half of
    it, and widens what lies between them by as much; a step of a clock moves the middle alone.
    """
    args = (lines.at_E, lines.base_E, lines.offset_E, lines.rate_E)
    above_E = kernels.margins(upper.begin_E, upper.at_N, upper.bound_N, 1, *args)
    below_E = kernels.margins(lower.begin_E, lower.at_N, lower.bound_N, -1, *args)
    with np.errstate(invalid="ignore"):
        moved_E, wider_E = (above_E - below_E) / 2, (above_E + below_E) / 2 - lines.half_E
        least_E = SHIFT_RATIO * np.maximum(wider_E, 0.0) + SHIFT_NS + SHIFT_SPREADS * lines.spread_E
        clear_E = lines.valid_E & (np.abs(moved_E) > least_E)
    found_E: Floats = np.where(clear_E & np.isfinite(moved_E), moved_E, np.nan)
    return found_E
