"""Simulated traces through what ships: lines by the prober's own fit, rows of `edge_fit`, the analysis, `clock_fit`.

traces ── native/prober/fit.c, each second ──> rows ── analysis `clock`, each 5 s ──> clock_fit ──> errors by the truth

Two uses of the table: by the newest fit that is not later (`table`), and as other tables' times are mapped while they
are judged, by one that is `clocks.SETTLE_NS` older (`mapped`).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evals.clock_parts.following import Errors, centred
from leadline.analysis.clock.clock import COLUMNS, LOOK_BACK_NS, clock
from leadline.analysis.spec import Window
from leadline.host.mesh.fit import Fitted, fit_edge
from leadline.model.errors import WorldError
from leadline.model.tables.fabric import CLOCK_FIT, EDGE_FIT
from leadline.runner.clock.clocks import SETTLE_NS, grown
from leadline.simulator.fabric import Ints
from leadline.simulator.oscillators import S_NS, Oscillators
from leadline.simulator.probes import Traces
from leadline.store.schema import ARROW_TYPES

SOURCE = Path(__file__).parents[2] / "native/prober/fit.c"
WINDOW_NS, SOFT = 2 * S_NS, 0.02  # as the prober has them if nobody says otherwise
STATES = ("valid", "few-points", "few-corners", "torn", "no-overlap")  # in the order of enum fit_state
COARSE_NS = 2 * S_NS  # a clock that is farther off has a coarse fit
UNTRUSTED = ("lost", "lying")


class _Point(ctypes.Structure):
    _fields_ = (("t", ctypes.c_int64), ("d", ctypes.c_int64))


class _Fit(ctypes.Structure):
    _fields_ = (
        ("offset_ns", ctypes.c_int64), ("rate_ppb", ctypes.c_double), ("bound_ns", ctypes.c_double),
        ("width_ns", ctypes.c_double), ("noise_ns", ctypes.c_double), ("upper", ctypes.c_int32),
        ("lower", ctypes.c_int32), ("upper_hull", ctypes.c_int32), ("lower_hull", ctypes.c_int32),
        ("state", ctypes.c_int32),
    )  # fmt: skip


Fit = Callable[[Ints, Ints, int], Fitted]


@cache
def probers_fit() -> Fit:
    """The fit of the prober in C; without a compiler the one in Python, which is the same and slow. Points (N, 2)."""
    compiler = shutil.which("cc")
    if compiler is None:
        return lambda upper, lower, end_ns: fit_edge(
            [(t, d) for t, d in upper.tolist()], [(t, d) for t, d in lower.tolist()], end_ns, WINDOW_NS, SOFT
        )
    with tempfile.TemporaryDirectory() as place:
        built = Path(place) / "fit.so"
        made = subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", str(SOURCE), "-lm", "-o", str(built)],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise WorldError(f"{SOURCE} cannot be compiled: {made.stderr.decode(errors='replace')[:200]}")
        call = ctypes.CDLL(str(built)).fit_edge
    call.argtypes = [
        ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64,
        ctypes.c_double, ctypes.POINTER(_Fit),
    ]  # fmt: skip

    def fit(upper: Ints, lower: Ints, end_ns: int) -> Fitted:
        told = _Fit()
        upper, lower = np.ascontiguousarray(upper), np.ascontiguousarray(lower)
        sizes = len(upper), len(lower)
        call(upper.ctypes.data, sizes[0], lower.ctypes.data, sizes[1], end_ns, WINDOW_NS, SOFT, ctypes.byref(told))
        return Fitted(
            STATES[told.state], told.upper_hull, told.lower_hull, told.offset_ns, told.rate_ppb, told.bound_ns,
            told.width_ns, told.noise_ns,
        )  # fmt: skip

    return fit


def rows_of_traces(
    clocks: Oscillators, told: Traces, seconds: float, seed: int, heard: Callable[[float], np.ndarray] | None = None
) -> pa.Table:
    """Rows of `edge_fit` as the runner gives them to the analysis: each agent tells once a second, at its own time.

    Clocks that are plainly wrong are mapped coarsely, to within a quarter of a second.
    """
    rng = np.random.default_rng([seed, 35])
    phase_H = rng.random(clocks.hosts)
    coarse_H = np.where(np.abs(clocks.offset_ns_H) > COARSE_NS, np.rint(clocks.offset_ns_H / S_NS * 2) / 2 * S_NS, 0)
    found: list[dict[str, Any]] = []
    for second in range(1, int(seconds) + 1):
        for edge in range(len(told.src_E)):
            src, dst = int(told.src_E[edge]), int(told.dst_E[edge])
            now = second - phase_H[src]
            if heard is not None and not heard(now)[edge]:
                continue
            end_ns = int(clocks.shown(np.array([src]), np.array([clocks.start_ns + round(now * S_NS)]))[0])
            sides = [_points(clocks, told, edge, way, now, end_ns) for way in (1, 0)]
            found.append(_row(src, dst, end_ns, int(coarse_H[src]), probers_fit()(sides[0], sides[1], end_ns)))
        for host in range(clocks.hosts):
            now = second - phase_H[host]
            end_ns = int(clocks.shown(np.array([host]), np.array([clocks.start_ns + round(now * S_NS)]))[0])
            found.append(_row(host, host, end_ns, int(coarse_H[host]), None))
    types = {name: ARROW_TYPES[EDGE_FIT.column(name).type] for name in COLUMNS}
    return pa.table({name: pa.array([row[name] for row in found], types[name]) for name in COLUMNS})


def _points(clocks: Oscillators, told: Traces, edge: int, way: int, now: float, end_ns: int) -> Ints:
    first, last = told.start_N[2 * edge + way : 2 * edge + way + 2].tolist()
    got = told.true_rx_ns_N[first:last]
    until = clocks.start_ns + round(now * S_NS)
    begin, end = np.searchsorted(got, [until - 2 * WINDOW_NS, until]).tolist()
    tx, rx = told.tx_ns_N[first + begin : first + end], told.rx_ns_N[first + begin : first + end]
    found = np.stack([tx, rx - tx], axis=1) if way else np.stack([rx, tx - rx], axis=1)
    found = found[(found[:, 0] >= end_ns - WINDOW_NS) & (found[:, 0] <= end_ns)]
    return found[np.argsort(found[:, 0], kind="stable")].astype(np.int64)


def _row(src: int, dst: int, end_ns: int, coarse_ns: int, fit: Fitted | None) -> dict[str, Any]:
    state = "self" if fit is None else fit.state
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "tenant": "default", "clock": f"{_name(src)}/1", "src": _name(src), "dst": _name(dst),
        "dst_clock": f"{_name(dst)}/1", "src_port": 0 if fit is None else 8446, "class": 0,
        "end_ns": end_ns - coarse_ns, "probe_ns": end_ns, "ahead_ns": 0,
        "window_ns": 0 if fit is None else WINDOW_NS, "state": state,
    }  # fmt: skip
    row |= {f"{way}_{what}": 0 if fit is None else 100 for way in ("there", "back") for what in ("sent",)}
    row |= {"there_lost": 0, "back_lost": 0}
    if fit is not None and state == "valid":
        row |= {
            "offset_ns": fit.offset_ns, "rate_ppb": fit.rate_ppb, "bound_ns": int(np.ceil(fit.bound_ns)),
            "width_ns": fit.width_ns, "noise_ns": fit.noise_ns,
        }  # fmt: skip
    return row


def _name(host: int) -> str:
    return f"h{host:04d}"


@dataclass(frozen=True, slots=True)
class Fits:
    """What `clock_fit` says of H hosts at T times (cluster time, seconds since the start)."""

    clocks: Oscillators
    second_T: np.ndarray
    offset_TH: Ints
    rate_TH: np.ndarray  # ppb
    bound_TH: np.ndarray  # ns, NaN where there is no fit or none to trust
    state_TH: np.ndarray
    island_TH: Ints
    delay: list[dict[str, Any]]


def judged(clocks: Oscillators, rows: pa.Table, seconds: float) -> Fits:
    """The analysis over all windows."""
    step_s, length = 1.0, clock.window_ns
    hosts, count = clocks.hosts, int(seconds / (length / S_NS)) * int(length / S_NS / step_s)
    offset_TH, rate_TH = np.zeros((count, hosts), np.int64), np.zeros((count, hosts))
    bound_TH, island_TH = np.full((count, hosts), np.nan), np.full((count, hosts), -1, np.int64)
    state_TH = np.full((count, hosts), "", object)
    end_N, waits = rows["end_ns"].to_numpy(), []
    for number in range(int(seconds / (length / S_NS))):
        window = Window(clocks.start_ns + number * length, clocks.start_ns + (number + 1) * length)
        given = rows.filter(pa.array((end_N >= window.from_ns - LOOK_BACK_NS) & (end_N < window.to_ns)))
        verdicts = clock(given, window=window)
        fits: Any = verdicts.get(CLOCK_FIT.name, {})
        waits += [
            dict(zip(verdicts["delay"], each, strict=True)) for each in zip(*verdicts["delay"].values(), strict=True)
        ]
        for place in range(len(fits["host"])):
            at = round((fits["end_ns"][place] - clocks.start_ns) / S_NS / step_s) - 1
            host = int(fits["host"][place][1:])
            offset_TH[at, host], rate_TH[at, host] = fits["offset_ns"][place], fits["rate_ppb"][place]
            state_TH[at, host], island_TH[at, host] = fits["state"][place], fits["island"][place]
            told = fits["bound_ns"][place]
            trusted = fits["state"][place] not in UNTRUSTED and told < 3600 * S_NS
            bound_TH[at, host] = told if trusted else np.nan
    second_T = (np.arange(count) + 1) * step_s
    return Fits(clocks, second_T, offset_TH, rate_TH, bound_TH, state_TH, island_TH, waits)


def table_errors(fits: Fits, times: int = 4) -> Errors:
    """Errors between each fit and the next one."""
    return _errors(fits, [((part + 0.5) / times, 1) for part in range(times)], grow=False)


def mapped_errors(fits: Fits) -> Errors:
    """Errors of times that are mapped by a fit that is settled."""
    settle_s = SETTLE_NS / S_NS
    return _errors(fits, [(settle_s + 0.5, 5), (settle_s + 2.5, 5), (settle_s + 4.5, 5)], grow=True)


def _errors(fits: Fits, ages: list[tuple[float, int]], *, grow: bool) -> Errors:
    """`ages`: how much later than a fit (of each so many) times are, s."""
    clocks, second, error, bound = fits.clocks, [], [], []
    hosts = np.arange(clocks.hosts)
    for at, base in enumerate(fits.second_T.tolist()):
        for age, each in ages:
            if (at + 1) % each or base + age > fits.second_T[-1]:
                continue
            true_ns = clocks.start_ns + round((base + age) * S_NS)
            shown_H = clocks.shown(hosts, np.full(clocks.hosts, true_ns))
            end_ns = clocks.start_ns + round(base * S_NS)
            since_H = (shown_H - end_ns - fits.offset_TH[at]).astype(np.float64)
            known_H = np.isfinite(fits.bound_TH[at])
            told_H = (end_ns - true_ns) + since_H / (1 + fits.rate_TH[at] * 1e-9)
            second.append(base + age)
            error.append(np.where(known_H, told_H, np.nan))
            bound.append(grown(fits.bound_TH[at], np.full(clocks.hosts, age)) if grow else fits.bound_TH[at])
    return Errors(np.array(second), centred(np.stack(error)), np.stack(bound))
