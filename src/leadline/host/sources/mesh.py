"""One clock and one-way delays: probes to other hosts of the cluster, sent and stamped by a child process.

server ── whom to probe ──> Mesh ──> leadline-prober ── edges, each second ──> rows of `edge_fit`
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from leadline import __version__
from leadline.host.config import AgentConfig
from leadline.host.found import EdgeFit, Event, Found, ProbeHop, Sample, Stream
from leadline.host.mesh import clock_daemon
from leadline.host.mesh.commands import Options
from leadline.host.mesh.lines import REFUSALS, Counters, Edge, Failed, Line, Ready, Silence, Trace, Truth, Way
from leadline.host.mesh.membership import AwayError, Joined, bind_address, join, own_address
from leadline.host.mesh.prober import IN_PYTHON, Prober, command_of, injected_clock, prober_runs, usable_program
from leadline.host.post import server_of
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.model.errors import LeadlineError, WorldError

LOG = logging.getLogger("leadline.agent")
REPORT_S = 1.0
AWAY_S = 10.0  # a server that does not answer is asked again: as often as one that does
REFUSED_S = 60.0  # one that does not want us, or a port that is taken
READINGS = 5  # of two clocks, half a microsecond each: one of them is not interrupted
SILENT, HEARD = "mesh-silent", "mesh-heard"  # kinds of events
SILENCES_MAX = 1_000  # of lanes, until they are taken: all paths of 60 peers. Source: bound; the newest are kept
LINES_MAX = 10_000  # of edges, until they are taken: an hour of ten edges, if nobody does
HOPS_MAX = 16  # of a trace: no fabric of a cluster is deeper. Source: judgement
PROBER_CPU = Stream("leadline_agent_prober_cpu_seconds_total", (), True, "s", True)
TRACE_EVERY_S = 3.0  # another peer each time, all its paths: ten in half a minute, 1 % more packets
MS = 1000.0
TWO_READINGS_NS = 10_000_000_000  # beyond it a line through them says nothing of now
SLEW_MAX = 1e-3  # of the time that passed: adjtime changes a clock by half of it; more is a step


def _stamps(site: Site) -> str:
    """Whether there is a prober with stamps of the kernel. Errors: WorldError where there is none."""
    return str(usable_program())


def _place(site: Site) -> str:
    """Where others probe this host. Errors: WorldError where they cannot."""
    config = site.config
    address = config.mesh_address or own_address(server_of(config))
    if not prober_runs():  # else the ports are its own, as far as can be told
        bind_address(address, config.mesh_port, config.mesh_paths)
    return f"{address}, UDP ports {config.mesh_port} to {config.mesh_port + config.mesh_paths - 1}"


def _kept_clock(site: Site) -> str:
    """What a clock daemon says. Errors: WorldError, DataError."""
    return f"right to {clock_daemon.bound_ns() / 1e6:.3f} ms, it says"


class Mesh(Source):
    """Edges of the probe mesh. A host without peers runs no prober and tells nothing."""

    name = "mesh"
    reports = "probes to other hosts, where there are some (`agent.mesh`)"
    told_as = (
        "rows of `edge_fit`: how far two clocks differ, delay, queueing and loss each way; what a clock daemon says; "
        "rows of `probe_hop`: the routers on the way; events `mesh-silent` and `mesh-heard` of paths that die and come "
        "back; what the prober refused, lost and costs"
    )
    accesses = (
        Access(
            "probes (leadline-prober)",
            _stamps,
            "probes are stamped by the agent itself: one-way delays are right to microseconds, not to 0.1 us",
            Grant(service="install the package for x86-64, or build it: scripts/build-prober (a C compiler)",
                  pod="the image has it for x86-64"),
            ("link-errors", "slow-link", "link-down", "congestion", "switch-loss"),
        ),
        Access(
            "the address that other hosts probe",
            _place,
            "this host is not in the mesh: no one-way delays to or from it, and its clock is not compared",
            Grant(service="agent.mesh_address, agent.mesh_port; a firewall lets UDP through at it",
                  pod="agent.config.mesh_address, mesh_port; a network policy lets UDP through at it"),
            ("link-errors", "slow-link", "link-down", "congestion", "switch-loss"),
        ),
        Access(
            "clock daemon (chrony, ntpd, PTP)",
            _kept_clock,
            "nobody says how far the cluster's time is from true time; hosts are compared with each other all the same",
            Grant(service="run chronyd with rtcsync", pod="on the node: run chronyd with rtcsync"),
        ),
    )  # fmt: skip

    @classmethod
    def is_wanted(cls, config: AgentConfig) -> bool:
        """Unless it is turned off."""
        return config.mesh

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        config = site.config
        self._server = server_of(config)
        headers = {"Leadline-Tenant": config.tenant, "Leadline-Cluster": config.cluster}
        self._headers = {name: value for name, value in headers.items() if value}
        self._headers["User-Agent"] = f"leadline-agent/{__version__}"
        self._daemon = clock_daemon.Daemon()
        self._clock = injected_clock()
        self._lock = threading.Lock()  # of those below, which the prober's thread writes
        self._silences: collections.deque[Silence] = collections.deque(maxlen=SILENCES_MAX)
        self._edges: collections.deque[Edge] = collections.deque(maxlen=LINES_MAX)
        self._traces: collections.deque[Trace] = collections.deque(maxlen=LINES_MAX)
        self._counters: Counters | None = None  # the newest of this prober
        self._counted: Counters | None = None  # what the agent's counts have of it
        self._base_ns = 0
        self._failed = ""  # why the prober cannot begin
        self._truths: collections.deque[Truth] = collections.deque(maxlen=2)  # the newest, of an injected clock
        self._clocks_before: Clocks | None = None  # the last reading of this prober's clock and the host's
        self._prober: Prober | None = None
        self._traces_ways = False  # the prober in Python does not
        self._cost_again = 0.0  # monotonic
        self._traced, self._trace_again = 0, 0.0  # how many were asked for, and when the next is (monotonic)
        self._joined: Joined | None = None
        self._again = 0.0  # monotonic
        self._told = ""
        self._address = "" if site.looks_only else self._reached()

    def _reached(self) -> str:
        """Where others probe this host; empty: nowhere, as on a host that is a cluster of its own."""
        try:
            return self.site.config.mesh_address or own_address(self._server)
        except WorldError as error:
            LOG.info("mesh: not probed: %s", error)
            return ""

    @property
    def every_s(self) -> float:
        """Each second while there are probes, else when the server is asked again."""
        if not self._address:
            return REFUSED_S
        return REPORT_S if self._prober is not None else max(REPORT_S, self._again - time.monotonic())

    @property
    def pending(self) -> bool:
        """Whether nobody was asked, or nobody has answered: nothing works, and nothing is broken."""
        return self._joined is None

    def poll(self, now_ns: int) -> Found:
        """What the prober said since the last time.

        Errors: WorldError where the server does not want us, or the port is taken; DataError.
        """
        if not self._address:
            return Found()
        if self._failed:
            raise WorldError(f"the prober {self._failed}")
        if time.monotonic() >= self._again:
            self._take_part()
        with self._lock:
            if self._clock and len(self._truths) < 2:
                return Found()  # what such a clock shows is not known yet
            edges, silences, traces = list(self._edges), list(self._silences), list(self._traces)
            base_ns, truths = self._base_ns, tuple(self._truths)
            self._count()
            self._edges.clear()
            self._silences.clear()
            self._traces.clear()
        self._ask_for_trace()
        raw_ns, now_ns = _both()
        now = Clocks(shown_ns(truths, raw_ns) if truths else raw_ns + base_ns, now_ns)
        before, self._clocks_before = self._clocks_before or now, now
        clocks = self._joined.clocks if self._joined else {}
        fits = [fit_of(each, clocks.get(each.dst, ""), ahead_ns(before, now, each.end_ns)) for each in edges]
        if base_ns:  # also where the other ends report all of its edges
            fits.append(_own(self.site.host, self.site.clock, now.host_ns, now.probe_ns, self._daemon.bound_ns()))
        # A path that was never heard is none that died: that nothing arrives, `delay` says.
        heard = [each for each in silences if each.was_heard]
        events = [event_of(each, ahead_ns(before, now, each.time_ns)) for each in heard]
        hops = [hop for each in traces for hop in hops_of(each, ahead_ns(before, now, each.time_ns))]
        return Found(fits=fits, events=events, hops=hops, samples=self._cost(now_ns))

    def close(self) -> None:
        """End the prober."""
        if self._prober is not None:
            self._prober.stop()

    def _take_part(self) -> None:
        """Errors: LeadlineError where we are not let in; who is in already goes on as it was."""
        try:
            self._join()
        except AwayError:
            self._again = time.monotonic() + AWAY_S
        except LeadlineError as error:
            self._again = time.monotonic() + REFUSED_S
            if self._joined is None:
                raise
            if self._told != str(error):
                LOG.warning("mesh: %s; the same hosts are probed on", error)
            self._told = str(error)

    def _join(self) -> None:
        config = self.site.config
        if self._prober is None:  # before anybody is told of the port
            bind_address(self._address, config.mesh_port, config.mesh_paths)
        told = {
            "host": self.site.host, "clock": self.site.clock, "address": self._address, "port": config.mesh_port,
            "pod": config.labels.get("pod", ""), "neighbours": config.mesh_neighbours,
        }  # fmt: skip
        joined = join(self._server, self._headers, told)
        before, self._joined, self._told = self._joined, joined, ""
        self._again = time.monotonic() + joined.every_s
        if self._prober is not None and (not joined.peers or before is None or before.key != joined.key):
            self._end()
        if joined.peers and self._prober is None:
            self._begin(joined)
        if self._prober is not None:
            self._prober.set_peers(joined.peers)

    def _ask_for_trace(self) -> None:
        """Ask for the ways to the next peer, if it is time."""
        peers = self._joined.peers if self._joined else ()
        if self._prober is None or not self._traces_ways or not peers or time.monotonic() < self._trace_again:
            return
        self._trace_again = time.monotonic() + TRACE_EVERY_S
        peer = peers[self._traced % len(peers)]
        self._traced += 1
        for label in range(self.site.config.mesh_paths):
            self._prober.trace(peer, label, HOPS_MAX)

    def _begin(self, joined: Joined) -> None:
        config = self.site.config
        try:
            command = command_of(usable_program())
            self._traces_ways = True
        except WorldError as error:
            self._traces_ways = False
            LOG.warning("mesh: %s; %s", error, IN_PYTHON)
            command = command_of(None)
            self._clock = ()  # it has no other
        options = Options(
            self.site.host, joined.number, joined.key, config.mesh_port,
            bind_address(self._address, config.mesh_port, config.mesh_paths), config.mesh_paths, config.mesh_dscp,
            rate=config.mesh_rate, report_ms=REPORT_S * MS, clock=self._clock,
            stamps="hardware" if config.mesh_nic else "kernel", nic=config.mesh_nic,
        )  # fmt: skip
        self._prober = Prober(options, self._take, command)
        self._prober.start()

    def _end(self) -> None:
        assert self._prober is not None
        self._prober.stop()
        self._prober = None
        with self._lock:
            self._base_ns, self._failed = 0, ""
            self._edges.clear()

    def _cost(self, now_ns: int) -> list[Sample]:
        """What the prober's process took, as often as the agent tells of itself."""
        counted = self._counted
        if counted is None or time.monotonic() < self._cost_again:
            return []
        self._cost_again = time.monotonic() + self.site.config.interval_s
        return [Sample(PROBER_CPU, now_ns, counted.cpu_s)]

    def _count(self) -> None:
        """Add what the prober refused and lost since the last time to the agent's counts."""
        now, before, self._counted = self._counters, self._counted, self._counters
        if now is None:
            return
        refused = before.refused if before else {}
        told = [("agent_probe_refused", each, now.refused.get(each, 0) - refused.get(each, 0)) for each in REFUSALS]
        lost = (("probe_stamps", "stamps_lost"), ("probe_sends", "send_errors"), ("probe_lines", "lines_lost"))
        for reason, name in lost:
            told.append(("agent_lost", reason, getattr(now, name) - (getattr(before, name) if before else 0)))
        for family, reason, amount in told:
            if amount > 0:
                self.site.counts.add(family, reason, amount)

    def _take(self, line: Line) -> None:
        with self._lock:
            if isinstance(line, Ready):
                self._base_ns, self._failed = line.base_ns, ""
                self._edges.clear()  # by the clock of the one before
                self._silences.clear()
                self._traces.clear()
                self._truths.clear()
                self._clocks_before = None
                self._counters = self._counted = None
            elif isinstance(line, Failed):
                self._base_ns, self._failed = 0, line.text
            elif isinstance(line, Truth):
                self._truths.append(line)
            elif isinstance(line, Edge):
                self._edges.append(line)
            elif isinstance(line, Trace):
                self._traces.append(line)
            elif isinstance(line, Silence):
                self._silences.append(line)
            elif isinstance(line, Counters):
                self._counters = line


