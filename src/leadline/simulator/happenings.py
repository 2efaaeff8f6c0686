"""Rows of `event` and `relation`: what sources tell of jobs, faults and harmless things, and what stands on what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.model.ids import kind_of
from leadline.simulator.effects import Told
from leadline.simulator.fabric import Ints
from leadline.simulator.fleet import Fleet, joined, text
from leadline.simulator.flows import Edges, address, queue_pair
from leadline.simulator.metrics.streams import PCI
from leadline.simulator.rows import Coded
from leadline.simulator.targets import Befallen, Run, ranks_of

RANKS_TOLD_MAX = 64  # of a software version, of a recompilation: so many ranks tell it


@dataclass(frozen=True, slots=True)
class Happening:
    """One event before it is a row: true time, the host that tells it (-1: none), the entity."""

    at_ns: int
    host: int
    entity: str
    kind: str
    severity: str
    code: str
    message: str
    source: str
    attributes: tuple[tuple[str, str], ...] = ()


def of_faults(
    fleet: Fleet, faults: list[Befallen], runs: list[Run], start_ns: int, from_ns: int, to_ns: int
) -> Iterator[Happening]:
    """What is told of faults within a span."""
    for fault in faults:
        for told in fault.effect.events:
            for count, at_s in enumerate(_moments(told, fault)):
                at_ns = start_ns + round(at_s * 1e9)
                if from_ns <= at_ns < to_ns:
                    yield from _told(fleet, fault, runs, told, at_ns, count)


def _moments(told: Told, fault: Befallen) -> list[float]:
    if told.when == "onset":
        return [fault.at_s]
    if told.when == "end":
        return [fault.end_s]
    # An up follows each down while it lasts.
    late = 1.0 if told.kind == "link-up" else 0.0
    return [float(each) + late for each in np.arange(fault.at_s, fault.end_s, told.every_s)]


def _told(fleet: Fleet, fault: Befallen, runs: list[Run], told: Told, at_ns: int, count: int) -> Iterator[Happening]:
    per = fleet.gpus_per_host

    def one(host: int, entity: str, place: int = 0, device: str = "") -> Happening:
        changes = 2 + 2 * count + (told.kind == "link-up")
        words = told.message.format(
            pci=f"0000:{PCI[place].lower()}:00", pid=4000 + place, device=device, count=changes, rank=entity,
        )  # fmt: skip
        attributes = (("pid", str(4000 + place)), ("process", "python")) if told.kind == "xid" else ()
        return Happening(at_ns, host, entity, told.kind, told.severity, told.code, words, told.source, attributes)

    if told.entity == "gpu":
        for gpu in fault.gpus:
            yield one(gpu // per, f"gpu:{fleet.gpu_names[gpu]}", gpu % per)
    elif told.entity == "port":
        for link in fault.links:
            if link < fleet.host_links:
                yield one(link // fleet.rails, f"port:{fleet.port_names[link]}", device=f"eth{link % fleet.rails}")
    elif told.entity == "spare":
        for host in fault.hosts[:1]:
            yield one(host, f"port:h{host + 1}/eth15")
    elif told.entity == "host":
        of_links = [(link // fleet.rails, link % fleet.rails) for link in fault.links if link < fleet.host_links]
        for host, place in [(host, 0) for host in fault.hosts] or of_links:
            yield one(host, f"host:h{host + 1}", place)
    elif told.entity == "its-rank" and fault.run >= 0:
        run = runs[fault.run]
        for rank in ranks_of(fault, run, per):
            yield one(int(run.hosts[rank // per]), f"rank:{run.job}/{rank}", rank % per)
    elif told.entity == "rank" and fault.run >= 0:
        run = runs[fault.run]
        for rank in range(min(RANKS_TOLD_MAX, len(run.hosts) * per)):
            yield one(int(run.hosts[rank // per]), f"rank:{run.job}/{rank}", rank % per)


def of_runs(fleet: Fleet, runs: list[Run], start_ns: int, from_ns: int, to_ns: int) -> Iterator[Happening]:
    """Begin and end of jobs, and how each rank ended."""
    for run in runs:
        begin_ns = start_ns + round(run.start_s * 1e9)
        end_ns = start_ns + round(min(run.end_s, 1e9) * 1e9)
        if from_ns <= begin_ns < to_ns:
            words = f"{run.job} starts on {len(run.hosts)} hosts, incarnation {run.incarnation}"
            yield Happening(begin_ns, -1, f"job:{run.job}", "job-begin", "info", "", words, "scheduler")
        if run.end and from_ns <= end_ns < to_ns:
            fine = run.end == "exit/0"
            words = f"{run.job} ended: {run.end}"
            yield Happening(end_ns, -1, f"job:{run.job}", "job-end", "info" if fine else "error", run.end, words,
                            "scheduler")  # fmt: skip
            yield from _exits(fleet, run, end_ns)


def _exits(fleet: Fleet, run: Run, end_ns: int) -> Iterator[Happening]:
    """The befallen ranks die first, by their own signal; the others give up after them."""
    per = fleet.gpus_per_host
    killer = next((each for each in reversed(run.faults) if each.effect.dies and start_near(each, run)), None)
    for place, host in enumerate(run.hosts.tolist()):
        for gpu in range(per):
            rank = place * per + gpu
            first = killer is not None and (
                host * per + gpu in killer.gpus or host * per + gpu in killer.links or not killer.gpus + killer.links
            )
            code = run.end if killer is None or first else "exit/1"
            how = f"was killed by {code[7:]}" if code.startswith("signal/") else f"ended with exit code {code[5:]}"
            words = f"rank {rank} of {run.job} (pid {4000 + gpu}) {how}"
            at_ns = end_ns + (0 if killer is None or first else 200_000_000 + rank * 1000)
            yield Happening(at_ns, host, f"rank:{run.job}/{rank}", "process-exit",
                            "info" if code == "exit/0" else "error", code, words, "agent/exits",
                            (("pid", str(4000 + gpu)), (_EXITS[code[:5]], code.partition("/")[2])))  # fmt: skip


_EXITS = {"exit/": "exit_code", "signa": "signal"}  # attributes, as the agent names them


def start_near(fault: Befallen, run: Run) -> bool:
    """Whether a fault is what a run died of."""
    return abs(fault.at_s - run.end_s) < 1.0


def event_columns(
    happenings: list[Happening], hosts: pa.Array, clocks: pa.Array, reported_ns: Callable[[Ints, Ints], Ints]
) -> dict[str, Any]:
    """Columns of `event`."""
    host = np.array([each.host for each in happenings])
    at = np.array([each.at_ns for each in happenings])
    known = np.where(host >= 0, reported_ns(np.maximum(host, 0), at), at)
    plain = pa.concat_arrays([hosts, pa.array(["scheduler"])])
    clocked = pa.concat_arrays([clocks, pa.array(["scheduler/0"])])
    place = np.where(host >= 0, host, len(hosts))
    codes = [each.code or None for each in happenings]
    return {
        "host": Coded(plain, place), "clock": Coded(clocked, place), "time_ns": known,
        "entity_kind": pa.array([kind_of(each.entity) for each in happenings]),
        "entity": pa.array([each.entity for each in happenings]),
        "kind": pa.array([each.kind for each in happenings]),
        "severity": pa.array([each.severity for each in happenings]),
        "code": pa.array(codes, pa.string()).dictionary_encode(),
        "message": pa.array([each.message for each in happenings]),
        "attributes": pa.array([list(each.attributes) for each in happenings], pa.map_(pa.string(), pa.string())),
        "source": pa.array([each.source for each in happenings]),
    }  # fmt: skip


def of_addresses(fleet: Fleet, start_ns: int) -> tuple[dict[str, Any], int]:
    """Relations of the NICs' addresses: flows are told by addresses."""
    link = np.arange(fleet.host_links)
    ports = joined("port:", fleet.port_names)
    return _relation(joined("address:", fleet.addresses(link)), ports, "in", "agent/graph", start_ns)


