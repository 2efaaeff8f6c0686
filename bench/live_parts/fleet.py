"""A simulated fleet as its senders would tell of it: the same programs' formats, and at their pace.

simulator ── step, collective ──> rings of each rank ── a look each 0.5 s* ──> POST /api/v1/ring, then its watermark
          ── series of agents ──> OTLP each 5 s          relation ──> rows, once
          ── series of exporters ──> remote-write of one Prometheus for 256 hosts, or pages that the server scrapes
          ── flow_sample, counters of switches ──> sFlow datagrams
          ── edge_fit, probe_hop of one prober a host, as an agent has it ──> rows each 5 s, with the samples

*: or as far apart as the server asks so many agents for (`wire.ring.pace`).
Rings are written by the writer that the hook has and read by the agent's reader, so bodies are what an agent sends.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any
from zlib import crc32

import cramjam
import pyarrow as pa
import pyarrow.compute as pc

from bench.live_parts.schedule import HTTP, NUMBER, PAGE, UDP, Writer
from bench.remote_write_bodies import varint
from leadline.host.config import AgentConfig
from leadline.host.found import EdgeFit, ProbeHop, Sample, Segment, Stream
from leadline.host.otlp import metrics_request
from leadline.host.parcels import parcels
from leadline.host.rows import probe_rows
from leadline.model.ids import canonical_labels
from leadline.model.tables import Table
from leadline.model.units import S
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.pace import look_s
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes
from leadline.wire.sflow.encode import (
    Agent,
    InterfaceCounters,
    counter_sample,
    flow_sample,
    interface_counters,
    raw_header,
)

GPUS = 8
READ_NS = S // 20  # what reading the counters of a host takes
LOOK_NS = S // 2  # agent.ring_interval_s
AGENT_S, SCRAPE_S, SWITCH_S = 5, 15, 20  # agent.interval_s; Prometheus' usual; sFlow's usual polling interval
HOSTS_OF_PROMETHEUS = 256
SCRAPED = 4  # one host in so many is scraped by the server itself
BODY_SAMPLES, BODY_S = 2_000, 5  # max_samples_per_send, batch_send_deadline of Prometheus
RING_RECORDS, RING_STRINGS = 256, 2048
RINGS = ("steps", "begins", "ends")  # of a rank: the main thread's, autograd's, the backend's
RELATIONS = 1_000  # in one request
PROBED: dict[str, tuple[type[EdgeFit | ProbeHop], str]] = {
    "edge_fit": (EdgeFit, "end_ns"), "probe_hop": (ProbeHop, "time_ns"),
}  # fmt: skip
OWN = 25  # streams that an agent tells of itself
SFLOW_AGENTS = IPv4Address("10.200.0.1")
PROBED_ROWS = 50_000  # of a simulated mesh that are encoded at a time
PAGES = IPv4Address("127.1.0.1")  # of the first target; loopback has room for all
PAGE_PORT = 9100


class _Held:
    """A sink that keeps the rows."""

    def __init__(self) -> None:
        self.parts: dict[str, list[pa.Table]] = defaultdict(list)

    def write(self, table: Table, rows: pa.Table) -> None:
        if table.name in PROBED:  # a simulated host probes from each NIC, an agent from one address
            paths = AgentConfig().mesh_paths
            rows = rows.filter(pc.less(rows["src_port"], AgentConfig().mesh_port + paths))
        self.parts[table.name].append(rows)

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing to let go."""

    def of(self, name: str) -> pa.Table:
        return pa.concat_tables(self.parts[name]).unify_dictionaries() if self.parts[name] else pa.table({})


@dataclass(frozen=True)
class Told:
    """What a fleet is, for the server's configuration and for the report."""

    hosts: int
    jobs: int
    series: int
    switches: list[dict[str, Any]]  # entries of ingest.sflow.senders
    targets: list[str]  # host:port that the server scrapes


