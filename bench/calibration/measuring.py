"""What the namespace lab really does, for the simulator to be held against: collectives, queues, bytes, training.

Everything here needs root. Results are plain records (see `calibration`), so that they can be kept.
"""

from __future__ import annotations

import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from bench.calibration.cases import BertCase, QueueCase, RingCase, arrivals
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import status
from leadline.lab.topology import load
from leadline.lab.workloads.bert.job import Bert
from leadline.lab.workloads.bulk.job import Bulk, Transfer
from leadline.lab.workloads.rings.job import Rings
from leadline.model.errors import WorldError

Record = dict[str, object]

PROBE_PORT, LOAD_PORT = 7117, 7118
PROBES_PER_S = 400
JOBS = 3
RUNS_MAX = 3
UNDISTURBED = 0.93  # share of the probes that come when nothing holds up their sender, and some are dropped
SETTLE_S = 1.5  # until TCP has found the queue
START_S, STEP_S = 120.0, 15.0  # patience with a training that shares its processors
_SEQUENCE = struct.Struct("<Qq")
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_LOAD_BYTES = 3958  # of a datagram: a frame of 4000 bytes


def ring_records(cluster: Cluster, cases: Sequence[RingCase]) -> list[Record]:
    """Median time of each collective, the median of `JOBS` jobs; and the bytes of switch ports in the last of them."""
    set_rates(cluster, cases[0].rate_bps)
    jobs = [_ring_job(cluster, cases) for _ in range(JOBS)]
    found: list[Record] = [
        {"case": case.name, "seconds": statistics.median(times[case.size_bytes] for times, _ in jobs)} for case in cases
    ]
    return [*found, {"case": f"{cases[0].group} volume", "bytes": jobs[-1][1]}]


def _ring_job(cluster: Cluster, cases: Sequence[RingCase]) -> tuple[dict[int, float], dict[str, int]]:
    """One job for all sizes: (seconds by size, bytes by port)."""
    first = cases[0]
    sizes = [case.size_bytes for case in cases]
    factor = sizes[1] / sizes[0] if len(sizes) > 1 else 2.0
    before = switch_bytes(cluster)
    rings = Rings(
        name="calibrate", ops=(first.op,), min_bytes=min(sizes), max_bytes=max(sizes), factor=factor,
        iterations=first.iterations, warmup=first.warmup, cycles=1, check=False,
    )  # fmt: skip
    rings.start(cluster)
    try:
        codes = rings.wait(60.0)
        if any(codes.values()) or None in codes.values():
            raise WorldError(f"rings of the calibration ended with {codes}; see {rings.ranks[0].log}")
        told = {each["size_bytes"]: each for each in rings.results()["results"]}
    finally:
        rings.stop()
    times = {int(size): float(each["time_s_p50"]) for size, each in told.items()}
    return times, difference(switch_bytes(cluster), before)


def queue_record(cluster: Cluster, case: QueueCase) -> Record:
    """See `_queue_record`; measured anew while the machine was too busy to send the probes that were due.

    What decides is how many probes came, not what they said.
    """
    runs: list[Record] = []
    while len(runs) < RUNS_MAX:
        runs.append(_queue_record(cluster, case))
        if int(str(runs[-1]["probes"])) >= UNDISTURBED * PROBES_PER_S * case.seconds:
            return runs[-1]
    return max(runs, key=lambda run: int(str(run["probes"])))


def _queue_record(cluster: Cluster, case: QueueCase) -> Record:
    """Delay of probes through the loaded switch port, less the smallest without load; and the bytes of that port."""
    port = cluster.topology.neighbour(cluster.topology.host(case.target).primary)
    set_rates(cluster, case.rate_bps, case.queue_bytes)
    idle = _probed(cluster, case, 0.4)
    base_ns = int(min(idle))
    before = switch_bytes(cluster)
    with _load(cluster, case) as (begins_s, sent):
        time.sleep(max(0.0, begins_s - time.monotonic()))
        delays = _probed(cluster, case, case.seconds)
    carried = difference(switch_bytes(cluster), before)
    queued = np.maximum(np.array(delays) - base_ns, 0)
    return {
        "case": case.name,
        "p50_ns": int(np.quantile(queued, 0.5)),
        "p99_ns": int(np.quantile(queued, 0.99)),
        "idle_p50_ns": int(np.quantile(np.array(idle) - base_ns, 0.5)),
        "probes": len(delays),
        "sent_us": sent,
        "bytes": {port.id: carried.get(port.id, 0)},
    }


