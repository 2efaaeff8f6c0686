"""The analysis `clock`: how far each host's clock is from the others', and how long packets take each way.

    edge_fit ── newest line of each edge ──> mesh ──> offset of each host ──> clock_fit
        └────── delays by the edge's own offset ────────────┴──> by those of the mesh ──> delay

Cluster time is the median of the clocks of an island's hosts, so one that is an hour off moves nobody. An edge's own
line takes both ways to be as long; what its loops say of it instead is added to the delays there, and taken from those
back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.clock.mesh import Solved, solved
from leadline.analysis.columns import Bools, Floats, Ints, codes, floats, ints
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables.fabric import CLOCK_FIT, DELAY, EDGE_FIT

# Standard deviations that a bound is of: errors of hull fits have long tails. Source: measured (docs/log.md).
BOUND_SIGMAS = 6.0
# ns that a bound never goes below: both ways of a link differ by as much, and nothing tells. Source: judgement.
BOUND_MIN_NS = 100.0
# ns beyond which a bound says nothing any more. Source: definition.
BOUND_MAX_NS = 3600e9
ROUNDS = 3  # lines are taken at times that depend on what is sought: 100 ppm of a second is 100 us, of that 10 ns
RATE_MAX_PPB = 1e6  # a thousand ppm: no oscillator is so far off. Source: judgement
NOISE_MAX_NS = 1e9  # a second: such a line tells nothing. Source: judgement
SELF, VALID = "self", "valid"  # states of rows: a host's own clocks; an edge with a line
WAYS = ("there", "back")
_NUMBERS = tuple(f"{way}_{what}" for way in WAYS for what in ("min_ns", "p50_ns", "p99_ns", "queue_ns"))
_SEEN = ("min", "p50", "p99")
_COUNTS = tuple(f"{way}_{what}" for way in WAYS for what in ("sent", "lost"))
COLUMNS = (
    "tenant", "clock", "src", "dst", "dst_clock", "src_port", "class", "end_ns", "probe_ns", "offset_ns", "rate_ppb",
    "width_ns", "noise_ns", "state", *_NUMBERS, *_COUNTS,
)  # fmt: skip


@analysis(
    name="clock", version=1, reads=(Read(EDGE_FIT, COLUMNS),), writes=(CLOCK_FIT, DELAY), window_s=5.0, grace_s=7.0,
    late_s=60.0,
)  # fmt: skip
def clock(edge_fit: pa.Table, *, window: Window) -> Verdicts:
    """How far each host's clock is from cluster time, and one-way delays between hosts, from probes."""
    if not edge_fit.num_rows:
        return {}
    keys = [ints(edge_fit, "end_ns"), ints(edge_fit, "class"), ints(edge_fit, "src_port")]
    told = edge_fit.take(np.lexsort([*keys, codes(edge_fit, "dst").code_N, codes(edge_fit, "src").code_N]))
    fits: dict[str, list[Any]] = {column: [] for column in (*_FIT, "tenant")}
    delays: dict[str, list[Any]] = {column: [] for column in (*_DELAY, "tenant")}
    tenants = codes(told, "tenant")
    for number, tenant in enumerate(tenants.names):
        mine = told.filter(pa.array(tenants.code_N == number))
        mesh = _mesh(mine, window)
        for row in _fits(mesh, window):
            _add(fits, row | {"tenant": tenant})
        for row in _delays(mesh, mine, window):
            _add(delays, row | {"tenant": tenant})
    return {CLOCK_FIT.name: fits, DELAY.name: delays}


_FIT = ("host", "clock", "end_ns", "offset_ns", "rate_ppb", "bound_ns", "noise_ns", "island", "state")
_DELAY = (
    "src", "dst", "src_port", "class", "end_ns", "window_ns", "min_ns", "p50_ns", "p99_ns", "queue_p99_ns", "lost",
    "count", "bound_ns",
)  # fmt: skip


def _add(columns: dict[str, list[Any]], row: dict[str, Any]) -> None:
    for name, value in row.items():
        columns[name].append(value)


