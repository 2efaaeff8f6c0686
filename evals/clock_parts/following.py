"""A mesh followed over simulated traces, as agents and the server would: windows, lines, steps of the filter.

traces ──> points of each edge within 2 s ──> lines ──> step ──> states each 0.25 s ──> errors against the truth
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from leadline.analysis.clock.edge import WINDOW_NS, Points, fitted, shifts, stepped, windows_ns
from leadline.analysis.clock.hindsight import hindsight
from leadline.analysis.clock.live import step
from leadline.analysis.clock.state import Edges, Mesh, State, begun
from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.oscillators import S_NS, Oscillators
from leadline.simulator.probes import Traces

STEP_S = 0.25
LATENCY_S = 0.15  # until a fit is used: the way of its rows
SHORTEST_S = 0.5  # window behind a start or a step
MARGIN_S = 0.03  # what was sent before a step is under way


@dataclass(frozen=True, slots=True)
class Options:
    """How a mesh is followed. `heard` tells which edges are heard at a time (s)."""

    heard: Callable[[float], Bools] | None = None


@dataclass(slots=True)
class Followed:
    """States and the truth's times."""

    clocks: Oscillators
    traces: Traces
    seconds_K: list[float] = field(default_factory=list)
    states: list[Mesh] = field(default_factory=list)


def followed(clocks: Oscillators, traces: Traces, seconds: float, how: Options | None = None) -> Followed:
    """States at each quarter second."""
    how = how or Options()
    out = Followed(clocks, traces)
    edges, hosts = len(traces.src_E), clocks.hosts
    mesh = begun(hosts, clocks.start_ns)
    since_E, last = np.zeros(edges), None
    everybody = np.ones(edges, bool)
    for k in range(1, int(seconds / STEP_S) + 1):
        now = k * STEP_S
        end_E = clocks.shown(traces.src_E, np.full(edges, clocks.start_ns + round(now * S_NS)))
        heard_E = everybody if how.heard is None else how.heard(now)
        stepped_E, shift_E = np.zeros(edges, bool), np.full(edges, np.nan)
        if last is not None:
            newest = _points(clocks, traces, np.maximum(since_E, now - STEP_S), now, heard_E)
            stepped_E, shift_E = stepped(last, *newest), shifts(last, *newest)
            since_E = np.where(stepped_E, now + MARGIN_S, since_E)
        length_E = np.full(edges, WINDOW_NS) if last is None else windows_ns(last)
        from_E = np.maximum(since_E, np.maximum(now - length_E / S_NS, 0.0))
        last = fitted(*_points(clocks, traces, from_E, now, heard_E), end_E, _length(from_E, now))
        told = Edges(traces.src_E, traces.dst_E, last, stepped_E, shift_E)
        mesh = step(mesh, told, clocks.start_ns + round(now * S_NS))
        anew_E = mesh.restart_H[traces.src_E] | mesh.restart_H[traces.dst_E]
        since_E = np.where(anew_E, now + MARGIN_S, since_E)
        out.seconds_K.append(now)
        out.states.append(mesh)
    return out


def _length(from_E: Floats, now: float) -> Ints:
    """Lengths of windows, ns; shorter ones than `SHORTEST_S` count as that."""
    found: Ints = np.rint(np.maximum(now - from_E, 2 * SHORTEST_S) * S_NS).astype(np.int64)
    return found


def _points(
    clocks: Oscillators, traces: Traces, from_E: Floats, now: float, heard_E: Bools
) -> tuple[Points, Points]:  # fmt: skip
    sides = []
    for way in (1, 0):
        pieces = []
        for edge in range(len(from_E)):
            first, last = traces.start_N[2 * edge + way : 2 * edge + way + 2].tolist()
            if not heard_E[edge]:
                pieces.append(np.zeros(0, np.int64))
                continue
            got = traces.true_rx_ns_N[first:last]
            begin, end = np.searchsorted(got, clocks.start_ns + np.rint(np.array([from_E[edge], now]) * S_NS))
            pieces.append(np.arange(first + begin, first + end))
        rows = np.concatenate(pieces)
        begin_E = np.concatenate([[0], np.cumsum([len(each) for each in pieces])]).astype(np.int64)
        tx_N, rx_N = traces.tx_ns_N[rows], traces.rx_ns_N[rows]
        sides.append(Points(begin_E, tx_N, rx_N - tx_N) if way else Points(begin_E, rx_N, tx_N - rx_N))
    return sides[0], sides[1]


