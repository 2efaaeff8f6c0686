"""One clock and one-way delays: probes to other hosts of the cluster, sent and stamped by a child process.

server ── whom to probe ──> Mesh ──> leadline-prober ── edges, each second ──> rows of `edge_fit`
"""

from __future__ import annotations

import collections
import logging
import threading
import time

from leadline import __version__
from leadline.host.config import AgentConfig
from leadline.host.found import EdgeFit, Found
from leadline.host.mesh.commands import Options
from leadline.host.mesh.lines import Edge, Line, Ready, Way
from leadline.host.mesh.membership import Joined, join, own_address
from leadline.host.mesh.prober import Prober, command_of, find_program
from leadline.host.post import server_of
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.model.errors import LeadlineError, WorldError

LOG = logging.getLogger("leadline.agent")
REPORT_S = 1.0
READINGS = 5  # of two clocks, half a microsecond each: one of them is not interrupted
LINES_MAX = 10_000  # of edges, until they are taken: an hour of ten edges, if nobody does
MS = 1000.0


def _probing(site: Site) -> str:
    """Whether there is a prober with stamps of the kernel. Errors: WorldError where there is none."""
    program = find_program()
    if program is None:
        raise WorldError("there is no leadline-prober; the one in Python stamps to within microseconds")
    return str(program)


class Mesh(Source):
    """Edges of the probe mesh."""

    name = "mesh"
    reports = "probes to other hosts (`agent.mesh`)"
    told_as = "rows of `edge_fit`: how far two clocks differ, delay, queueing and loss each way"
    accesses = (
        Access(
            "probes (leadline-prober)",
            _probing,
            "probes are stamped by the agent itself: one-way delays are right to microseconds, not to 0.1 us",
            Grant(service="install the package for x86-64, or build it: scripts/build-prober (a C compiler)",
                  pod="the image has it for x86-64"),
            ("congestion", "switch-loss", "blackhole"),
        ),
    )  # fmt: skip

    @classmethod
    def is_wanted(cls, config: AgentConfig) -> bool:
        """Only where it is asked for."""
        return config.mesh

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        config = site.config
        self._server = server_of(config)
        headers = {"Leadline-Tenant": config.tenant, "Leadline-Cluster": config.cluster}
        self._headers = {name: value for name, value in headers.items() if value}
        self._headers["User-Agent"] = f"leadline-agent/{__version__}"
        self._address = config.mesh_address or own_address(self._server)
        self._lock = threading.Lock()  # of the two below, which the prober's thread writes
        self._edges: collections.deque[Edge] = collections.deque(maxlen=LINES_MAX)
        self._base_ns = 0
        self._prober: Prober | None = None
        self._joined: Joined | None = None
        self._again = 0.0  # monotonic

    @property
    def every_s(self) -> float:
        """Time between two `poll`."""
        return REPORT_S

    def poll(self, now_ns: int) -> Found:
        """What the prober said since the last time. Errors: WorldError where the server does not say whom to probe."""
        if time.monotonic() >= self._again:
            try:
                self._join()
            except LeadlineError as error:  # those that are known are probed on, and what they show is told
                if self._joined is None:
                    raise
                self._again = time.monotonic() + self._joined.every_s
                LOG.warning("mesh: %s; the same hosts are probed on", error)
        with self._lock:
            edges, base_ns = list(self._edges), self._base_ns
            self._edges.clear()
        probe_ns, real_ns = _both(base_ns)
        clocks = self._joined.clocks if self._joined else {}
        fits = [fit_of(each, clocks.get(each.dst, ""), real_ns) for each in edges]
        if base_ns:  # also where the other ends report all of its edges
            fits.append(_own(self.site.host, self.site.clock, probe_ns + real_ns, probe_ns))
        return Found(fits=fits)

    def close(self) -> None:
        """End the prober."""
        if self._prober is not None:
            self._prober.stop()

    def _join(self) -> None:
        config = self.site.config
        told = {
            "host": self.site.host, "clock": self.site.clock, "address": self._address, "port": config.mesh_port,
            "pod": config.labels.get("pod", ""),
        }  # fmt: skip
        self._again = time.monotonic() + REPORT_S
        joined = join(self._server, self._headers, told)
        before, self._joined = self._joined, joined
        self._again = time.monotonic() + joined.every_s
        if before is None or before.key != joined.key:
            self._begin(joined)
        assert self._prober is not None
        self._prober.set_peers(joined.peers)

    def _begin(self, joined: Joined) -> None:
        if self._prober is not None:
            self._prober.stop()
        config = self.site.config
        options = Options(
            self.site.host, joined.number, joined.key, config.mesh_port, ports=config.mesh_paths, dscp=config.mesh_dscp,
            report_ms=REPORT_S * MS,
        )  # fmt: skip
        self._prober = Prober(options, self._take, command_of(find_program()))
        self._prober.start()

    def _take(self, line: Line) -> None:
        with self._lock:
            if isinstance(line, Ready):
                self._base_ns = line.base_ns
                self._edges.clear()  # by the clock of the one before
            elif isinstance(line, Edge):
                self._edges.append(line)


def _both(base_ns: int) -> tuple[int, int]:
    """The prober's clock, and this host's less it: of some readings the one with the least time in between."""
    best = (1 << 62, 0, 0)
    for _ in range(READINGS):
        before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        real_ns = time.time_ns()
        after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        probe_ns = (before_ns + after_ns) // 2 + base_ns
        best = min(best, (after_ns - before_ns, probe_ns, real_ns - probe_ns))
    return best[1:]


def fit_of(edge: Edge, dst_clock: str, real_ns: int) -> EdgeFit:
    """The row of an edge. `real_ns`: this host's clock minus its prober's."""
    fit = edge.fit
    offset_ns, rate_ppb, bound_ns, width_ns, noise_ns = fit or (None, None, None, None, None)
    return EdgeFit(
        edge.src, edge.dst, dst_clock, edge.src_port, edge.traffic_class, edge.end_ns + real_ns, edge.end_ns,
        real_ns, edge.window_ns, edge.report_ns,
        offset_ns, rate_ppb, bound_ns, width_ns, noise_ns,
        edge.points, edge.state, edge.stamp, *_way(edge.there), *_way(edge.back), edge.stall_p99_ns,
    )  # fmt: skip


def _own(host: str, clock: str, end_ns: int, probe_ns: int) -> EdgeFit:
    """The row that says how far the host's clock is from its prober's."""
    nothing = (None, None, None, None, 0, 0)
    return EdgeFit(
        host, host, clock, 0, 0, end_ns, probe_ns, end_ns - probe_ns, 0, 0, None, None, None, None, None, 0, "self", "none", *nothing,
        *nothing, None,
    )  # fmt: skip


def _way(way: Way) -> tuple[int | None, int | None, int | None, int | None, int, int]:
    return way.min_ns, way.p50_ns, way.p99_ns, way.queue_p99_ns, way.sent, way.lost