@dataclass(frozen=True, slots=True)
class _Mesh:
    """The clocks of H hosts at the end of a window. Offsets: prober's clock minus that of host 0 of the island."""

    hosts: list[str]
    clock_H: list[str]
    offset_H: Ints
    rate_H: Floats  # ppb
    real_H: Ints  # host's clock minus its prober's, at its newest row
    is_real_H: Bools  # of which that is known
    found: Solved | None
    wrong_E: Floats  # ns by which each edge's own line is off, by the mesh
    edge_of: dict[tuple[str, str, int, int], int]
    island_H: Ints

    def bound_ns(self, host: int) -> float:
        """How far off the offset of a host may be."""
        sigma = float(self.found.sigma_H[host]) if self.found is not None else np.inf
        return min(max(BOUND_SIGMAS * sigma, BOUND_MIN_NS), BOUND_MAX_NS)


def _mesh(told: pa.Table, window: Window) -> _Mesh:
    src, dst = codes(told, "src"), codes(told, "dst")
    hosts = sorted({*src.names, *dst.names})
    place = {host: number for number, host in enumerate(hosts)}
    src_N = np.array([place[name] for name in src.names], np.int64)[src.code_N]
    dst_N = np.array([place[name] for name in dst.names], np.int64)[dst.code_N]
    end_N, probe_N = ints(told, "end_ns"), ints(told, "probe_ns")
    clock_H, real_H, is_real_H = [""] * len(hosts), np.zeros(len(hosts), np.int64), np.zeros(len(hosts), bool)
    # Where a host's prober began anew within the window the newest row counts: `told` is in the order of time.
    for names_N, column in ((dst_N, "dst_clock"), (src_N, "clock")):
        for host, name in zip(names_N.tolist(), told[column].cast(pa.string()).to_pylist(), strict=True):
            clock_H[host] = name or clock_H[host]
    newest_N = np.argsort(end_N, kind="stable")
    real_H[src_N[newest_N]] = (end_N - probe_N)[newest_N]
    is_real_H[src_N] = True
    valid = _is_line(told)
    port_N, class_N = ints(told, "src_port"), ints(told, "class")
    last: dict[tuple[int, int, int, int], int] = {}
    for row in np.flatnonzero(valid).tolist():
        last[int(src_N[row]), int(dst_N[row]), int(port_N[row]), int(class_N[row])] = row
    rows = np.array(list(last.values()), np.int64)
    offset_H, rate_H, found, wrong_E = _solved(told, rows, src_N, dst_N, len(hosts), window)
    edge_of = {(hosts[a], hosts[b], port, dscp): at for at, (a, b, port, dscp) in enumerate(last)}
    island_H = found.island_H if found is not None else np.arange(len(hosts))
    return _Mesh(hosts, clock_H, offset_H, rate_H, real_H, is_real_H, found, wrong_E, edge_of, island_H)


def _is_line(told: pa.Table) -> Bools:
    """Rows with a line that a clock could have made."""
    said = pc.equal(told["state"].cast(pa.string()), VALID).to_numpy(zero_copy_only=False)
    rate_N, noise_N = floats(told, "rate_ppb"), floats(told, "noise_ns")
    with np.errstate(invalid="ignore"):
        sane = (np.abs(rate_N) <= RATE_MAX_PPB) & (noise_N >= 0) & (noise_N <= NOISE_MAX_NS)
    found: Bools = said.astype(bool) & sane & ~told["offset_ns"].is_null().to_numpy(zero_copy_only=False)
    return found


def _solved(
    told: pa.Table, rows: Ints, src_N: Ints, dst_N: Ints, hosts: int, window: Window
) -> tuple[Ints, Floats, Solved | None, Floats]:
    """Offsets of the hosts' probers at the end of the window, their rates, and by how much each edge is off."""
    offset_H, rate_H = np.zeros(hosts, np.int64), np.zeros(hosts)
    if not len(rows):
        return offset_H, rate_H, None, np.zeros(0)
    src_E, dst_E = src_N[rows], dst_N[rows]
    line_E, rate_E = ints(told, "offset_ns")[rows], floats(told, "rate_ppb")[rows]
    spread_E = floats(told, "noise_ns")[rows]
    # How long after its row the window ends, by the host's own clock.
    after_E = window.to_ns - ints(told, "end_ns")[rows]
    rates = solved(src_E, dst_E, rate_E, spread_E, hosts)
    found = None
    for _ in range(ROUNDS):
        at_E = line_E + np.rint(rate_E * 1e-9 * after_E).astype(np.int64)
        left_E = (at_E - (offset_H[dst_E] - offset_H[src_E])).astype(np.float64)
        found = solved(src_E, dst_E, left_E, spread_E, hosts)
        offset_H = offset_H + np.rint(found.x_H).astype(np.int64)
    assert found is not None
    return offset_H, rates.x_H, found, found.residual_E


