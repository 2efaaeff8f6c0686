"""Holds the simulator against the namespace lab: fits its few constants to some cases, predicts the others.

cases --measuring (root)--> records --fit--> Fitted --predict--> rows: lab, simulator, error
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bench.calibration.cases import (
    BERTS,
    FRAME_BYTES,
    QUEUES,
    RINGS,
    TOPOLOGIES,
    BertCase,
    QueueCase,
    RingCase,
    Use,
    arrivals,
)
from bench.calibration.queues import STANDING, Port, departures, waiting_bytes
from leadline.lab.topology import Topology, load
from leadline.lab.workloads.text import Language
from leadline.model.errors import DataError
from leadline.simulator.fabric import Floats, fabric_of
from leadline.simulator.network import LAB_TCP, LinkState, Transport, link_bytes, state_of
from leadline.simulator.step_model import StepPlan, collective_ns, edge_paths, steps, traffic_of

Record = Mapping[str, Any]

LAB_CORES = 2  # of the machine that the record was taken on; `fit` takes those of the record
HOST_QUEUE_BYTES = 4e6  # `realise.plan`
# What the benchmark does between two collectives, while the bucket fills: by so much 64 KB to 256 KB took less than the
# line's time on a quiet machine.
BACK_TO_BACK_NS = 60_000.0
TOLD_FROM_NS = 200_000  # shorter delays are those of the machine, not of a queue: told, and left out of the ratio
BERT_COMPUTE_CV = 0.05
BERT_BUCKETS = 5  # of 2 MB
BERT = {"hidden": 192, "layers": 4, "length": 64}


@dataclass(frozen=True, slots=True)
class Fitted:
    """The constants that come out of the cases with use `fit`."""

    transport: Transport
    standing_p50: float  # how full long flows keep a queue
    standing_p99: float
    bert_compute_ns: float
    cores: int


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one case."""

    case: str
    quantity: str  # step time, queue p50, queue p99, volume
    unit: str
    lab: float
    simulator: float
    use: Use
    told: bool = True  # whether it counts; a delay below `TOLD_FROM_NS` does not

    @property
    def error_ratio(self) -> float:
        """|simulator / lab - 1|; 0 where both are nothing."""
        if self.lab == 0:
            return 0.0 if self.simulator == 0 else float("inf")
        return abs(self.simulator / self.lab - 1.0)


def measured(name: str, bert: bool = True) -> list[Record]:
    """Every case on the namespace lab, under lab names that begin with `name`. Errors: WorldError."""
    from bench.calibration import measuring  # needs a world that a reader of records has not

    records: list[Record] = []
    for topology, cases in groupby(RINGS, key=lambda case: case.topology):
        groups = [list(group) for _, group in groupby(cases, key=lambda case: case.group)]
        records += measuring.rings_on(TOPOLOGIES[topology], f"{name}r", groups)
    for topology, queues in groupby(QUEUES, key=lambda case: case.topology):
        records += measuring.queues_on(TOPOLOGIES[topology], f"{name}q", list(queues))
    for topology, berts in groupby(BERTS if bert else (), key=lambda case: case.topology):
        records += measuring.bert_on(TOPOLOGIES[topology], f"{name}b", list(berts))
    return records


