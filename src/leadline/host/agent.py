"""The agent: asks its sources, keeps what they find in the spool, and lets the lanes deliver it.

    sources --> Found --+-- events, edges --> urgent --+
    (a thread each)     +-- samples, rows --> metrics -+--> server        (a thread per request in flight)
                        +-- segments -------> ring ----+
                        +-- jobs, time of the look --> watermark: what was seen up to then is stored

Nothing is judged here. A source that fails is counted and asked again, one that hangs is waited for no longer than
`asking.ANSWER_S`; the others go on.

All rings are looked at together, and what comes of it is one request. A look counts as whole when it read all that
there was; an item bears the time of the whole look before it, so that the oldest item that is not delivered says up to
when all is, also after a restart.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import resource
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from leadline import __version__
from leadline.host import edges, otlp, rows
from leadline.host.asking import ANSWER_S, OPEN_S, Asked, Running
from leadline.host.config import AgentConfig
from leadline.host.found import Edge, EdgeFit, Event, FlowSent, Found, Labels, ProbeHop, Sample, Stream
from leadline.host.frames import Item
from leadline.host.lane import LANES, Lane, Refusals
from leadline.host.parcels import parcels, parts
from leadline.host.permissions import is_wrong, sentence, tries
from leadline.host.post import Poster, server_of
from leadline.host.sources.site import Site, read_if_there
from leadline.host.sources.source import Source
from leadline.host.spool import Spool
from leadline.host.watermark import Kept, Reporter
from leadline.model.errors import LeadlineError
from leadline.model.ids import entity_id

LOG = logging.getLogger("leadline.agent")
SHARES = {"urgent": 0.25, "metrics": 0.25, "ring": 0.5}  # of spool_bytes_max
EVENTS_PATH, RELATIONS_PATH, FLOWS_PATH, FITS_PATH, HOPS_PATH = (
    f"/api/v1/rows/{name}" for name in ("event", "relation", "flow_sent", "edge_fit", "probe_hop")
)
METRICS_PATH = "/v1/metrics"
EVENTS_MAX = 1000  # in one request
ROWS_MAX = 10_000  # of flows, and of edges of the mesh: the same, 4 MB; they wait for the samples, up to so many
OUTAGE_S = 86_400.0  # a server that is away for a day should cost nothing; if it would, that is told beforehand
HELD = "edges/"  # marks: the edges that hold, by source
# Requests at once of each lane. The server answers when the rows are stored, after some 0.3 s (ingest.linger_s): with
# eight of them the backlog of a minute, 120 looks, is made up for in five seconds. Events keep their order.
IN_FLIGHT = {"urgent": 1, "metrics": 1, "ring": 8}
RINGS = "ring"  # the source whose looks say how far the data of jobs has come
POISON_EVERY_S = 60.0  # at most one event about refused data in this time


class Agent:
    """All of it. Construction opens the spool; `run` acts; `close` stops in reverse order."""

    def __init__(self, config: AgentConfig, site: Site) -> None:
        """Errors: ConfigError for an address that is none, WorldError if the spool cannot be used."""
        server = server_of(config)
        self.config = config
        self.site = site
        self._poison_at = -POISON_EVERY_S
        self._losses = threading.Lock()
        self._untold: dict[str, int] = {}  # rows that were lost and not told of, by reason
        self._whole_ns = 0  # when the newest whole look began
        self._delivered_ns = 0  # what `delivered_ns` said last
        headers = {"Leadline-Tenant": config.tenant, "Leadline-Cluster": config.cluster}
        headers = {name: value for name, value in headers.items() if value}
        self.lanes: dict[str, Lane] = {}
        self.reporter = Reporter(
            Poster(server, headers, config.timeout_s, self._asked_to_look),
            self.delivered_ns,
            lambda told: rows.watermark_rows(told, site.host, site.clock),
            Kept(config.spool / "jobs"),
            site.now_ns,
            busy_s=config.ring_interval_s,
            idle_s=config.interval_s,
            wait_s_max=config.retry_s_max,
        )
        for name in LANES:
            bound = int(config.spool_bytes_max * SHARES[name])
            spool = Spool(config.spool / name, bound, self._dropped)
            posters = [Poster(server, headers, config.timeout_s) for _ in range(IN_FLIGHT[name])]
            refusals = Refusals(self._poisoned, parts)
            self.lanes[name] = Lane(name, spool, posters, config.retry_s_max, refusals, self.reporter.wake)
        site.mark = self._mark
        site.forget = self.lanes["ring"].spool.forget
        self._running: list[Running] = []
        self._opening: list[Running] = []  # those that have not opened yet
        self._absent: dict[str, str] = {}
        self._held: dict[str, edges.Held] = {}
        self._samples: list[Sample] = []
        self._flows: list[FlowSent] = []
        self._fits: list[EdgeFit] = []
        self._hops: list[ProbeHop] = []
        self._due = 0.0
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._told_spool = False
        self._stopping = False
        self._stop_at = math.inf  # monotonic; all that is left is to be done by then

    # --- running ---

    def open(self, sources: Sequence[type[Source]]) -> None:
        """Open those sources that are wanted and work here; the rest is told in the log and in a metric."""
        wanted = self.config.sources
        for kind in sources:
            if (wanted and kind.name not in wanted) or not kind.is_wanted(self.config):
                continue
            running = Running(kind, self._wake)
            if running.ask(lambda kind=kind: kind(self.site)).wait(OPEN_S):  # type: ignore[misc]
                self._opened(running)
            else:
                self._opening.append(running)
                self._absent[kind.name] = f"it has not opened for {OPEN_S:g} s"
                LOG.warning("source %s: %s; the others begin without it", kind.name, self._absent[kind.name])

    def _opened(self, running: Running) -> None:
        asked, running.asked = running.asked, None
        assert asked is not None
        if asked.error is not None:
            running.end()
            self._absent[running.name] = str(asked.error)
            is_ours = not isinstance(asked.error, LeadlineError | OSError)
            LOG.warning("source %s does not work here: %s", running.name, asked.error, exc_info=is_ours)
            return
        self._absent.pop(running.name, None)
        running.source = asked.found
        self._held[running.name] = edges.from_mark(self._mark(HELD + running.name))
        self._running.append(running)

    def start(self) -> None:
        """Begin to deliver."""
        for lane in self.lanes.values():
            lane.start()
        self.reporter.start()
        threading.Thread(target=self._tell_refused, name="permissions", daemon=True).start()

    def _tell_refused(self) -> None:
        """Once, in the log: what sources that work may not read. Nothing else would say that a part is missing."""
        kinds = [type(each.source) for each in self._running]
        try:
            for one in filter(is_wrong, tries(self.site, kinds)):
                LOG.warning("source %s: %s", one.source, sentence(one))
        except Exception:
            LOG.exception("what sources may read could not be tried; nothing else is affected")

    def stop(self) -> None:
        """End `run`. May be called from a signal handler and from any thread."""
        if not self._stopping:
            self._stop_at = time.monotonic() + self.config.stop_s_max
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # closed by now, or full: then it is awake
            os.write(self._wakes, b"\0")

    def run(self) -> None:
        """Read and keep, until `stop`."""
        while not self._stopping:
            self._poll_due(self._wait())
        self._poll_due(self.site.now_ns(), everything=True)

    def close(self) -> None:
        """Deliver what can be delivered within the bound; the rest stays on disk."""
        for running in self._running:
            if running.asked is None and not running.ask(running.source.close).wait(self._patience()):
                LOG.warning("source %s does not close; the process ends without it", running.name)
        for running in [*self._running, *self._opening]:
            running.end()
        deadline = min(time.monotonic() + self.config.stop_s_max, self._stop_at)
        for lane in self.lanes.values():
            lane.stop(deadline)
        for lane in self.lanes.values():
            lane.join()
        self.reporter.stop()
        for lane in self.lanes.values():
            lane.spool.close()
        os.close(self._woken)
        os.close(self._wakes)

    def _wait(self) -> int:
        """Until a source is due, or a watched file has something; what it has is kept at once.

        Returns a time, by this host's clock, up to which all that the watched files had is kept.
        """
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        owners: dict[int, Running] = {}
        for running in self._running:
            if running.asked is not None:
                continue
            if running.failing:  # what it could not read is still there: not before its next poll, or we would spin
                continue
            for handle in running.source.watched():
                poller.register(handle, select.POLLIN)
                owners[handle] = running
        due = min([self._due, *(each.due for each in self._running if each.asked is None)])
        poller.poll(max(0.0, due - time.monotonic()) * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        self._take_late()
        seen_ns = self.site.now_ns()
        ready = [handle for handle, _ in poller.poll(0) if handle in owners]
        at_ns = self.site.now_ns()  # of all alike: in which order we look at them is not the order of what happened
        for handle in ready:
            source = owners[handle].source
            self._ask(owners[handle], lambda _, s=source, h=handle: s.ready(h, at_ns))  # type: ignore[misc]
        return seen_ns

    def _poll_due(self, seen_ns: int, *, everything: bool = False) -> None:
        now = time.monotonic()
        looks: dict[str, Found | None] = {}
        for running in self._running:
            if running.asked is not None:
                continue
            if everything or now >= running.due:
                looks[running.name] = self._ask(running, running.source.poll, seen_ns)
                running.due = _next(running.due, running.source.every_s, now)
            else:  # what was found may mean that a source wants to be asked sooner
                running.due = min(running.due, now + running.source.every_s)
        self._tell_losses()
        if everything or now >= self._due:
            self._due = _next(self._due, self.config.interval_s, now)
            self._send_samples()
            self._send_rows()
            if not any(each.name == RINGS for each in self._running):
                looks[RINGS] = Found()
        if (look := looks.get(RINGS)) is not None:
            self._looked(look, seen_ns)

    def _looked(self, look: Found, seen_ns: int) -> None:
        """All that the rings had is kept: so is what was seen up to that time, but for what a source still holds."""
        if look.is_whole:
            held = [each.source.held_ns for each in self._running]
            self._whole_ns = min([seen_ns, *(each - 1 for each in held if each is not None)])
        self.reporter.looked(look.jobs, seen_ns)

    def _asked_to_look(self, every_s: float) -> None:
        """The server said how often it needs a look into the rings. Called by the reporter's thread."""
        self.site.look_s = every_s

    def delivered_ns(self) -> int:
        """Everything that was seen up to then, by this host's clock, is stored by the server; 0: not known.

        What was lost on this host stands in the way until the event that says so is stored.
        """
        to_ns = self._whole_ns  # before the spools: what is found meanwhile can only make it less
        for name in ("ring", "urgent"):
            after_ns = self.lanes[name].spool.after_ns()
            to_ns = to_ns if after_ns is None else min(to_ns, after_ns)
        with self._losses:
            if not self._untold:
                self._delivered_ns = to_ns
            return self._delivered_ns

    def _ask(self, running: Running, read: Callable[[int], Found], seen_ns: int = 0) -> Found | None:
        """Ask one source and keep what it found; None if it failed, or has not answered yet. Then it is not asked again
        until it has: see `_take_late`."""
        now_ns = self.site.now_ns()
        asked = running.ask(lambda: read(now_ns), seen_ns)
        was_stopping = self._stopping
        if asked.wait(self._patience(), lambda: self._stopping and not was_stopping):
            return self._taken(running)
        self.site.counts.add("agent_source_failed", "hangs")
        running.failing = f"it has not answered for {ANSWER_S:g} s"
        LOG.warning("source %s: %s; the others go on", running.name, running.failing)
        return None

    def _patience(self) -> float:
        return max(0.0, min(ANSWER_S, (self._stop_at - time.monotonic()) / 2))

    def _take_late(self) -> None:
        """Take what sources have answered that were not waited for."""
        for running in [each for each in self._opening if _answered(each.asked)]:
            self._opening.remove(running)
            self._opened(running)
        for running in self._running:
            if not _answered(running.asked):
                continue
            asked = running.asked
            found = self._taken(running)
            LOG.warning("source %s has answered", running.name)
            if asked is not None and found is not None and running.name == RINGS:
                self._looked(found, asked.seen_ns)

    def _taken(self, running: Running) -> Found | None:
        """Keep what a source has found; None if it failed, which is counted, and told once until it works."""
        asked, running.asked = running.asked, None
        assert asked is not None
        try:
            if asked.error is not None:
                raise asked.error
            found: Found = asked.found
            if not self.keep(running.name, found):
                running.source.not_kept()
                found.is_whole = False
        except Exception as error:
            self.site.counts.add("agent_source_failed", "read")
            if running.failing != str(error):
                is_ours = not isinstance(error, LeadlineError | OSError)
                LOG.warning("source %s: %s", running.name, error, exc_info=is_ours)
            running.failing = str(error) or type(error).__name__
            return None
        if not running.source.pending:
            running.failing, running.worked = "", True
        return found

    # --- keeping ---

    def keep(self, source: str, found: Found) -> bool:
        """Put what a source found where it is delivered from. False: not all of it, and the rings have the rest yet."""
        self._samples += found.samples
        self._flows += found.flows
        self._fits += found.fits
        self._hops += found.hops
        if max(len(self._flows), len(self._fits), len(self._hops)) >= ROWS_MAX:
            self._send_rows()
        self._keep_events(found.events, found.mark)
        if found.edges is not None:
            self._keep_edges(source, found.edges)
        ring = self.lanes["ring"].spool
        return all(ring.append(item, is_last_chance=False) for item in parcels(found.segments, self._whole_ns))

    def _keep_events(self, events: list[Event], mark: tuple[str, str] | None) -> None:
        for first in range(0, len(events), EVENTS_MAX):
            some = events[first : first + EVENTS_MAX]
            is_last = first + EVENTS_MAX >= len(events)
            marks = (mark,) if mark and is_last else ()
            self._append("urgent", self._events_item(some, marks, self._whole_ns))

    def _events_item(self, events: list[Event], marks: tuple[tuple[str, str], ...], after_ns: int) -> Item:
        body = rows.event_rows(events, self.site.host, self.site.clock)
        return Item(EVENTS_PATH, rows.CONTENT_TYPE, body, _batch(), len(events), marks, after_ns)

    def _keep_edges(self, source: str, seen: list[Edge]) -> None:
        held, told = edges.changed(self._held.get(source, {}), seen, self.site.now_ns(), f"agent/{source}")
        self._held[source] = held
        if told:
            body = rows.relation_rows(told)
            marks = ((HELD + source, edges.to_mark(held)),)
            self._append(
                "urgent", Item(RELATIONS_PATH, rows.CONTENT_TYPE, body, _batch(), len(told), marks, self._whole_ns)
            )

    def _send_samples(self) -> None:
        samples, self._samples = self._samples, []
        samples += self.own_samples(self.site.now_ns())
        body = self.metrics_body(samples)
        self._append("metrics", Item(METRICS_PATH, otlp.CONTENT_TYPE, body, _batch(), len(samples)))

    def _send_rows(self) -> None:
        host, clock = self.site.host, self.site.clock
        flows, self._flows = self._flows, []
        for some in _slices(flows):
            self._append("metrics", _rows_item(FLOWS_PATH, rows.flow_rows(some, host, clock), len(some)))
        fits, self._fits = self._fits, []
        for some in _slices(fits):
            self._append("metrics", _rows_item(FITS_PATH, rows.probe_rows(some, host, clock), len(some)))
        hops, self._hops = self._hops, []
        for some in _slices(hops):
            self._append("metrics", _rows_item(HOPS_PATH, rows.probe_rows(some, host, clock), len(some)))

    def metrics_body(self, samples: list[Sample]) -> bytes:
        """The request of these samples."""
        host: Labels = (("host.name", self.site.host),)
        return otlp.metrics_request(samples, host, (*host, ("service.name", "leadline-agent")))

    def _append(self, lane: str, item: Item) -> None:
        self.lanes[lane].spool.append(item)

    def _mark(self, name: str) -> str:
        return self.lanes["ring" if name.startswith("ring/") else "urgent"].spool.mark(name)

    def _dropped(self, reason: str, amount: int) -> None:
        if amount:
            self.site.counts.add("agent_dropped", reason, amount)
            if reason != "poison":  # that is told in the server's own words
                with self._losses:
                    self._untold[reason] = self._untold.get(reason, 0) + amount

    def _tell_losses(self) -> None:
        """An event for what was lost since the last one. Nothing after it is called delivered before it is."""
        with self._losses:
            told, after_ns = dict(self._untold), self._delivered_ns
        if not told:
            return
        text = f"{sum(told.values())} rows or samples were lost on this host before they were delivered"
        me, attributes = entity_id("host", self.site.host), {reason: str(amount) for reason, amount in told.items()}
        event = Event(self.site.now_ns(), me, "agent-lost", "warning", text, attributes, "agent")
        # While the disk is full this waits like everything else, and loses nothing more.
        if not self.lanes["urgent"].spool.append(self._events_item([event], (), after_ns), is_last_chance=False):
            return
        with self._losses:
            left = {reason: amount - told.get(reason, 0) for reason, amount in self._untold.items()}
            self._untold = {reason: amount for reason, amount in left.items() if amount}

    def _poisoned(self, item: Item, words: str) -> None:
        """The server will never take this: counted, and its words told to whoever reads events."""
        self._dropped("poison", item.rows)
        LOG.error("the server refused %d rows for %s: %s", item.rows, item.path, words)
        if time.monotonic() - self._poison_at < POISON_EVERY_S or item.path == EVENTS_PATH:
            return
        self._poison_at = time.monotonic()
        text = f"the server refused {item.rows} rows for {item.path}: {words}"
        me = entity_id("host", self.site.host)
        event = Event(self.site.now_ns(), me, "agent-refused", "error", text, {"path": item.path}, "agent")
        self._keep_events([event], None)

    # --- what it says of itself ---

    def own_samples(self, now_ns: int) -> list[Sample]:
        """The agent's own metrics."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        labels: Labels = tuple(sorted({**self.config.labels, "version": __version__}.items()))
        values: list[tuple[Stream, float]] = [
            (_own("leadline_agent_info", labels), 1),
            (_own("leadline_agent_cpu_seconds_total", (), True, "s"), used.ru_utime + used.ru_stime),
            (_own("leadline_agent_resident_bytes", (), False, "bytes"), resident_bytes()),
        ]
        for name, lane in self.lanes.items():
            size, waiting = lane.spool.waiting()
            values += [
                (_own("leadline_agent_delivered_total", (("lane", name),), True, "1"), lane.delivered),
                (_own("leadline_agent_spool_bytes", (("lane", name),), False, "bytes"), size),
                (_own("leadline_agent_spool_rows", (("lane", name),), False, "1"), waiting),
                (_own("leadline_agent_delivery_failures", (("lane", name),), False, "1"), lane.state.failures),
            ]
        lasts = {name: seconds for name, lane in self.lanes.items() if (seconds := lane.spool.lasts_s()) is not None}
        values += [(_own("leadline_agent_spool_lasts", (("lane", name),), False, "s"), lasts[name]) for name in lasts]
        self._tell_spool(lasts)
        for running in self._running:
            if running.worked or running.hangs:
                up = _own("leadline_agent_source_up", (("source", running.name),))
                values.append((up, not running.failing))
        hanging = {each.name for each in self._opening}
        values += [(_own("leadline_agent_source_up", (("source", name),)), 0) for name in sorted(hanging)]
        # What never worked here is not broken: the host does not have it.
        missing = [each.name for each in self._running if each.failing and not (each.worked or each.hangs)]
        values += [
            (_own("leadline_agent_source_missing", (("source", name),)), 1)
            for name in (*self._absent, *missing)
            if name not in hanging
        ]
        for (family, reason), amount in self.site.counts.all().items():
            values.append((_own(f"leadline_{family}_total", (("reason", reason),), True, "1"), amount))
        return [Sample(stream, now_ns, value) for stream, value in values]

    def _tell_spool(self, lasts: dict[str, float]) -> None:
        """Once, before anybody needs it: how long an outage of the server may last."""
        if self._told_spool or not lasts:
            return
        self._told_spool = True
        lane = min(lasts, key=lambda name: lasts[name])
        if lasts[lane] < OUTAGE_S:
            day_bytes = self.config.spool_bytes_max * OUTAGE_S / max(lasts[lane], 1)
            LOG.warning(
                "at this rate the spool lasts for %.1f h without the server, then the oldest of lane %s is dropped; "
                "agent.spool_bytes_max of %d MiB would last for a day",
                lasts[lane] / 3600, lane, math.ceil(day_bytes / 2**20),
            )  # fmt: skip

    def once(self) -> dict[str, object]:
        """One reading of every source, as what would be sent; nothing is kept or sent."""
        now_ns = self.site.now_ns()
        found: dict[str, Found] = {}
        for running in self._running:
            asked = running.ask(lambda source=running.source: source.poll(now_ns))  # type: ignore[misc]
            if not asked.wait(OPEN_S):
                self._absent[running.name] = f"it has not answered for {OPEN_S:g} s"
            elif isinstance(asked.error, LeadlineError | OSError):
                self._absent[running.name] = str(asked.error)
            elif asked.error is not None:
                raise asked.error
            else:
                found[running.name] = asked.found
        samples = [sample for each in found.values() for sample in each.samples] + self.own_samples(now_ns)
        return {
            "schema": 1,
            "host": self.site.host,
            "clock": self.site.clock,
            "samples": [
                {"name": s.stream.name, "labels": dict(s.stream.labels), "unit": s.stream.unit, "value": s.value}
                for s in samples
            ],
            "events": [each._asdict() for one in found.values() for each in one.events],
            "flows": [{**each._asdict(), "flow": f"{each.flow:032x}"} for one in found.values() for each in one.flows],
            "mesh": [each._asdict() for one in found.values() for each in one.fits],
            "hops": [each._asdict() for one in found.values() for each in one.hops],
            "relations": [each._asdict() for one in found.values() for each in one.edges or ()],
            "rings": sorted({each.mark for one in found.values() for each in one.segments}),
            "absent": self._absent,
        }


def _slices(found: list[Any]) -> Iterator[list[Any]]:
    return (found[first : first + ROWS_MAX] for first in range(0, len(found), ROWS_MAX))


def _rows_item(path: str, body: bytes, count: int) -> Item:
    return Item(path, rows.CONTENT_TYPE, body, _batch(), count)


def _answered(asked: Asked | None) -> bool:
    return asked is not None and asked.done


def resident_bytes() -> int:
    """What this process takes of memory now."""
    fields = read_if_there("/proc/self/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _own(name: str, labels: Labels = (), counter: bool = False, unit: str = "1") -> Stream:
    return Stream(name, labels, counter, unit, True)


def _next(due: float, every_s: float, now: float) -> float:
    """When it is due again; what was missed is not made up for."""
    return due + every_s if due + every_s > now else now + every_s


def _batch() -> bytes:
    return os.urandom(16)