def _fits(mesh: _Mesh, window: Window) -> Iterator[dict[str, Any]]:
    """A row of each host whose own clock is known."""
    for island in np.unique(mesh.island_H).tolist():
        mine = np.flatnonzero((mesh.island_H == island) & mesh.is_real_H)
        if not len(mine) or mesh.found is None or not np.isfinite(mesh.found.sigma_H[mine]).all():
            continue
        real_ns = mesh.offset_H[mine] + mesh.real_H[mine]
        centre_ns = int(np.sort(real_ns)[(len(mine) - 1) // 2])
        rate = float(np.median(mesh.rate_H[mine]))
        for host, host_ns in zip(mine.tolist(), real_ns.tolist(), strict=True):
            yield {
                "host": mesh.hosts[host], "clock": mesh.clock_H[host], "end_ns": window.to_ns,
                "offset_ns": host_ns - centre_ns, "rate_ppb": float(mesh.rate_H[host]) - rate,
                "bound_ns": round(mesh.bound_ns(host)), "noise_ns": float(mesh.found.sigma_H[host]), "island": island,
                "state": "fitted",
            }  # fmt: skip


def _delays(mesh: _Mesh, told: pa.Table, window: Window) -> Iterator[dict[str, Any]]:
    """Both ways of each edge, port and class."""
    place = {host: number for number, host in enumerate(mesh.hosts)}
    state = told["state"].cast(pa.string()).to_pylist()
    columns = {name: told[name].to_pylist() for name in ("src_port", "class", *_NUMBERS, *_COUNTS)}
    src, dst = (told[name].cast(pa.string()).to_pylist() for name in ("src", "dst"))
    rows_of: dict[tuple[str, str, int, int], list[int]] = {}
    for row in range(told.num_rows):
        if state[row] != SELF:
            key = (src[row], dst[row], columns["src_port"][row], columns["class"][row])
            rows_of.setdefault(key, []).append(row)
    for (one, other, port, dscp), rows in rows_of.items():
        edge = mesh.edge_of.get((one, other, port, dscp))
        wrong_ns = round(float(mesh.wrong_E[edge])) if edge is not None else 0
        bound_ns = None if edge is None else round(mesh.bound_ns(place[one]) + mesh.bound_ns(place[other]))
        for way, ends, sign in (("there", (one, other), 1), ("back", (other, one), -1)):
            seen = [row for row in rows if all(columns[f"{way}_{what}_ns"][row] is not None for what in _SEEN)]
            sent = sum(columns[f"{way}_sent"][row] for row in rows)
            lost = min(sent, sum(columns[f"{way}_lost"][row] for row in rows))
            if not sent or not seen:
                continue
            shift_ns = sign * wrong_ns
            yield {
                "src": ends[0], "dst": ends[1], "src_port": port, "class": dscp, "end_ns": window.to_ns,
                "window_ns": window.window_ns, "min_ns": min(columns[f"{way}_min_ns"][row] for row in seen) + shift_ns,
                "p50_ns": sorted(columns[f"{way}_p50_ns"][row] for row in seen)[len(seen) // 2] + shift_ns,
                "p99_ns": max(columns[f"{way}_p99_ns"][row] for row in seen) + shift_ns,
                "queue_p99_ns": max(columns[f"{way}_queue_ns"][row] or 0 for row in seen), "lost": lost / sent,
                "count": min(sent - lost, 2**63 - 1), "bound_ns": bound_ns,
            }  # fmt: skip