def read_records(path: Path) -> tuple[list[Record], dict[str, Any]]:
    """Records that were kept, and under which conditions they were taken. Errors: DataError."""
    try:
        told = json.loads(path.read_text())
        return list(told["records"]), dict(told["conditions"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(str(path), "JSON with records and conditions", str(error)) from error


def write_records(path: Path, records: Sequence[Record], conditions: Mapping[str, Any]) -> None:
    """Keep records, one to a line."""
    lines = ",\n".join(json.dumps(dict(record), sort_keys=True) for record in records)
    path.write_text(f'{{"conditions": {json.dumps(dict(conditions), sort_keys=True)},\n"records": [\n{lines}\n]}}\n')


# -- fitting ------------------------------------------------------------------------------------------------------


def fit(records: Iterable[Record], cores: int = LAB_CORES) -> Fitted:
    """Constants from the cases with use `fit`, one after the other.

    Cases that were not measured leave the constants of `network.LAB_TCP`.
    """
    by_case = {str(record["case"]): record for record in records}
    fitted = Fitted(LAB_TCP, _standing(0.5), _standing(0.99), 2.5e8, cores)
    transport = fitted.transport
    short, *merging = (case for case in RINGS if case.use == "fit")
    if short.name in by_case:
        rounds = traffic_of(ring_plan(short, fitted)).rounds
        transport = replace(transport, message_ns=by_case[short.name]["seconds"] * 1e9 / rounds)
    alone = replace(fitted, transport=replace(transport, merge_share=0.0))
    shares = [
        by_case[case.name]["seconds"] * 1e9 / predicted_ring_ns(case, alone) - 1.0
        for case in merging
        if case.name in by_case
    ]
    if shares:
        transport = replace(transport, merge_share=max(0.0, float(np.median(shares))))
    fitted = replace(fitted, transport=transport)
    queue = next(case for case in QUEUES if case.use == "fit")
    if queue.name in by_case:
        full_ns = queue.queue_bytes * 8e9 / queue.rate_bps
        told = by_case[queue.name]
        fitted = replace(fitted, standing_p50=told["p50_ns"] / full_ns, standing_p99=told["p99_ns"] / full_ns)
    bert = next(case for case in BERTS if case.use == "fit")
    if bert.name in by_case:
        fitted = replace(fitted, bert_compute_ns=_bert_compute(bert, by_case[bert.name]["seconds"] * 1e9, fitted))
    return fitted


def _standing(quantile: float) -> float:
    return dict(STANDING)[quantile]


def _bert_compute(case: BertCase, step_ns: float, fitted: Fitted) -> float:
    """The compute time with which the model takes as long as was measured; by bisection."""
    low, high = 0.0, step_ns
    for _ in range(30):
        middle = (low + high) / 2
        longer = predicted_bert_ns(case, replace(fitted, bert_compute_ns=middle)) > step_ns
        low, high = (low, middle) if longer else (middle, high)
    return (low + high) / 2


# -- predicting ---------------------------------------------------------------------------------------------------


def links_of(topology: Topology, rate_bps: float, transport: Transport) -> LinkState:
    """The links of a topology with its hosts at `rate_bps` and the others in proportion, as the lab is set."""
    state = state_of(topology, fabric_of(topology))
    scale = rate_bps / topology.shape.host_rate_bps
    return replace(state, capacity_bps_L=state.capacity_bps_L * scale, transport=transport)


def ring_plan(case: RingCase, fitted: Fitted) -> StepPlan:
    """A collective of the benchmark as a step that computes nothing."""
    ranks = len(load(TOPOLOGIES[case.topology]).hosts)
    return StepPlan(
        ranks, 0.0, 0.0, 0.0, 0.0, case.size_bytes, 1, overlap=False, network_cv=0.0, cores=fitted.cores
    )  # fmt: skip


def predicted_ring_ns(case: RingCase, fitted: Fitted) -> float:
    """Time of one collective."""
    topology = load(TOPOLOGIES[case.topology])
    links = links_of(topology, case.rate_bps, fitted.transport)
    return collective_ns(ring_plan(case, fitted), np.arange(len(topology.hosts)), links, BACK_TO_BACK_NS)


def predicted_ring_bytes(cases: Sequence[RingCase], fitted: Fitted) -> dict[str, float]:
    """Bytes that each switch port sends in all collectives of a job."""
    topology = load(TOPOLOGIES[cases[0].topology])
    links = links_of(topology, cases[0].rate_bps, fitted.transport)
    total_D = np.zeros(2 * links.fabric.links)
    for case in cases:
        traffic = traffic_of(ring_plan(case, fitted))
        paths = edge_paths(traffic, np.arange(len(topology.hosts)), links)
        total_D += link_bytes(paths, traffic.bytes_E, len(total_D), fitted.transport) * (case.iterations + case.warmup)
    return port_bytes(topology, total_D)


def port_bytes(topology: Topology, bytes_D: Floats) -> dict[str, float]:
    """Volumes by the switch port that sends them. Upwards a leaf's own port sends, the host's is no switch port."""
    found = {}
    for number, link in enumerate(topology.links):
        down, up = float(bytes_D[len(topology.links) + number]), float(bytes_D[number])
        if link.role == "backend":
            # `a` is the leaf's end: below it hosts (it sends down), above it spines (it sends up).
            to_host = not link.b.id.startswith("swport:")
            found[link.a.id] = down if to_host else up
            if not to_host:
                found[link.b.id] = down
    return found


def predicted_queue_ns(case: QueueCase, fitted: Fitted, sent_us: Sequence[Sequence[int]] = ()) -> tuple[float, float]:
    """(median, 99th percentile) of the queueing delay of probes at random times.

    `sent_us`: when each source really sent its batches, where that is known; a busy machine is late with some.
    """
    port = Port.of_lab(case.rate_bps, case.queue_bytes)
    if case.kind == "standing":
        full = port.drain_ns(np.array([fitted.standing_p50, fitted.standing_p99]) * case.queue_bytes)
        return float(full[0]), float(full[1])
    nic = Port.of_lab(case.rate_bps, HOST_QUEUE_BYTES)
    sent_ns = [np.repeat(np.array(at) * 1e3, case.batch) for at in sent_us] or [at * 1e9 for at in arrivals(case)]
    left = [departures(at, np.full(len(at), float(FRAME_BYTES)), nic) for at in sent_ns]
    at_ns = np.sort(np.concatenate(left))
    when_ns = np.linspace(0.0, case.seconds * 1e9, 20_000)
    waits = port.drain_ns(waiting_bytes(at_ns, np.full(len(at_ns), float(FRAME_BYTES)), port, when_ns))
    return float(np.quantile(waits, 0.5)), float(np.quantile(waits, 0.99))


def bert_bytes() -> int:
    """Gradients of the lab's BERT: four bytes for each parameter of `workloads.bert_model` with its defaults."""
    hidden, vocabulary = BERT["hidden"], len(Language(0).vocabulary)
    layer = 12 * hidden * hidden + 13 * hidden
    return 4 * ((vocabulary + BERT["length"] + 2) * hidden + BERT["layers"] * layer + vocabulary)


def predicted_bert_ns(case: BertCase, fitted: Fitted, count: int = 200) -> float:
    """Median time of a step."""
    topology = load(TOPOLOGIES[case.topology])
    ranks = len(topology.hosts)
    plan = StepPlan(
        ranks, fitted.bert_compute_ns, BERT_COMPUTE_CV, 0.0, 0.0, float(bert_bytes()), BERT_BUCKETS,
        channels=1, cores=fitted.cores,
    )  # fmt: skip
    links = links_of(topology, case.rate_bps, fitted.transport)
    made = steps(plan, np.arange(ranks), links, count, 0, np.ones(ranks), np.random.default_rng(0))
    return float(np.median(made.seconds_T)) * 1e9


# -- comparing ----------------------------------------------------------------------------------------------------


def compare(records: Iterable[Record], fitted: Fitted) -> list[Row]:
    """Every measured quantity beside the simulator's, in the order of the cases."""
    by_case = {str(record["case"]): record for record in records}
    rows: list[Row] = []
    for group, cases in groupby(RINGS, key=lambda case: case.group):
        rows += _ring_rows(group, list(cases), by_case, fitted)
    for queue in QUEUES:
        rows += _queue_rows(queue, by_case.get(queue.name), fitted)
    for bert in BERTS:
        if bert.name in by_case:
            told = by_case[bert.name]
            rows.append(
                Row(bert.name, "step time", "s", told["seconds"], predicted_bert_ns(bert, fitted) / 1e9, bert.use)
            )
    return rows


def _ring_rows(group: str, cases: list[RingCase], by_case: Mapping[str, Record], fitted: Fitted) -> list[Row]:
    rows = [
        Row(case.name, "step time", "s", by_case[case.name]["seconds"], predicted_ring_ns(case, fitted) / 1e9, case.use)
        for case in cases
        if case.name in by_case
    ]
    volume = by_case.get(f"{group} volume")
    if volume is None:
        return rows
    predicted = predicted_ring_bytes(cases, fitted)
    lab = {port: float(volume["bytes"].get(port, 0)) for port in predicted}
    # The port that is furthest off stands for all; those that carry nothing but a few broadcasts are left out.
    loaded = [port for port in predicted if lab[port] > 0.01 * max(lab.values())] or list(predicted)
    worst = max(loaded, key=lambda port: abs(predicted[port] / max(lab[port], 1.0) - 1.0))
    use: Use = "fit" if all(case.use == "fit" for case in cases) else "check"
    return [*rows, Row(f"{group}, worst of {len(loaded)} ports", "volume", "bytes", lab[worst], predicted[worst], use)]


def _queue_rows(case: QueueCase, told: Record | None, fitted: Fitted) -> list[Row]:
    if told is None:
        return []
    median_ns, tail_ns = predicted_queue_ns(case, fitted, told.get("sent_us") or ())
    rows = []
    for quantity, lab, simulator in (("queue p50", told["p50_ns"], median_ns), ("queue p99", told["p99_ns"], tail_ns)):
        counts = max(lab, simulator) >= TOLD_FROM_NS
        rows.append(Row(case.name, quantity, "ms", lab / 1e6, simulator / 1e6, case.use, counts))
    return rows


def worst_error(rows: Iterable[Row], quantity: str) -> float | None:
    """Largest error of the cases that only check; None if there is none."""
    errors = [row.error_ratio for row in rows if row.quantity.startswith(quantity) and row.use == "check" and row.told]
    return max(errors, default=None)


def fitted_as_json(fitted: Fitted) -> dict[str, Any]:
    """The fitted constants, for machines."""
    return {
        "message_us": round(fitted.transport.message_ns / 1e3, 1),
        "merge_share": round(fitted.transport.merge_share, 4),
        "standing_p50": round(fitted.standing_p50, 4),
        "standing_p99": round(fitted.standing_p99, 4),
        "bert_compute_ms": round(fitted.bert_compute_ns / 1e6, 1),
    }


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The table, for machines."""
    return [{**asdict(row), "error_ratio": round(row.error_ratio, 4)} for row in rows]


def as_markdown(rows: Iterable[Row]) -> str:
    """The table, for the page."""
    lines = ["| case | quantity | lab | simulator | error | used to |", "|---|---|---|---|---|---|"]
    for row in rows:
        error = f"{row.error_ratio:.1%}" if row.told else "(below 0.2 ms)"
        lab, simulator = (
            f"{value:,.0f}" if row.unit == "bytes" else f"{value:.4g}" for value in (row.lab, row.simulator)
        )
        lines.append(
            f"| {row.case} | {row.quantity} | {lab} {row.unit} | {simulator} {row.unit} | {error} | {row.use} |"
        )
    return "\n".join(lines) + "\n"
