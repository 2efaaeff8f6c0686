"""What the probe mesh of a fleet tells: rows of `edge_fit` each second and traces (`probe_hop`) each half minute. Pure.

    peers of each host, a prober on each NIC ──> paths by hash ──┐
    faults ──> links that lose, are down, queue; hosts that stall ┴──> sent, lost, delays, stalls of each path

A NIC probes two of the peer: the same one, and the next, which on a fleet with rails is behind other leaves. What is
lost in a silence is told after it, as nobody can count what was sent before something comes again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.clock.peers import mesh_of
from leadline.model.units import S
from leadline.simulator.clocks import Clocks
from leadline.simulator.fabric import Bools, Fabric, Floats, Ints
from leadline.simulator.fleet import Fleet, text
from leadline.simulator.flows import fabric_of_fleet
from leadline.simulator.jobs import JobSteps
from leadline.simulator.mesh_faults import Trouble, troubles
from leadline.simulator.probes import FLOOR_NS, SECOND, USER
from leadline.simulator.rows import Coded
from leadline.simulator.sampling import receiving_port
from leadline.simulator.switch_faults import SwitchFaults
from leadline.simulator.targets import Befallen

FIRST_PORT = 8446  # as `agent.mesh_port`
PORTS = 2  # of each NIC
PACKETS_PER_S = 50  # of a port and way: 50 pairs a second of each NIC's edge, over two ports
TRACE_S = 30.0
HOP_NS = 500.0
P50_NS, P99_NS = (float(np.interp(at, *SECOND)) for at in (0.5, 0.99))
STALL_P99_NS = float(np.interp(0.99, *USER))
WIDTH_NS, NOISE_NS = 2_000.0, 5.0
WINDOW_NS = 2 * S
LOSS = 1e-6  # of any probe
WAYS = ("there", "back")
NOTHING = ("offset_ns", "rate_ppb", "bound_ns", "width_ns", "noise_ns", "stall_ns")


@dataclass(frozen=True, slots=True)
class _Routes:
    """Paths of all probes while the same links live: (2, P, X) directions, ways there and back."""

    path_WPX: Ints


class Mesh:
    """Probes of a fleet over time. P = pairs of NICs that probe each other (an edge and a source port), W = ways."""

    def __init__(
        self, fleet: Fleet, faults: list[Befallen], switch_faults: SwitchFaults, clocks: Clocks, seed: int
    ) -> None:
        self.fleet, self.clocks, self.switch_faults = fleet, clocks, switch_faults
        self.fabric: Fabric = fabric_of_fleet(fleet)
        self.rng = np.random.default_rng([seed, 60])
        self.troubles: list[Trouble] = troubles(fleet, faults)
        host_of = {name: number for number, name in enumerate(fleet.host_names.to_pylist())}
        pods = {name: f"pod{number // fleet.pod_hosts + 1}" for name, number in host_of.items()}
        edges = mesh_of(pods)
        ends = [(each.owner, each.other if each.owner == each.one else each.one) for each in edges]
        pair_E2 = np.array([(host_of[one], host_of[other]) for one, other in ends], np.int64).reshape(-1, 2)
        each = fleet.rails * PORTS
        port = np.tile(np.arange(each), len(pair_E2))
        src, dst = (np.repeat(pair_E2[:, end], each) for end in (0, 1))
        # In the order of the table's key: names, then ports.
        order = np.lexsort((port, _rank(fleet.host_names)[dst], _rank(fleet.host_names)[src]))
        self.src_P, self.dst_P, port_P = src[order], dst[order], port[order]
        self.port_P = FIRST_PORT + port_P
        self.rail_P = port_P // PORTS
        self.far_rail_P = (self.rail_P + port_P % PORTS) % fleet.rails
        self.phase_H = self.rng.uniform(0, 1, fleet.hosts)
        self._routes: dict[bytes, _Routes] = {}
        self._held_WP2 = np.zeros((2, len(self.src_P), 2))  # sent and lost that nobody could tell yet
        self._least_WP = np.full((2, len(self.src_P)), np.inf)

    @property
    def rows_per_s(self) -> float:
        """Rows of `edge_fit` to expect each second."""
        return float(len(self.src_P) + self.fleet.hosts)

    def hops_expected(self, seconds: float) -> float:
        """Rows of `probe_hop` to expect."""
        return 2.0 * len(self.src_P) * 2.5 * math.ceil(seconds / TRACE_S)

    # -- routes -----------------------------------------------------------------------------------------------

    def spans(self, at_s: float, end_s: float) -> Iterator[tuple[float, float, Bools | None]]:
        """A span cut where links fail, or are left out by routing, with those that routing uses (None: all)."""
        cuts = {at_s, end_s}
        for trouble in self.troubles:
            cuts |= {each for each in trouble.rerouted_s if at_s < each < end_s}
        for begin, end, up_D in (
            part for one, other in pairwise(sorted(cuts)) for part in self.switch_faults.spans(one, other, self.links)
        ):
            gone = [trouble.hit_D for trouble in self.troubles if trouble.is_rerouted(begin)]
            live_D = np.ones(2 * self.links, bool) if up_D is None else up_D
            yield begin, end, live_D & ~np.any(gone, axis=0) if gone else up_D

    @property
    def links(self) -> int:
        return self.fleet.links

    def _of(self, up_D: Bools | None) -> _Routes:
        key = b"" if up_D is None else up_D.tobytes()
        if key not in self._routes:
            hash_P = (self.src_P << 40) ^ (self.dst_P << 16) ^ self.port_P
            there = self.fabric.paths(self.src_P, self.rail_P, self.dst_P, self.far_rail_P, hash_P, up_D)
            back = self.fabric.paths(self.dst_P, self.far_rail_P, self.src_P, self.rail_P, ~hash_P, up_D)
            self._routes[key] = _Routes(np.stack([there, back]))
        return self._routes[key]

    # -- rows -------------------------------------------------------------------------------------------------

    def fits(
        self,
        at_s: float,
        end_s: float,
        up_D: Bools | None,
        jobs: Mapping[int, JobSteps],
        told_ns: Callable[[Ints, Ints], Ints],
        hosts: pa.Array,
        clocks: pa.Array,
    ) -> tuple[dict[str, Any], int, Ints, Floats]:
        """Columns of `edge_fit` for a span in which the same links live; whose rows they are, and when (s)."""
        path_WPX = self._of(up_D).path_WPX
        first, last = int(np.floor(at_s)) - 1, int(np.ceil(end_s)) + 1
        parts: list[dict[str, Any]] = []
        for tick in range(first, last):
            at_H = tick + self.phase_H
            at_P = at_H[self.src_P]
            mine_P = np.flatnonzero((at_P >= at_s) & (at_P < end_s))
            if len(mine_P):
                parts.append(self._tick(mine_P, at_P[mine_P], path_WPX[:, mine_P], jobs))
            own_H = np.flatnonzero((at_H >= at_s) & (at_H < end_s))
            if len(own_H):
                parts.append(_own(own_H, at_H[own_H]))
        if not parts:
            return {}, 0, np.zeros(0, np.int64), np.zeros(0)
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.lexsort((whole["at_s"], whole["src_port"], whole["place"]))
        whole = {name: value[order] for name, value in whole.items()}
        src, dst, at_s_N = whole.pop("src"), whole.pop("dst"), whole.pop("at_s")
        whole.pop("place")
        true_ns = self.clocks.start_ns + np.rint(at_s_N * S).astype(np.int64)
        probe_ns = self.clocks.told(src, true_ns, [])
        other_ns = self.clocks.told(dst, true_ns, [])
        valid, own = whole.pop("valid"), src == dst
        rate = self.clocks.drift_ppb_H[dst] - self.clocks.drift_ppb_H[src]
        noise = np.rint(self.rng.normal(0, NOISE_NS, len(src))).astype(np.int64)
        numbers = {
            "offset_ns": other_ns - probe_ns + noise, "rate_ppb": rate, "bound_ns": np.full(len(src), int(WIDTH_NS)),
            "width_ns": np.full(len(src), WIDTH_NS), "noise_ns": np.full(len(src), NOISE_NS),
        }  # fmt: skip
        columns: dict[str, Any] = {name: pa.array(value, mask=~valid) for name, value in numbers.items()}
        for way in WAYS:
            for what in ("min", "p50", "p99", "queue"):
                value = whole.pop(f"{way}_{what}_ns")
                columns[f"{way}_{what}_ns"] = pa.array(np.rint(value).astype(np.int64), mask=~valid)
            for what in ("sent", "lost"):
                columns[f"{way}_{what}"] = whole.pop(f"{way}_{what}").astype(np.uint64)
        columns["stall_ns"] = pa.array(np.rint(whole.pop("stall_ns")).astype(np.int64), mask=own)
        columns["probes"] = np.where(valid, columns["there_sent"] + columns["back_sent"], 0).astype(np.uint64)
        states = pa.array(["valid", "few-points", "self"])
        columns["state"] = Coded(states, np.where(own, 2, np.where(valid, 0, 1)))
        columns["stamp"] = Coded(pa.array(["kernel", "none"]), own.astype(np.int64))
        columns["src"], columns["dst"] = Coded(hosts, src), Coded(hosts, dst)
        columns["host"], columns["clock"], columns["dst_clock"] = (
            Coded(hosts, src),
            Coded(clocks, src),
            Coded(clocks, dst),
        )
        columns["src_port"], columns["class"] = whole.pop("src_port"), np.zeros(len(src), np.int64)
        columns["end_ns"], columns["probe_ns"] = told_ns(src, true_ns), probe_ns
        columns["window_ns"] = np.where(own, 0, WINDOW_NS)
        columns["report_ns"] = np.where(own, 0, S)
        return columns, len(src), src, at_s_N

    def _tick(self, mine_P: Ints, at_P: Floats, path_WPX: Ints, jobs: Mapping[int, JobSteps]) -> dict[str, Any]:
        """One second of some paths."""
        count = len(mine_P)
        kept_WP, queue_WP3 = np.full((2, count), 1.0 - LOSS), np.zeros((2, count, 3))
        gone_WP, dead_WP = np.zeros((2, count)), np.zeros((2, count), bool)
        stall_P = STALL_P99_NS * self.rng.lognormal(0, 0.3, count)
        for trouble in self.troubles:
            share_P = trouble.share(at_P - 1.0, at_P)
            if not share_P.any() and not trouble.lasts(at_P).any():
                continue
            cross_WP = trouble.crossed(path_WPX)
            kept_WP *= 1.0 - cross_WP * trouble.loss * share_P
            gone_P, dead_P = trouble.down(at_P - 1.0, at_P)
            gone_WP = np.maximum(gone_WP, cross_WP * gone_P)
            dead_WP |= (cross_WP > 0) & dead_P
            queue_WP3 += (cross_WP * (share_P > 0.5))[..., None] * trouble.queue_ns(at_P, jobs, self.clocks.start_ns)
            stall_P += trouble.stall_ns * share_P * np.isin(self.src_P[mine_P], trouble.hosts)
        sent_WP = np.full((2, count), PACKETS_PER_S)
        lost_WP = self.rng.binomial(sent_WP, np.clip(1.0 - kept_WP * (1.0 - gone_WP), 0, 1))
        held = self._held_WP2[:, mine_P]
        held = held + np.stack([sent_WP, lost_WP], axis=-1)
        # What was sent there the other host says, so the way back must live, too.
        tells_WP = ~dead_WP & np.stack([~dead_WP[1], np.ones(count, bool)])
        told = np.where(tells_WP[..., None], held, 0.0)
        self._held_WP2[:, mine_P] = held - told
        valid = tells_WP.all(axis=0) & (told[..., 0] > told[..., 1]).all(axis=0)
        hops_WP = (path_WPX >= 0).sum(axis=-1)
        least = FLOOR_NS + HOP_NS * hops_WP + self.rng.exponential(20.0, (2, count)) + queue_WP3[..., 0]
        p50 = least + P50_NS * self.rng.uniform(0.9, 1.1, (2, count)) + queue_WP3[..., 1] - queue_WP3[..., 0]
        p99 = np.maximum(p50, least + P99_NS * self.rng.lognormal(0, 0.2, (2, count)) + queue_WP3[..., 2])
        self._least_WP[:, mine_P] = np.minimum(self._least_WP[:, mine_P], np.where(valid, least, np.inf))
        queue = np.where(valid, p99 - self._least_WP[:, mine_P], 0.0)
        out = {
            "src": self.src_P[mine_P], "dst": self.dst_P[mine_P], "src_port": self.port_P[mine_P], "at_s": at_P,
            "place": mine_P // (self.fleet.rails * PORTS), "valid": valid, "stall_ns": stall_P,
        }  # fmt: skip
        for number, way in enumerate(WAYS):
            values = {"min_ns": least, "p50_ns": p50, "p99_ns": p99, "queue_ns": queue}
            out |= {f"{way}_{name}": value[number] for name, value in values.items()}
            out |= {f"{way}_sent": told[number, :, 0], f"{way}_lost": told[number, :, 1]}
        return out

    def hops(
        self, at_s: float, end_s: float, up_D: Bools | None, told_ns: Callable[[Ints, Ints], Ints], hosts: pa.Array,
        clocks: pa.Array,
    ) -> tuple[dict[str, Any], int, Ints, Floats]:  # fmt: skip
        """Columns of `probe_hop` for such a span: traces of both ends; none comes over what is down."""
        path_WPX = self._of(up_D).path_WPX
        first, last = int(np.floor(at_s / TRACE_S)) - 1, int(np.ceil(end_s / TRACE_S)) + 1
        parts: list[tuple[Any, ...]] = []
        for number in range(first, last):
            for way, (src_P, dst_P) in enumerate(((self.src_P, self.dst_P), (self.dst_P, self.src_P))):
                at_P = number * TRACE_S + self.phase_H[src_P]
                on = (at_P >= at_s) & (at_P < end_s)
                for trouble in self.troubles:
                    on &= ~((trouble.crossed(path_WPX[way : way + 1])[0] > 0) & trouble.down(at_P - 1.0, at_P)[1])
                for place in range(path_WPX.shape[-1] - 1):
                    # The last link leads to the host itself, which does not answer.
                    here, later = path_WPX[way, :, place], (path_WPX[way, :, place + 1 :] >= 0).any(axis=1)
                    rows = np.flatnonzero(on & (here >= 0) & later)
                    hop = (path_WPX[way, rows, :place] >= 0).sum(axis=1)
                    port = receiving_port(here[rows], self.links)
                    parts.append((src_P[rows], dst_P[rows], self.port_P[rows], at_P[rows], hop, port))
        src, dst, port, at, hop, answers = (np.concatenate([part[place] for part in parts]) for place in range(6))
        rank = _rank(self.fleet.host_names)
        order = np.lexsort((hop, port, at, rank[dst], rank[src]))
        src, dst, port, at, hop, answers = (each[order] for each in (src, dst, port, at, hop, answers))
        true_ns = self.clocks.start_ns + np.rint(at * S).astype(np.int64)
        columns = {
            "src": Coded(hosts, src), "dst": Coded(hosts, dst), "src_port": port, "class": np.zeros(len(src), np.int64),
            "time_ns": told_ns(src, true_ns), "hop": hop, "address": switch_addresses(answers),
            "host": Coded(hosts, src), "clock": Coded(clocks, src),
        }  # fmt: skip
        return columns, len(src), src, at.astype(np.float64)

    def addresses(self) -> tuple[pa.Array, pa.Array]:
        """Addresses of all switch ports, and the ports."""
        ports = self.fleet.swports
        number = 2 * ports.link + ~ports.lower
        return switch_addresses(number), self.fleet.swport_names


def switch_addresses(number_N: Ints) -> pa.Array:
    """Address of each switch port by its number (`sampling`): 10.128.0.0/9, hosts have the other half."""
    return text("10.", 128 + (number_N >> 16), ".", number_N >> 8 & 255, ".", number_N & 255)


def _own(host_N: Ints, at_N: Floats) -> dict[str, Any]:
    """Each second a host tells its own two clocks."""
    count = len(host_N)
    zero = np.zeros(count)
    out: dict[str, Any] = {
        "src": host_N, "dst": host_N, "src_port": np.zeros(count, np.int64), "at_s": at_N,
        "place": np.full(count, -1), "valid": np.zeros(count, bool), "stall_ns": zero,
    }  # fmt: skip
    return out | {
        f"{way}_{what}": zero for way in WAYS for what in ("min_ns", "p50_ns", "p99_ns", "queue_ns", "sent", "lost")
    }


def _rank(names: pa.Array) -> Ints:
    """Place of each name among all, in the order of texts."""
    order = np.array(sorted(range(len(names)), key=names.to_pylist().__getitem__), np.int64)
    out = np.empty(len(order), np.int64)
    out[order] = np.arange(len(order))
    return out