@dataclass(frozen=True, slots=True)
class Errors:
    """How far off hosts' cluster times were, at T times: NaN where a clock was lost. Bounds as stated then."""

    second_T: Floats
    error_TH: Floats  # cluster time that a host's reading maps to, less the hosts' median
    bound_TH: Floats

    def pairs(self, since_s: float = 0.0) -> Floats:
        """Absolute differences of all pairs, ns."""
        error_TH = self.error_TH[self.second_T >= since_s]
        a, b = np.triu_indices(error_TH.shape[1], 1)
        apart = np.abs(error_TH[:, a] - error_TH[:, b])
        return apart[np.isfinite(apart)]

    def settled_s(self, within_ns: float) -> float:
        """From when on all hosts are known and all pairs within this, s; NaN: never."""
        apart_T = self.error_TH.max(axis=1) - self.error_TH.min(axis=1)  # NaN while one is not known
        wrong_T = ~(apart_T <= within_ns)
        if not wrong_T.any():
            return float(self.second_T[0])
        last = int(np.flatnonzero(wrong_T)[-1])
        return float(self.second_T[last + 1]) if last + 1 < len(self.second_T) else np.nan

    def covered(self, since_s: float = 0.0) -> tuple[float, float]:
        """Share of host errors within their bounds, and of pairs within the sum of both."""
        at_T = self.second_T >= since_s
        error_TH, bound_TH = self.error_TH[at_T], self.bound_TH[at_T]
        known = np.isfinite(error_TH)
        a, b = np.triu_indices(error_TH.shape[1], 1)
        apart, both = np.abs(error_TH[:, a] - error_TH[:, b]), bound_TH[:, a] + bound_TH[:, b]
        pair = np.isfinite(apart)
        return float((np.abs(error_TH) <= bound_TH)[known].mean()), float((apart <= both)[pair].mean())


def live_errors(run: Followed, latency_s: float = LATENCY_S, times: int = 4) -> Errors:
    """Errors while fits are used: from `latency_s` after the end of each until the next one comes."""
    second, error, bound = [], [], []
    for state, at in zip(run.states, run.seconds_K, strict=True):
        for part in range(times):
            now = at + latency_s + (part + 0.5) / times * STEP_S
            second.append(now)
            error.append(_errors(run.clocks, state.end_ns, state.base_H, state.offset_H, state.rate_H, now))
            bound.append(state.bound_H)
            error[-1] = np.where(state.state_H == State.LOST, np.nan, error[-1])
    return Errors(np.array(second), centred(np.stack(error)), np.stack(bound))


def hindsight_errors(run: Followed, lag_s: float = 2.0) -> Errors:
    """Errors at the ends of steps of what is known of them afterwards; the last `lag_s` are left out."""
    base_KH, offset_KH, rate_KH = hindsight(run.states)
    keep = [k for k, at in enumerate(run.seconds_K) if at <= run.seconds_K[-1] - lag_s]
    error_TH = np.stack([
        _errors(run.clocks, run.states[k].end_ns, base_KH[k], offset_KH[k], rate_KH[k], run.seconds_K[k]) for k in keep
    ])  # fmt: skip
    lost_TH = np.stack([run.states[k].state_H == State.LOST for k in keep])
    bound_TH = np.stack([run.states[k].bound_H for k in keep])
    return Errors(np.array([run.seconds_K[k] for k in keep]), centred(np.where(lost_TH, np.nan, error_TH)), bound_TH)


def _errors(clocks: Oscillators, end_ns: int, base_H: Ints, offset_H: Floats, rate_H: Floats, now: float) -> Floats:
    """Cluster time of what hosts show at one moment, above the true time, ns."""
    true_ns = clocks.start_ns + round(now * S_NS)
    hosts = np.arange(clocks.hosts)
    shown_H = clocks.shown(hosts, np.full(clocks.hosts, true_ns))
    since_H = (shown_H - end_ns - base_H).astype(np.float64) - offset_H
    out: Floats = (end_ns - true_ns) + since_H / (1 + rate_H * 1e-9)
    return out


def centred(error_TH: Floats) -> Floats:
    """Above the median of the hosts that are known."""
    some_T = np.isfinite(error_TH).any(axis=1)
    out = error_TH.copy()
    out[some_T] -= np.nanmedian(error_TH[some_T], axis=1, keepdims=True)
    return out


__all__ = ["Errors", "Followed", "Options", "centred", "followed", "hindsight_errors", "live_errors"]