def of_switch_addresses(addresses: pa.Array, ports: pa.Array, start_ns: int) -> tuple[dict[str, Any], int]:
    """Relations of the addresses that routers answer traces with."""
    return _relation(joined("address:", addresses), joined("swport:", ports), "in", "inventory", start_ns)


def standing(fleet: Fleet, hosts_per_machine: int, start_ns: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Relations that hold the whole time, a kind at a time."""
    gpu = np.arange(fleet.gpu_count)
    link = np.arange(fleet.host_links)
    ports = fleet.swports
    yield _relation(joined("gpu:", fleet.gpu_names), text("host:h", gpu // fleet.gpus_per_host + 1), "in",
                    "agent/graph", start_ns)  # fmt: skip
    yield _relation(joined("port:", fleet.port_names), text("host:h", link // fleet.rails + 1), "in", "agent/graph",
                    start_ns)  # fmt: skip
    switch = fleet.switch_names.take(pa.array(ports.switch))
    yield _relation(joined("swport:", fleet.swport_names), joined("switch:", switch), "in", "inventory", start_ns)
    upper = np.empty(fleet.links, np.int64)
    places = np.flatnonzero(~ports.lower)
    upper[ports.link[places]] = places
    above = joined("swport:", fleet.swport_names.take(pa.array(upper)))
    yield _relation(joined("port:", fleet.port_names), above[: fleet.host_links], "linked", "agent/lldp", start_ns)
    below = joined("swport:", fleet.swport_names.filter(pa.array(ports.lower)))
    if len(below):
        yield _relation(below, above[fleet.host_links :], "linked", "inventory", start_ns)
    if hosts_per_machine > 1:
        host = np.arange(fleet.hosts)
        first = host // hosts_per_machine * hosts_per_machine
        other = host != first
        yield _relation(text("host:h", host[other] + 1), text("host:h", first[other] + 1), "shares-machine",
                        "inventory", start_ns)  # fmt: skip


def of_run(fleet: Fleet, run: Run, start_ns: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Relations of one run: ranks in their job, on GPUs and hosts, in communicators."""
    per = fleet.gpus_per_host
    rank = np.arange(len(run.hosts) * per)
    host = run.hosts[rank // per]
    from_ns = start_ns + round(run.start_s * 1e9)
    to_ns = start_ns + round(run.end_s * 1e9) if run.end else None
    ranks = text(f"rank:{run.job}/", rank)
    gpus = joined("gpu:", fleet.gpu_names.take(pa.array(host * per + rank % per)))
    count = len(rank)
    source = "torch-hook"
    yield _relation(ranks, pa.repeat(f"job:{run.job}", count), "in", source, from_ns, to_ns)
    yield _relation(ranks, gpus, "runs-on", source, from_ns, to_ns)
    yield _relation(ranks, text("host:h", host + 1), "runs-on", source, from_ns, to_ns)
    pods = np.unique(run.hosts // fleet.pod_hosts)
    job = pa.repeat(f"job:{run.job}", len(pods))
    yield _relation(job, text("storage:pod", pods + 1), "mounts", "scheduler", from_ns, to_ns)
    kind = run.archetype
    if kind.collectives:
        groups = kind.groups(len(run.hosts), count)
        comms = pa.array([f"comm:{run.job}/0x{run.incarnation + 1:04x}{group:04x}" for group in range(groups)])
        yield _relation(ranks, comms.take(pa.array(rank % groups)), "member", source, from_ns, to_ns)


def of_flows(run: Run, edges: Edges, start_ns: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Who owns the flows and queue pairs of a run: the flow its sender, the queue pair at the receiver the receiver."""
    from_ns = start_ns + round(run.start_s * 1e9)
    to_ns = start_ns + round(run.end_s * 1e9) if run.end else None
    # The two halves of an id lie with the lower first; as text it stands with the higher first.
    digits = np.ascontiguousarray(edges.ids_E2[:, ::-1]).astype(">u8").tobytes().hex()
    flows = joined("flow:", pa.array([digits[at : at + 32] for at in range(0, len(digits), 32)], pa.string()))
    yield _relation(flows, text(f"rank:{run.job}/", edges.src_rank_E), "owns", "nccl-plugin", from_ns, to_ns)
    dotted = address(edges.dst_E).astype(np.int64)
    parts = [dotted >> shift & 255 for shift in (24, 16, 8, 0)]
    pairs = text(
        "qp:", parts[0], ".", parts[1], ".", parts[2], ".", parts[3], "/", queue_pair(edges.src_E, edges.dst_E)
    )
    yield _relation(pairs, text(f"rank:{run.job}/", edges.dst_rank_E), "owns", "nccl-plugin", from_ns, to_ns)


def _relation(
    child: pa.Array, parent: pa.Array, kind: str, source: str, from_ns: int, to_ns: int | None = None
) -> tuple[dict[str, Any], int]:
    count = len(child)
    return {
        "child": child.dictionary_encode(), "parent": parent.dictionary_encode(), "kind": [kind, count],
        "from_ns": np.full(count, from_ns), "to_ns": [to_ns, count], "source": [source, count],
        "confidence": np.ones(count),
    }, count  # fmt: skip