def bert_records(cluster: Cluster, cases: Sequence[BertCase]) -> list[Record]:
    """Median step of one training while its links are set to one rate after the other."""
    job = Bert(name="calibrate", batch=cases[0].batch, evaluate_every=0, checkpoint_every=0, watched=False)
    set_rates(cluster, cases[0].rate_bps)
    job.start(cluster)
    found: list[Record] = []
    try:
        for case in cases:
            set_rates(cluster, case.rate_bps)
            spans = _steps(job, case.skip + case.steps, time.time_ns())[case.skip :]
            found.append({"case": case.name, "seconds": statistics.median((b - a) / 1e9 for a, b in spans)})
    finally:
        job.stop()
    return found


def _steps(job: Bert, count: int, since_ns: int) -> list[tuple[int, int]]:
    deadline = time.monotonic() + START_S + STEP_S * count
    while time.monotonic() < deadline:
        spans = [span for span in job.steps_done() if span[0] >= since_ns]
        if len(spans) >= count:
            return spans[:count]
        if any(code is not None for code in job.poll().values()):
            break
        time.sleep(0.2)
    raise WorldError(f"bert made no {count} steps for the calibration; exit codes {job.poll()}")


def set_rates(cluster: Cluster, rate_bps: int, queue_bytes: int | None = None) -> None:
    """Every backend switch and host port to `rate_bps` times what its link has over a host's; queues of switches."""
    shape = cluster.topology.shape
    for link in cluster.topology.links:
        if link.role != "backend":
            continue
        scaled = round(link.rate_bps * rate_bps / shape.host_rate_bps)
        for port in link.ends:
            is_host = port.node.startswith("h")
            cluster.shape(port.node, port.name, scaled, 4_000_000 if is_host else queue_bytes or link.queue_bytes)


def switch_bytes(cluster: Cluster) -> dict[str, int]:
    """Bytes that each backend switch port sent, by its entity id."""
    switches = {switch.name for switch in cluster.topology.switches if switch.tier != "frontend"}
    return {
        f"swport:{node.node}/{port.port.rpartition('/')[2]}": port.sent_bytes
        for node in status(cluster)
        if node.node in switches
        for port in node.ports
    }


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """What came to each counter."""
    return {name: value - before[name] for name, value in after.items()}


# -- delay --------------------------------------------------------------------------------------------------------


def _probed(cluster: Cluster, case: QueueCase, seconds: float) -> list[int]:
    """One-way delays of probes, ns: from just before they are sent to the kernel's stamp of their arrival.

    Both on one clock. They enter the switch by a port of their own, so they wait in the loaded one only.
    """
    sender = cluster.socket_in(case.prober, socket.AF_INET, socket.SOCK_DGRAM)
    receiver = cluster.socket_in(case.target, socket.AF_INET, socket.SOCK_DGRAM)
    with sender, receiver:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiver.settimeout(0.3)
        receiver.bind((cluster.address(case.target), PROBE_PORT))
        sender.bind((cluster.address(case.prober), 0))
        sender.connect((cluster.address(case.target), PROBE_PORT))
        prober = threading.Thread(target=_send_probes, args=(sender, seconds))
        prober.start()
        delays: list[int] = []
        end = time.monotonic() + seconds + 0.3
        while time.monotonic() < end:
            try:
                data, ancillary, _, _ = receiver.recvmsg(64, 64)
            except TimeoutError:
                continue
            second, nano = _TIMESPEC.unpack(ancillary[0][2])
            # One in a long run came without a stamp (0): it says nothing.
            if second:
                delays.append(second * 10**9 + nano - _SEQUENCE.unpack(data)[1])
        prober.join()
    if len(delays) < seconds * PROBES_PER_S / 10:
        raise WorldError(f"of the probes of {case.name} only {len(delays)} arrived; is the machine overloaded?")
    return delays