def write_fleet(hosts: int, seconds: int, start_ns: int, seed: int, to: Writer) -> Told:
    """Encode all that a fleet of `hosts` sends from `start_ns` on. Few names of metrics: figures compare."""
    spec = SimulationSpec(
        gpus=hosts * GPUS, minutes=seconds / 60, seed=seed, quiet=True, hazards=False, detail="all", names="few",
        metrics_s=float(AGENT_S), start_ns=start_ns,
    )  # fmt: skip
    held = _Held()
    simulation = Simulation(spec)
    for _ in simulation.write(held):
        pass
    names = {name: number for number, name in enumerate(_texts(simulation.fleet.host_names))}
    step, collective = held.of("step"), held.of("collective")
    _agents(step, collective, names, start_ns, start_ns + seconds * S, to)
    _relations(held.of("relation"), start_ns, to)
    for name in PROBED:
        _probes(name, held.parts.pop(name, []), names, to)
    targets, switches = _metrics(
        held.of("series"), held.of("metric_sample"), held.of("flow_sample"), names, start_ns, to
    )
    jobs = len(set(step["job"].to_pylist())) if step.num_rows else 0
    return Told(hosts, jobs, held.of("series").num_rows, switches, targets)


def _texts(values: Any) -> list[str]:
    return [each.as_py() if isinstance(each, pa.Scalar) else str(each) for each in values]


# --- agents -----------------------------------------------------------------------------------------------------


def _agents(
    step: pa.Table, collective: pa.Table, names: dict[str, int], start_ns: int, end_ns: int, to: Writer
) -> None:
    """Rings and watermarks of all hosts."""
    steps, calls = _by_host(step, "end_ns"), _by_host(collective, None)
    every_ns = max(LOOK_NS, round(look_s(len(names)) * S))
    for name, host in names.items():
        _rings(name, host, steps.get(name, []), calls.get(name, []), (start_ns, end_ns), every_ns, to)


def _by_host(table: pa.Table, column: str | None) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if not table.num_rows:
        return found
    plain = table.drop_columns([each for each in ("metrics", "batch") if each in table.column_names])
    for row in plain.to_pylist():
        row["at_ns"] = row[column] if column else (row["finished_ns"] or row["started_ns"] or row["enqueued_ns"])
        found[row["host"]].append(row)
    return found


class _Rank:
    """The rings of one rank."""

    def __init__(self, row: dict[str, Any], place: int) -> None:
        self.memories, self.writers, self.read = [], [], [0] * len(RINGS)
        for number, _ in enumerate(RINGS):
            memory = bytearray(ring_bytes(RING_RECORDS, RING_STRINGS))
            format_ring(
                memory, host=row["host"], job=row["job"], rank=row["rank"], world_size=0, source="torch-hook",
                pid=1000 + place, tid=1000 + place * 10 + number, boot_id=b"\1" * 16, start_ns=row["at_ns"],
                start_monotonic_ns=1, clock=row["clock"], strings_bytes=RING_STRINGS,
            )  # fmt: skip
            self.memories.append(memory)
            self.writers.append(RingWriter(memory))

    def step(self, row: dict[str, Any]) -> None:
        self.writers[0].step_begin(row["step"], row["start_ns"])
        self.writers[0].step(
            row["step"], row["start_ns"], row["end_ns"], data_ns=row["data_ns"], forward_ns=row["forward_ns"],
            backward_ns=row["backward_ns"], optimizer_ns=row["optimizer_ns"], checkpoint_ns=row["checkpoint_ns"],
            samples=row["samples"], tokens=row["tokens"], loss=row["loss"],
        )  # fmt: skip

    def call(self, row: dict[str, Any]) -> None:
        what = (row["comm"], row["seq"], row["op"], row["dtype"] or "", row["bytes"] or 0, row["ranks"] or 0)
        if row["finished_ns"]:
            self.writers[2].collective_end(*what, row["enqueued_ns"], row["finished_ns"], row["started_ns"] or 0)
        else:
            self.writers[1].collective_begin(*what, row["enqueued_ns"])

    def segments(self, name: str) -> Iterator[Segment]:
        for number, memory in enumerate(self.memories):
            if self.writers[number].written > self.read[number]:
                reading = read_segment(memory, self.read[number])
                yield Segment(reading.segment, reading.last - self.read[number], f"ring/{name}/{number}", reading.last)
                self.read[number] = reading.last