class Clocks(NamedTuple):
    """A prober's clock and its host's, read at one moment."""

    probe_ns: int
    host_ns: int


def ahead_ns(before: Clocks, now: Clocks, probe_ns: int) -> int:
    """The host's clock less its prober's when the latter showed this: on the line through two readings.

    Nobody steers a prober's clock and chrony does a host's: 20 ppm of the second between two readings are 20 us.
    """
    ahead = now.host_ns - now.probe_ns
    passed_ns = now.probe_ns - before.probe_ns
    gained_ns = ahead - (before.host_ns - before.probe_ns)
    if not 0 < passed_ns <= TWO_READINGS_NS or abs(gained_ns) > passed_ns * SLEW_MAX:
        return ahead
    return ahead + round((probe_ns - now.probe_ns) * gained_ns / passed_ns)


def shown_ns(truths: Sequence[Truth], raw_ns: int) -> int:
    """What an injected clock shows, by the line through the newest two of what it told."""
    before, last = truths
    gained_ns = (last.host_ns - before.host_ns) - (last.raw_ns - before.raw_ns)
    after_ns = raw_ns - last.raw_ns
    return last.host_ns + after_ns + round(after_ns * gained_ns / (last.raw_ns - before.raw_ns))


def _both() -> tuple[int, int]:
    """The raw clock and this host's: of some readings the ones with the least time in between."""
    best = (1 << 62, 0, 0)
    for _ in range(READINGS):
        before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        real_ns = time.time_ns()
        after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        best = min(best, (after_ns - before_ns, (before_ns + after_ns) // 2, real_ns))
    return best[1:]


def fit_of(edge: Edge, dst_clock: str, real_ns: int) -> EdgeFit:
    """The row of an edge. `real_ns`: this host's clock minus its prober's, at its end."""
    fit = edge.fit
    offset_ns, rate_ppb, bound_ns, width_ns, noise_ns = fit or (None, None, None, None, None)
    return EdgeFit(
        edge.src, edge.dst, dst_clock, edge.src_port, edge.traffic_class, edge.end_ns + real_ns, edge.end_ns,
        real_ns, edge.window_ns, edge.report_ns,
        offset_ns, rate_ppb, bound_ns, width_ns, noise_ns,
        edge.points, edge.state, edge.stamp, *_way(edge.there), *_way(edge.back), edge.stall_p99_ns,
    )  # fmt: skip


def hops_of(trace: Trace, real_ns: int) -> list[ProbeHop]:
    """The rows of a trace, up to the last router that answered. `real_ns`: see `fit_of`."""
    last = max((place for place, address in enumerate(trace.hops) if address), default=-1)
    return [
        ProbeHop(trace.src, trace.dst, trace.src_port, trace.traffic_class, trace.time_ns + real_ns, hop, address)
        for hop, address in enumerate(trace.hops[: last + 1])
    ]


def event_of(line: Silence, real_ns: int) -> Event:
    """The event that a path died or lives again, of the host that says so. `real_ns`: see `fit_of`.

    Whose fault it is, one host cannot tell: where a host is dark all others say so. Its time is when the prober knew,
    less than 100 ms after the first probe that did not come.
    """
    silent = line.is_silent
    ms = round(line.age_ns / 1e6)
    text = f"nothing came from {line.src} for {ms} ms" if silent else f"something came from {line.src} again"
    attributes = {"src": line.src, "dst": line.dst, "src_port": str(line.src_port), "class": str(line.traffic_class),
                  "age_ns": str(line.age_ns)}  # fmt: skip
    return Event(
        line.time_ns + real_ns, f"host:{line.dst}", SILENT if silent else HEARD, "warning" if silent else "info",
        f"{text} (source port {line.src_port})", attributes, "agent/mesh",
    )  # fmt: skip


def _own(host: str, clock: str, end_ns: int, probe_ns: int, bound_ns: int | None) -> EdgeFit:
    """The row that says how far the host's clock is from its prober's, and what its clock daemon says of it."""
    nothing = (None, None, None, None, 0, 0)
    return EdgeFit(
        host, host, clock, 0, 0, end_ns, probe_ns, end_ns - probe_ns, 0, 0, None, None, bound_ns, None, None, 0, "self",
        "none", *nothing, *nothing, None,
    )  # fmt: skip


def _way(way: Way) -> tuple[int | None, int | None, int | None, int | None, int, int]:
    return way.min_ns, way.p50_ns, way.p99_ns, way.queue_p99_ns, way.sent, way.lost
