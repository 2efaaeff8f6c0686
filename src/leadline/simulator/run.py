"""One simulated fleet from its spec to its rows: a chunk of time after the other, so that memory is bounded.

schedule ── runs, faults ──> chunks ── steps, loads ──> rows ── losses ──> sink
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.lab.flow_truth import FlowTruthFile
from leadline.model.tables import BY_NAME, Table
from leadline.simulator.clocks import Clocks
from leadline.simulator.effects import effect_of
from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.fleet import Fleet, joined, text
from leadline.simulator.flows import FlowSource
from leadline.simulator.happenings import (
    event_columns,
    of_addresses,
    of_faults,
    of_flows,
    of_run,
    of_runs,
    of_switch_addresses,
    standing,
)
from leadline.simulator.jobs import JobSteps
from leadline.simulator.mesh import Mesh
from leadline.simulator.metrics.catalogue import chosen
from leadline.simulator.metrics.streams import Load, Streams
from leadline.simulator.rows import Coded, Common, Told, collective_columns, made, step_columns
from leadline.simulator.scheduler import harmless_of_a_day, schedule
from leadline.simulator.spec import SimulationSpec
from leadline.simulator.switch_faults import LIES, switch_faults
from leadline.simulator.targets import Run
from leadline.simulator.truth_simulated import truth
from leadline.simulator.watermarks import SENDER, Said, Watermarks
from leadline.simulator.write import Sink

CHUNK_ROWS = 4_000_000  # of all tables together: some hundred bytes a row while they are made
PACKET_BYTES = 4096
LOSSY = ("metric_sample", "step", "collective", "event", "flow_sample")
Say = Callable[[list[Said]], None]
SILENT = ("silent", "restart", "no-labels", "duplicate")


@dataclass(slots=True)
class Outcome:
    """What was written."""

    rows: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    seconds: float = 0.0
    truth: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        """Rows written for each second of wall time, making them included."""
        return sum(self.rows.values()) / max(self.seconds, 1e-9)


class Simulation:
    """A planned fleet. Construction plans jobs and faults; `write` makes the rows."""

    def __init__(self, spec: SimulationSpec) -> None:
        if spec.hosts_per_machine == 1 and any(effect_of(each.name).beside for each in spec.planned):
            spec = replace(spec, hosts_per_machine=2)
        spec.check()
        self.fleet = Fleet(spec.gpus, spec.gpus_per_host, spec.hosts_of_pod, spec.name)
        if spec.quiet:
            spec = replace(spec, planned=(*spec.planned, *harmless_of_a_day(spec, self.fleet.hosts)))
        self.spec = spec
        self.schedule = schedule(spec, self.fleet)
        self.clocks = Clocks(
            self.fleet.hosts, spec.hosts_per_machine, spec.clock_sigma_ns, spec.drift_sigma_ppb, spec.start_ns,
            spec.seed,
        )  # fmt: skip
        self.common = Common(spec.tenant, spec.cluster, spec.seed)
        self.rng = np.random.default_rng([spec.seed, 50])
        self._batches = 0
        self._jobs: dict[int, JobSteps] = {}
        self._frozen: dict[int, Floats] = {}  # what a stale source tells, by its fault
        self._names = self.fleet.host_names
        self._clock_names = joined(self._names, text("/", self.clocks.boot_H))
        gone = self.rng.random(self.fleet.hosts) < spec.silent_share
        begin = self.rng.random(self.fleet.hosts) * spec.seconds * 0.75
        self._silent = (gone, begin, begin + spec.seconds / 4)
        self.switch_faults = switch_faults(
            self.fleet, spec.silent_switches, spec.lying_switches, spec.failing_links, spec.seconds, spec.seed
        )
        self.mesh: Mesh | None = None
        if spec.probes and spec.detail == "all":
            self.mesh = Mesh(self.fleet, self.schedule.faults, self.switch_faults, self.clocks, spec.seed)
        self._watermarks = Watermarks(spec.start_ns)
        self._flow_truth: FlowTruthFile | None = None
        self.outcome = Outcome()

    # -- before -----------------------------------------------------------------------------------------------

    def estimate(self) -> dict[str, float]:
        """Rows to expect, by table."""
        spec, fleet = self.spec, self.fleet
        out = {"relation": float(2 * fleet.gpu_count + 3 * fleet.links + 4 * fleet.gpu_count), "event": 1000.0}
        steps = collectives = 0.0
        for run in self.schedule.runs:
            kind = run.archetype
            lasts_s = max(0.0, min(run.end_s, spec.seconds) - max(run.start_s, 0.0))
            count = len(run.hosts) * fleet.gpus_per_host * lasts_s / (kind.compute_s + kind.data_s + kind.optimizer_s)
            steps += count
            collectives += 2 * kind.collectives * count
        out["step"] = steps
        if spec.detail != "jobs":
            streams = self._stream_count()
            out["series"] = float(streams)
            out["metric_sample"] = streams * np.ceil(spec.seconds / spec.metrics_s)
        if spec.detail == "all":
            out["collective"] = collectives
            out["relation"] += fleet.host_links
            if self.mesh is not None:
                out["edge_fit"] = self.mesh.rows_per_s * spec.seconds
                out["probe_hop"] = self.mesh.hops_expected(spec.seconds)
            out["flow_sample"] = min(float(spec.flow_rows_max), self._samples_expected())
        return out

    def _stream_count(self) -> int:
        counts = {
            "gpu": self.fleet.gpu_count, "host": self.fleet.hosts,
            **dict.fromkeys(("port", "pcie", "optic"), self.fleet.host_links),
            "swport": len(self.fleet.swports.link) if self.spec.detail == "all" else 0,
        }  # fmt: skip
        return sum(counts[each.of] for each in chosen(self.spec.detail == "all", self.spec.names == "all"))

    def _samples_expected(self) -> float:
        """By the plans: bytes of all NICs, at one to five switches, one packet in so many."""
        total = 0.0
        for run in self.schedule.runs:
            if len(run.hosts) > 1 and run.archetype.collectives:
                lasts_s = max(0.0, min(run.end_s, self.spec.seconds) - max(run.start_s, 0.0))
                steps = lasts_s / (run.archetype.compute_s + 0.5)
                total += 2 * run.archetype.payload_bytes * steps * len(run.hosts) * self.fleet.gpus_per_host
        return total / PACKET_BYTES * 1.5 / self.spec.sampling

    def chunk_s(self) -> float:
        """Length of a chunk: whole metric periods, and no more rows than fit."""
        per_s = sum(self.estimate().values()) / self.spec.seconds
        periods = max(1, int(min(CHUNK_ROWS / max(per_s, 1.0), 600.0) / self.spec.metrics_s))
        return periods * self.spec.metrics_s

    # -- rows -------------------------------------------------------------------------------------------------

    def write(
        self, sink: Sink, flow_truth: FlowTruthFile | None = None, say: Say = lambda _: None
    ) -> Generator[float, None, None]:
        """Write everything; yields the share that is done. `flow_truth`: where what flows really carry goes.

        `say` is told how far the rows of each job have come, and that they have ended, even if it is broken off.
        """
        try:
            yield from self._write(sink, flow_truth, say)
        finally:
            say(self._watermarks.ended())

    def _write(self, sink: Sink, flow_truth: FlowTruthFile | None, say: Say) -> Iterator[float]:
        spec, began = self.spec, time.monotonic()
        streams = None
        if spec.detail != "jobs":
            metrics = chosen(spec.detail == "all", spec.names == "all")
            streams = Streams(self.fleet, metrics, spec.start_ns, spec.seed)
            for columns in streams.series(spec.end_ns):
                self._put(sink, "series", columns, len(columns["first_ns"]))  # type: ignore[arg-type]
        shared = spec.hosts_per_machine if spec.shares_machine else 1
        for columns, count in standing(self.fleet, shared, spec.start_ns):
            self._put(sink, "relation", columns, count)
        if spec.detail == "all":
            self._put(sink, "relation", *of_addresses(self.fleet, spec.start_ns), numbered=False)
        if self.mesh is not None:
            self._put(sink, "relation", *of_switch_addresses(*self.mesh.addresses(), spec.start_ns), numbered=False)
        source = self._flow_source() if spec.detail == "all" else None
        self._flow_truth = flow_truth
        chunk_s, at_s = self.chunk_s(), 0.0
        while at_s < spec.seconds:
            end_s = min(at_s + chunk_s, spec.seconds)
            runs = self._runs(at_s, end_s)
            say(self._watermarks.begun(runs, at_s, end_s))
            self._chunk(sink, streams, source, at_s, end_s)
            say(self._watermarks.passed(runs, end_s))
            at_s = end_s
            yield at_s / spec.seconds
        self.outcome.bytes = sink.finish()
        told = {"switches_sampling": source.switches if source else 0, **self._switches_told()}
        self.outcome.truth = truth(self.fleet, self.schedule, self.clocks, spec, dict(self.outcome.lost), told)
        self.outcome.seconds = time.monotonic() - began

    def _runs(self, at_s: float, end_s: float) -> list[Run]:
        """Runs of which there is something in a span."""
        return [run for run in self.schedule.runs if run.start_s < end_s and run.end_s > at_s]

    def watermark_rows(self, said: list[Said], reported_ns: int) -> pa.Table:
        """Rows of `watermark`, said at the true time `reported_ns`."""
        host = np.array([each.host for each in said])
        columns = {
            "host": Coded(self._names, host), "clock": Coded(self._clock_names, host),
            "reported_ns": self._told_ns(host, np.full(len(said), reported_ns)),
            "to_ns": self._told_ns(host, np.array([each.to_ns for each in said])),
            "job": pa.array([each.job for each in said]), "state": pa.array([each.state for each in said]),
            "ranks": [self.fleet.gpus_per_host, len(said)], "sender": [SENDER, len(said)],
        }  # fmt: skip
        return made(BY_NAME["watermark"], columns, len(said), self.common, 0)

    def _flow_source(self) -> FlowSource:
        expected = self._samples_expected()
        share = min(1.0, self.spec.flow_rows_max / max(expected, 1.0))
        pods = max(1, round(self.fleet.pods * share))
        return FlowSource(self.fleet, self.spec.sampling, self.spec.spray, pods, self.spec.seed, self.switch_faults)

    def _switches_told(self) -> dict[str, Any]:
        spec, names, faults = self.spec, self.fleet.switch_names, self.switch_faults
        out: dict[str, Any] = {}
        if spec.silent_switches:
            out["silent_switches"] = [str(names[each]) for each in np.flatnonzero(faults.silent_W).tolist()]
        if spec.lying_switches:
            out["lying_switches"] = {str(names[each]): LIES[lie] for each, lie in enumerate(faults.lie_W) if lie}
        if spec.failing_links:
            moments = zip(faults.failing_X.tolist(), faults.down_s_X.tolist(), faults.up_s_X.tolist(), strict=True)
            out["failing_links"] = [
                {
                    "link": str(self.fleet.link_names[link]),
                    "from_ns": spec.start_ns + round(down_s * 1e9),
                    "to_ns": spec.start_ns + round(up_s * 1e9),
                }
                for link, down_s, up_s in moments
            ]
        return out

    def _chunk(self, sink: Sink, streams: Streams | None, source: FlowSource | None, at_s: float, end_s: float) -> None:
        to_ns = self.spec.start_ns + round(end_s * 1e9)
        runs = self._runs(at_s, end_s)
        for run in runs:
            if run.number not in self._jobs:
                self._jobs[run.number] = JobSteps(run, self.fleet, self.spec.start_ns, self.spec.seed)
                for columns, count in of_run(self.fleet, run, self.spec.start_ns):
                    self._put(sink, "relation", columns, count)
        self._happenings(sink, at_s, end_s)
        self._steps(sink, runs, to_ns)
        jobs = [self._jobs[run.number] for run in runs]
        if streams is not None:
            self._metrics(sink, streams, runs, at_s, end_s)
        if source is not None:
            for begin_s, until_s, up_D in self.switch_faults.spans(at_s, end_s, self.fleet.links):
                self._flows(sink, source, jobs, begin_s, until_s, up_D)
        if self.mesh is not None:
            self._probes(sink, self.mesh, at_s, end_s)
        for run in runs:
            if run.end_s <= end_s:
                del self._jobs[run.number]
                if source is not None:
                    source.forget(run.number)

    def _flows(
        self, sink: Sink, source: FlowSource, jobs: list[JobSteps], at_s: float, end_s: float, up_D: Bools | None
    ) -> None:
        from_ns, to_ns = (self.spec.start_ns + round(each * 1e9) for each in (at_s, end_s))
        carried = source.carried(jobs, from_ns, to_ns, up_D)
        if carried is None:
            return
        if self._flow_truth is not None:
            self._flow_truth.add(source.truth(carried))
        found = source.columns(carried)
        if found is None:
            return
        flows, samples = found
        for run, edges in source.met():
            for columns, count in of_flows(run, edges, self.spec.start_ns):
                self._put(sink, "relation", columns, count)
        keep = np.ones(len(samples.flow_N), bool)
        for fault in self.schedule.faults:
            if fault.effect.telemetry == "no-flows":
                since = samples.time_ns_N - self.spec.start_ns
                during = (since >= fault.at_s * 1e9) & (since < fault.end_s * 1e9)
                keep &= ~(during & np.isin(source.switch_of(samples), fault.switches))
        self._put(sink, "flow_sample", flows, len(samples.flow_N), keep)

    def _probes(self, sink: Sink, mesh: Mesh, at_s: float, end_s: float) -> None:
        for begin_s, until_s, up_D in mesh.spans(at_s, end_s):
            names = (self._told_ns, self._names, self._clock_names)
            told = (
                ("edge_fit", mesh.fits(begin_s, until_s, up_D, self._jobs, *names)),
                ("probe_hop", mesh.hops(begin_s, until_s, up_D, *names)),
            )
            for name, (columns, count, host, at_s_N) in told:
                if count:
                    self._put(sink, name, columns, count, self._agent_tells(host, at_s_N), numbered=False)

    def _agent_tells(self, host_N: Ints, at_s_N: Floats) -> Bools:
        """Whether the agents of hosts told something then."""
        gone, begin, end = self._silent
        keep = ~(gone[host_N] & (at_s_N >= begin[host_N]) & (at_s_N < end[host_N]))
        for fault in self.schedule.faults:
            if fault.effect.scope == "machine" and fault.effect.telemetry in SILENT:
                keep &= ~(np.isin(host_N, fault.hosts) & (at_s_N >= fault.at_s) & (at_s_N < fault.end_s))
        return keep

    def _happenings(self, sink: Sink, at_s: float, end_s: float) -> None:
        spec = self.spec
        from_ns, to_ns = (spec.start_ns + round(each * 1e9) for each in (at_s, end_s))
        # A run that ended at the very begin of the span is told here; it has no steps in it.
        runs = [run for run in self.schedule.runs if run.start_s < end_s + 1e-6 and run.end_s > at_s - 1e-6]
        found = [*of_faults(self.fleet, self.schedule.faults, self.schedule.runs, spec.start_ns, from_ns, to_ns)]
        found += of_runs(self.fleet, runs, spec.start_ns, from_ns, to_ns)
        if found:
            found.sort(key=lambda each: (each.entity, each.at_ns))
            columns = event_columns(found, self._names, self._clock_names, self._told_ns)
            self._put(sink, "event", columns, len(found))

    def _told_ns(self, host_N: Any, time_N: Any) -> Any:
        faults = [each for each in self.schedule.faults if each.effect.scope == "machine"]
        return self.clocks.told(host_N, time_N, faults)

    def _steps(self, sink: Sink, runs: list[Run], to_ns: int) -> None:
        told: list[Told] = []
        for run in sorted(runs, key=lambda each: each.job):
            host_R = np.repeat(run.hosts, self.fleet.gpus_per_host)
            told += [Told(run, host_R, laid) for laid in self._jobs[run.number].until(to_ns)]
        told = [each for each in told if len(each.laid.checkpoint_T)]
        if not told:
            return
        over = [each for each in told if len(each.laid.whole.checkpoint_T)]
        if over:
            columns, count = step_columns(
                over, self._names, self._clock_names, self._told_ns, self.spec.start_ns, self.rng
            )
            self._put(sink, "step", columns, count)
        if self.spec.detail == "all":
            columns, count = collective_columns(told, self._names, self._clock_names, self._told_ns)
            if count:
                self._put(sink, "collective", columns, count)

    # -- metrics ----------------------------------------------------------------------------------------------

    def _metrics(self, sink: Sink, streams: Streams, runs: list[Run], at_s: float, end_s: float) -> None:
        spec = self.spec
        first, last = (int(np.ceil(each / spec.metrics_s)) for each in (at_s, end_s))
        at_T: Floats = np.arange(first, last).astype(np.float64) * spec.metrics_s
        if not len(at_T):
            return
        values = streams.values(self._load(runs, at_T), at_T, spec.metrics_s, self.schedule.faults)
        lost = self._told_wrongly(streams, values, at_T)
        order, count = streams.order_S, streams.count * len(at_T)
        # Every stream has its own phase within the period, and some milliseconds of jitter.
        phase_S = np.floor(streams.phase_S * spec.metrics_s * 1e3) * 1_000_000
        times = spec.start_ns + np.rint(at_T * 1e9).astype(np.int64)[None, :] + phase_S.astype(np.int64)[:, None]
        times = times + streams.rng.integers(0, 4, times.shape) * 1_000_000
        stamped = np.flatnonzero(streams.agent_S)
        hosts = np.repeat(streams.host_S[stamped], len(at_T))
        times[stamped] = self._told_ns(hosts, times[stamped].ravel()).reshape(-1, len(at_T))
        columns = {
            "series": np.repeat(streams.ids_S, len(at_T), axis=0),
            "time_ns": times[order].ravel(),
            "value": values[order].ravel(),
        }
        keep = None if lost is None else ~lost[order].ravel()
        self._put(sink, "metric_sample", columns, count, keep)

    def _load(self, runs: list[Run], at_T: Any) -> Load:
        shape = (self.fleet.hosts, len(at_T))
        busy, sent, across = (np.zeros(shape) for _ in range(3))
        for run in runs:
            job = self._jobs[run.number]
            when = np.flatnonzero((at_T >= run.start_s) & (at_T < run.end_s))
            if len(when):
                where = np.ix_(run.hosts, when)
                at_ns = self.spec.start_ns + np.rint(at_T[when] * 1e9).astype(np.int64)
                busy[where], sent[where], across[where] = job.busy(at_ns), job.port_bytes_per_s(at_ns), job.across
        return Load(busy, sent, across)

    def _told_wrongly(self, streams: Streams, values: Any, at_T: Any) -> Any:
        """Samples that are not sent (S, T), None if all are; what is frozen is overwritten in `values`."""
        lost = None
        for fault in self.schedule.faults:
            kind = fault.effect.telemetry
            during = (at_T >= fault.at_s) & (at_T < fault.end_s)
            if not during.any() or kind not in (*SILENT, "frozen"):
                continue
            # An exporter's are the GPUs; with the host go its agent's.
            whole = fault.effect.scope == "machine"
            hit = np.isin(streams.host_S, fault.hosts) & (whole | ~streams.agent_S)
            if kind == "frozen":
                if id(fault) not in self._frozen:
                    self._frozen[id(fault)] = values[hit][:, max(int(np.argmax(during)) - 1, 0)]
                values[np.ix_(hit, during)] = self._frozen[id(fault)][:, None]
                continue
            lost = np.zeros(values.shape, bool) if lost is None else lost
            lost[np.ix_(hit, during)] = True
        gone, begin, end = self._silent
        if gone.any():
            lost = np.zeros(values.shape, bool) if lost is None else lost
            of_host = np.flatnonzero(streams.agent_S & gone[streams.host_S])
            host = streams.host_S[of_host]
            lost[of_host] |= (at_T >= begin[host][:, None]) & (at_T < end[host][:, None])
        return lost

    # -- out --------------------------------------------------------------------------------------------------

    def _put(
        self, sink: Sink, name: str, columns: dict[str, Any], count: int, keep: Any = None, numbered: bool = True
    ) -> None:
        if not count:
            return
        table: Table = BY_NAME[name]
        self._batches += numbered  # what was added later has no number, so that the others keep theirs
        rows = made(table, columns, count, self.common, self._batches)
        if keep is not None and not keep.all():
            self.outcome.lost[f"{name}/telemetry-fault"] += int((~keep).sum())
            rows = rows.filter(pa.array(keep))
        if self.spec.drop_share and name in LOSSY:
            kept = self.rng.random(rows.num_rows) >= self.spec.drop_share
            self.outcome.lost[f"{name}/dropped"] += int((~kept).sum())
            rows = rows.filter(pa.array(kept))
        self.outcome.rows[name] += rows.num_rows
        sink.write(table, rows)