def _rings(
    name: str, host: int, steps: list[dict[str, Any]], calls: list[dict[str, Any]], span_ns: tuple[int, int],
    every_ns: int, to: Writer,
) -> None:  # fmt: skip
    happened = sorted([*((row["at_ns"], 0, row) for row in steps), *((row["at_ns"], 1, row) for row in calls)],
                      key=lambda each: each[:2])  # fmt: skip
    ranks: dict[tuple[str, int], _Rank] = {}
    # Agents do not look at the same moment.
    look_ns = span_ns[0] + (host * 7919) % (every_ns // 10**6) * 10**6
    clock = happened[0][2]["clock"] if happened else f"{name}/1"
    at, told_ns = 0, 0
    while look_ns < span_ns[1]:
        while at < len(happened) and happened[at][0] <= look_ns:
            _, is_call, row = happened[at]
            key = row["job"], row["rank"]
            if key not in ranks:
                ranks[key] = _Rank(row, len(ranks))
            (ranks[key].call if is_call else ranks[key].step)(row)
            at += 1
        segments = [each for key, rank in ranks.items() for each in rank.segments(f"{key[0]}/{key[1]}")]
        for item in parcels(segments, 0):
            to.add(look_ns, item.body, host, NUMBER["/api/v1/ring"], HTTP, "ring_records", item.rows)
        here: dict[str, int] = defaultdict(int)
        for job, _ in ranks:
            here[job] += 1
        if here or look_ns - told_ns >= AGENT_S * S:
            told_ns = look_ns
            body = b"".join(
                _line({"host": name, "clock": clock, "sender": "agent", "job": job, "state": "open", "ranks": count,
                       "reported_ns": look_ns, "to_ns": look_ns})
                for job, count in [("", sum(here.values())), *here.items()]
            )  # fmt: skip
            to.add(look_ns, body, host, NUMBER["/api/v1/rows/watermark"], HTTP, "watermarks", 1 + len(here), True)
        look_ns += every_ns


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _relations(relation: pa.Table, start_ns: int, to: Writer) -> None:
    """Told once, by one sender for each thousand."""
    rows = [
        {each: row[each] for each in ("child", "parent", "kind", "from_ns", "to_ns", "source", "confidence")}
        for row in relation.to_pylist()
    ]
    for at in range(0, len(rows), RELATIONS):
        body = b"".join(map(_line, rows[at : at + RELATIONS]))
        to.add(start_ns, body, at // RELATIONS, NUMBER["/api/v1/rows/relation"], HTTP, "relations", body.count(b"\n"))


def _probes(table: str, parts: list[pa.Table], names: dict[str, int], to: Writer) -> None:
    """What probers say, each host's each 5 s."""
    kind, time = PROBED[table]
    waiting: dict[tuple[str, int], list[Any]] = defaultdict(list)

    def flush(until_ns: float) -> None:
        for (name, slot), found in list(waiting.items()):
            if (slot + 1) * AGENT_S * S <= until_ns:
                del waiting[name, slot]
                body = probe_rows(found, name, clocks[name])
                due_ns = (slot + 1) * AGENT_S * S + _moment_ns(names[name]) + READ_NS
                to.add(due_ns, body, names[name], NUMBER[f"/api/v1/rows/{table}"], HTTP, f"{table}_rows", len(found))

    clocks: dict[str, str] = {}
    for part in parts:
        for at in range(0, part.num_rows, PROBED_ROWS):
            for row in part.slice(at, PROBED_ROWS).to_pylist():
                row["dscp"] = row.pop("class")
                clocks[row["host"]] = row["clock"]
                # What was found until the host's own moment in a slot goes with the samples then.
                slot = (row[time] - _moment_ns(names[row["host"]])) // (AGENT_S * S)
                waiting[row["host"], slot].append(kind(**{name: row[name] for name in kind._fields}))
        if part.num_rows:
            flush(pc.max(part[time]).as_py() - 2 * AGENT_S * S)
    flush(float("inf"))


def _moment_ns(host: int) -> int:
    """When in its interval an agent reads its counters: not all do at once."""
    return (host * 7919) % (AGENT_S * 1000) * 10**6


# --- metrics ----------------------------------------------------------------------------------------------------


def _metrics(
    series: pa.Table, sample: pa.Table, flows: pa.Table, names: dict[str, int], start_ns: int, to: Writer
) -> tuple[list[str], list[dict[str, Any]]]:
    """All samples; the targets to scrape and the switches that send."""
    info = series.select(["series", "name", "labels", "type", "host", "source", "unit", "entity"]).to_pylist()
    number = {row["series"]: place for place, row in enumerate(info)}
    # Each stream's samples are told by whoever tells that stream.
    of: dict[str, list[tuple[int, dict[str, Any], float]]] = defaultdict(list)
    last: dict[int, int] = {}
    for key, time_ns, value in zip(
        sample["series"].to_pylist(), sample["time_ns"].to_pylist(), sample["value"].to_pylist(), strict=True
    ):
        place = number[key]
        row = info[place]
        if row["source"] == "otlp-http":
            of[f"agent {row['host']}"].append((time_ns, row, value))
            continue
        every_s = SWITCH_S if not row["host"] else SCRAPE_S
        if time_ns - last.get(place, 0) < every_s * S - S:
            continue
        last[place] = time_ns
        if not row["host"]:
            of["switches"].append((time_ns, row, value))
        elif names[row["host"]] % SCRAPED == 0:
            of[f"page {row['host']}"].append((time_ns, row, value))
        else:
            of[f"prometheus {names[row['host']] // HOSTS_OF_PROMETHEUS}"].append((time_ns, row, value))
    targets: list[str] = []
    for who, samples in of.items():
        samples.sort(key=lambda each: each[0])
        kind, _, name = who.partition(" ")
        if kind == "agent":
            _otlp(name, names[name], samples, to)
        elif kind == "prometheus":
            _remote_write(int(name), samples, to)
        elif kind == "page":
            targets.append(_pages(len(targets), samples, to))
    return targets, _sflow(of["switches"], flows, start_ns, to)


def _otlp(name: str, host: int, samples: list[tuple[int, dict[str, Any], float]], to: Writer) -> None:
    resource = (("host.name", name),)
    streams: dict[bytes, Stream] = {}
    own = [Stream(f"leadline_agent_bench_{each}", (("lane", "ring"),), False, "1", True) for each in range(OWN)]
    for slot, some in itertools.groupby(samples, key=lambda each: each[0] // (AGENT_S * S)):
        # An agent reads all of its counters at one moment, and sends them at once.
        read_ns = slot * AGENT_S * S + _moment_ns(host)
        told = []
        for _, row, value in some:
            stream = streams.get(row["series"])
            if stream is None:
                labels = tuple((key, text) for key, text in row["labels"] if key != "host.name")
                stream = streams[row["series"]] = Stream(row["name"], labels, row["type"] == "counter", row["unit"])
            told.append(Sample(stream, read_ns, value))
        told += [Sample(stream, read_ns, 1.0) for stream in own]
        body = metrics_request(told, resource, (*resource, ("service.name", "leadline-agent")))
        to.add(read_ns + READ_NS, body, host, NUMBER["/v1/metrics"], HTTP, "otlp_samples", len(told))


def _remote_write(number: int, samples: list[tuple[int, dict[str, Any], float]], to: Writer) -> None:
    labels: dict[bytes, bytes] = {}
    raw, count, first_ns = bytearray(), 0, 0
    who = 1_000_000 + number * 50

    def flush(due_ns: int) -> None:
        nonlocal raw, count
        if count:
            body = bytes(cramjam.snappy.compress_raw(bytes(raw)))
            to.add(
                due_ns, body, who + len(to.entries) % 50, NUMBER["/api/v1/write"], HTTP, "remote_write_samples", count
            )
        raw, count = bytearray(), 0

    for time_ns, row, value in samples:
        if count and (count >= BODY_SAMPLES or time_ns - first_ns > BODY_S * S):
            flush(min(time_ns, first_ns + BODY_S * S))  # its deadline passes whether a sample comes or not
        first_ns = first_ns if count else time_ns
        head = labels.get(row["series"])
        if head is None:
            head = labels[row["series"]] = canonical_labels({"__name__": row["name"], **dict(row["labels"])})
        sample = b"\x09" + struct.pack("<d", value) + b"\x10" + varint(time_ns // 10**6)
        stream = head + b"\x12" + varint(len(sample)) + sample
        raw += b"\x0a" + varint(len(stream)) + stream
        count += 1
    flush(first_ns + BODY_S * S)


def _pages(target: int, samples: list[tuple[int, dict[str, Any], float]], to: Writer) -> str:
    """A page for each round of samples; the newest is answered."""
    for slot, some in itertools.groupby(samples, key=lambda each: each[0] // (SCRAPE_S * S)):
        lines = [
            f"{row['name']}{{{','.join(f'{key}={json.dumps(text)}' for key, text in row['labels'])}}} {value!r}\n"
            for _, row, value in some
        ]
        to.add(slot * SCRAPE_S * S, "".join(lines).encode(), target, 0, PAGE, "page_samples", len(lines))
    return f"{PAGES + target}:{PAGE_PORT}"


# --- switches ---------------------------------------------------------------------------------------------------


def _sflow(
    counters: list[tuple[int, dict[str, Any], float]], flows: pa.Table, start_ns: int, to: Writer
) -> list[dict[str, Any]]:
    """Flow and counter samples of every switch, a datagram when it is full or each second."""
    by: dict[str, list[tuple[int, int, Any]]] = defaultdict(list)
    needless = [each for each in ("flow", "batch", "batch_row", "tenant", "cluster") if each in flows.column_names]
    for row in flows.drop_columns(needless).to_pylist():
        by[row["switch"]].append((row["time_ns"], 0, row))
    ports: dict[str, dict[tuple[int, str], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for time_ns, row, value in counters:
        switch, _, port = row["entity"].removeprefix("swport:").partition("/")
        ports[switch][time_ns // (SWITCH_S * S), port][row["name"]] = value
    for switch, values in ports.items():
        for (slot, port), named in values.items():
            # Spread over the interval, as the polling of a switch's ports is.
            at_ns = slot * SWITCH_S * S + crc32(port.encode()) % SWITCH_S * S
            by[switch].append((max(at_ns, start_ns), 1, (port, named)))
    senders = []
    for number, (switch, some) in enumerate(sorted(by.items())):
        address = str(SFLOW_AGENTS + number)
        index: dict[str, int] = {}
        _datagrams(number, address, sorted(some, key=lambda each: each[:2]), index, start_ns, to)
        names = {place: port for port, place in index.items()}
        senders.append({"address": "127.0.0.1", "agent": address, "switch": switch, "ports": names})
    return senders


def _datagrams(
    number: int, address: str, some: list[tuple[int, int, Any]], index: dict[str, int], start_ns: int, to: Writer
) -> None:
    agent = Agent(address)
    sampled: dict[int, int] = defaultdict(int)
    counted: dict[int, int] = defaultdict(int)
    for second, group in itertools.groupby(some, key=lambda each: each[0] // S):
        uptime_ms = (second * S - start_ns) // 10**6 + 1_000_000
        due_ns, rows = (second + 1) * S, 0
        for _, is_counter, what in group:
            if is_counter:
                port, named = what
                source = index.setdefault(port, len(index) + 1)
                counted[source] += 1
                made = counter_sample(counted[source], source, [interface_counters(_interface(source, named))])
            else:
                source = index.setdefault(what["in_port"], len(index) + 1)
                out = index.setdefault(what["out_port"], len(index) + 1)
                sampled[source] += 1
                made = flow_sample(
                    sampled[source], source, what["rate"], what["rate"] * sampled[source], 0, source, out,
                    [raw_header(_packet(what), what["frame_bytes"], 4)],
                )  # fmt: skip
            rows += 1
            if full := agent.add(made, uptime_ms):
                to.add(due_ns - S // 2, full, number, 0, UDP, "sflow_samples", 0)
        if rest := agent.flush(uptime_ms):
            to.add(due_ns, rest, number, 0, UDP, "sflow_samples", 0)
        to.rows["sflow_samples"] = to.rows.get("sflow_samples", 0) + rows


def _interface(source: int, named: dict[str, float]) -> InterfaceCounters:
    def value(name: str) -> int:
        return int(named.get(name, 0))

    return InterfaceCounters(
        source, 6, 400_000_000_000, 1, 3, value("ifInOctets"), 0, 0, 0, 0, value("ifInErrors"), 0,
        value("ifOutOctets"), 0, 0, 0, value("ifOutDiscards"), 0, 0,
    )  # fmt: skip


def _packet(row: dict[str, Any]) -> bytes:
    """Ethernet, IPv4, UDP, and the InfiniBand base transport header: the first bytes of a RoCEv2 frame."""
    size = min(row["frame_bytes"], 9000)
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, (row["dscp"] or 0) << 2 | (row["ecn"] or 0), size - 14, 0, 0, 63, row["protocol"], 0,
        IPv4Address(row["src_ip"]).packed, IPv4Address(row["dst_ip"]).packed,
    )  # fmt: skip
    ports = struct.pack(">HHHH", row["src_port"] or 0, row["dst_port"] or 0, size - 34, 0)
    pair = struct.pack(">BBHII", 0x0A, 0x40, 0xFFFF, row["dst_qp"] or 0, 1)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\x00" + ip + ports + pair