def _hurry() -> None:
    """This thread before others: what it sends late would be taken for a queue."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -15)


def _send_probes(sender: socket.socket, seconds: float) -> None:
    _hurry()
    rng = np.random.default_rng(1)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        # Random gaps: probes at a fixed one would see one phase of a periodic load.
        time.sleep(rng.exponential(1.0 / PROBES_PER_S))
        sender.send(_SEQUENCE.pack(number, time.time_ns()))
        number += 1


@contextmanager
def _load(cluster: Cluster, case: QueueCase) -> Iterator[tuple[float, list[list[int]]]]:
    """The traffic of a case. Gives when (monotonic, s) probing shall begin, and when batches really were sent."""
    if case.kind == "standing":
        bulk = Bulk(
            name="load", transfers=[
                Transfer(source, case.target, seconds=case.seconds + 2 * SETTLE_S + 4.0)
                for source in case.sources for _ in range(case.flows // len(case.sources))
            ],
        )  # fmt: skip
        bulk.start(cluster)
        try:
            deadline = time.monotonic() + 20.0
            while not bulk.bytes_sent():
                if time.monotonic() > deadline:
                    raise WorldError(f"the load of {case.name} sends nothing")
                time.sleep(0.1)
            yield time.monotonic() + SETTLE_S, []
        finally:
            bulk.stop()
        return
    begins = time.monotonic() + 0.2
    sender = Scheduled(cluster, case, begins)
    with sender:
        yield begins, sender.sent_us


@dataclass
class Scheduled:
    """Sends datagrams of several hosts at the times that the case's schedule says. One thread: they never meet."""

    cluster: Cluster
    case: QueueCase
    begins: float
    sent_us: list[list[int]] = field(default_factory=list)  # by source: when each batch went, after `begins`

    def __enter__(self) -> Scheduled:
        address = self.cluster.address(self.case.target)
        self._sink = self.cluster.socket_in(self.case.target, socket.AF_INET, socket.SOCK_DGRAM)
        self._sink.bind((address, LOAD_PORT))
        self._sockets = [self.cluster.socket_in(each, socket.AF_INET, socket.SOCK_DGRAM) for each in self.case.sources]
        for source, each in zip(self._sockets, self.case.sources, strict=True):
            source.bind((self.cluster.address(each), 0))
            source.connect((address, LOAD_PORT))
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        for each in (*self._sockets, self._sink):
            each.close()

    def _send(self) -> None:
        _hurry()
        data = bytes(_LOAD_BYTES)
        batch = self.case.batch
        planned = sorted(
            (at, number) for number, at_N in enumerate(arrivals(self.case)) for at in at_N[::batch].tolist()
        )
        self.sent_us += [[] for _ in self._sockets]
        for at, number in planned:
            wait = self.begins + at - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            self.sent_us[number].append(round((time.monotonic() - self.begins) * 1e6))
            for _ in range(batch):
                self._sockets[number].send(data)


def rings_on(topology: str, name: str, groups: Sequence[Sequence[RingCase]]) -> list[Record]:
    """All groups of ring cases on one cluster."""
    with Cluster(load(topology), name) as cluster:
        return [record for group in groups for record in ring_records(cluster, group)]


def queues_on(topology: str, name: str, cases: Sequence[QueueCase]) -> list[Record]:
    """All queue cases on one cluster."""
    with Cluster(load(topology), name) as cluster:
        return [queue_record(cluster, case) for case in cases]


def bert_on(topology: str, name: str, cases: Sequence[BertCase]) -> list[Record]:
    """One training with its links at several rates."""
    with Cluster(load(topology), name) as cluster:
        return bert_records(cluster, cases)
