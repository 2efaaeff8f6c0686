"""Figures of the lab: how fast it comes and goes, whether it carries what it is set to, what watching it costs.

    python bench/lab.py [--json] [--only up_64_s,leftovers,...] [--pairs 3] [--steps 25] [--bundle-s 600]

Needs root and network namespaces. With everything it takes some 20 minutes, most of it the spans of one training (with
all telemetry and with none, alternating) and the ten minutes of the bundle.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from bench.figures import Figure, conditions, tell
from bench.lab_realise import leftovers_after_kills, rate_error_ratio, up_and_down_s
from leadline.cli.lab.server import Listening, own_leadline
from leadline.lab.agents import Agents
from leadline.lab.realise import privileges
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import status
from leadline.lab.relay import Relay
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.topology import load
from leadline.lab.workloads.bert.job import Bert
from leadline.lab.workloads.bulk.job import Bulk, Transfer
from leadline.model.errors import WorldError
from leadline.wire.sflow import headers as header
from leadline.wire.sflow.datagrams import decode_sflow

RATE = 100  # one packet in so many
SETTLE_STEPS = 4  # not counted: of the training, and after telemetry came or went
START_S_MAX = 240.0
MB = 1_000_000


def sflow_byte_error_ratio(seconds: float, told: Callable[[str], None]) -> float:
    """Bytes of the fabric by sFlow at 1:100 against the kernel's counters of the same switch ports, |ratio - 1|.

    Both count what enters the switches, Ethernet headers included, over one transfer by all hosts; sampled is what is
    forwarded, so what a full queue drops at the exit is in both.
    """
    datagrams: list[bytes] = []
    with ExitStack() as stack:
        collector = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        collector.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024 * 1024)
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(0.5)
        cluster = stack.enter_context(Cluster(load("clos8"), "bench"))
        telemetry = Telemetry(
            cluster,
            TelemetryConfig(collectors=(collector.getsockname(),), sampling_rate=RATE, exporters=False, lldp=False),
        )
        stack.callback(telemetry.stop)
        telemetry.start()
        over = threading.Event()
        reader = threading.Thread(target=_receive, args=(collector, datagrams, over))
        reader.start()
        before = _received(cluster)
        hosts = [host.name for host in cluster.topology.hosts]
        bulk = Bulk(
            name="bytes",
            transfers=[
                Transfer(one, other, seconds=seconds) for one, other in zip(hosts, hosts[1:] + hosts[:1], strict=True)
            ],
        )
        stack.callback(bulk.stop)
        bulk.start(cluster)
        bulk.wait(seconds + 30.0)
        counted = _received(cluster) - before
        time.sleep(2.5)  # the last samples are gathered for a moment
        over.set()
        reader.join()
    batch = decode_sflow(b"".join(datagrams), np.cumsum([len(each) for each in datagrams]))
    estimate = int((batch.flows[:, header.RATE] * batch.flows[:, header.FRAME_BYTES]).sum())
    told(f"sFlow {estimate / MB:.1f} MB in {len(batch.flows)} samples, counters {counted / MB:.1f} MB")
    return abs(estimate / counted - 1)


def _receive(collector: socket.socket, into: list[bytes], over: threading.Event) -> None:
    while not over.is_set():
        try:
            into.append(collector.recv(65_535))
        except TimeoutError:
            continue


def _received(cluster: Cluster) -> int:
    switches = {switch.name for switch in cluster.topology.switches}
    return sum(port.received_bytes for node in status(cluster) if node.node in switches for port in node.ports)


def telemetry_step_cost_ratio(pairs: int, steps: int, told: Callable[[str], None]) -> list[float]:
    """A `bert` step on clos8 with all telemetry over one with none: medians of spans of one training, one ratio a pair.

    One training and not two, because gloo's ports are new in each and with them the paths: alone it took 1.24 s a step
    in one run and 1.65 s in the next. Agents, switches, exporters and lldpd come and go between spans; what comes first
    alternates. The hook stays in: its cost is too small to be seen here (`bench/torch_hook.py` has it). A Leadline
    takes all of it on the same machine.
    """
    with ExitStack() as stack:
        leadline = stack.enter_context(own_leadline("bench"))
        cluster = stack.enter_context(Cluster(load("clos8"), "bench"))
        job = Bert(name="cost", evaluate_every=0, checkpoint_every=0)
        stack.callback(job.stop)
        job.start(cluster)
        _wait_for_steps(job, SETTLE_STEPS, time.time_ns())
        ratios = []
        for number in range(pairs):
            order = (True, False) if number % 2 else (False, True)
            found = {watched: _span_s(job, cluster, leadline, watched, steps) for watched in order}
            told(f"median step {found[True]:.3f} s watched, {found[False]:.3f} s alone")
            ratios.append(found[True] / found[False])
        return ratios


def _span_s(job: Bert, cluster: Cluster, leadline: Listening, watched: bool, steps: int) -> float:
    """Median seconds of the next `steps` steps."""
    with ExitStack() as stack:
        if watched:
            telemetry = Telemetry(cluster, TelemetryConfig(collectors=(leadline.sflow,), sampling_rate=RATE))
            stack.callback(telemetry.stop)
            telemetry.start()
            relay = Relay(cluster, leadline.url)
            stack.callback(relay.stop)
            relay.start()
            agents = Agents(cluster)
            stack.callback(agents.stop)
            agents.start()
        # What has just started reads everything once; neighbours of a span are not part of it.
        began_ns = _wait_for_steps(job, SETTLE_STEPS, time.time_ns())[-1][1]
        return statistics.median((end - start) / 1e9 for start, end in _wait_for_steps(job, steps, began_ns))


def _wait_for_steps(job: Bert, count: int, since_ns: int) -> list[tuple[int, int]]:
    """The first `count` steps that start after a time. Errors: WorldError if they do not come."""
    deadline = time.monotonic() + START_S_MAX + 10.0 * count
    while time.monotonic() < deadline:
        found = [step for step in job.steps_done() if step[0] >= since_ns]
        if len(found) >= count:
            return found[:count]
        if any(code is not None for code in job.poll().values()):
            break
        time.sleep(0.5)
    raise WorldError(f"bert made no {count} steps; exit codes {job.poll()}")


def bundle_mb(seconds: float, told: Callable[[str], None]) -> float:
    """Size of a recorded incident: `bert` on clos8 for so long, with a flapping link and a slow worker in it."""
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as directory:
        scenario = Path(directory) / "incident.yaml"
        scenario.write_text(
            f"name: incident\ndoc: The size of a bundle.\ntopology: clos8\nduration_s: {seconds}\n"
            "workloads: [{workload: bert, name: bert-1}]\n"
            "faults:\n"
            f"  - {{fault: flapping-link, at_s: {seconds * 0.3}, for_s: {seconds * 0.1}}}\n"
            f"  - {{fault: slow-worker, at_s: {seconds * 0.6}, for_s: {seconds * 0.1}}}\n"
        )
        bundle = Path(directory) / "incident.leadline"
        command = [sys.executable, "-m", "leadline.cli.main", "lab", "run", str(scenario), "--record", str(bundle)]
        ran = subprocess.run([*command, "--name", "bench"], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise WorldError(f"the incident was not recorded: {ran.stderr.strip() or ran.stdout[-500:]}")
        told(
            next((line for line in ran.stdout.splitlines() if line.startswith(str(bundle))), "").replace(directory, "")
        )
        return bundle.stat().st_size / MB


def figures(given: argparse.Namespace, told: Callable[[str], None]) -> list[Figure]:
    """All that were asked for."""
    found: list[Figure] = []

    def add(name: str, unit: str, target: float, take: Callable[[], float]) -> None:
        if given.only and name not in given.only:
            return
        told(f"-- {name}")
        try:
            found.append(Figure(name, round(take(), 5), unit, target, "lower"))
        except WorldError as error:
            found.append(Figure(name, None, unit, target, "lower", reason=str(error)))

    times: list[tuple[float, float]] = []

    def up_and_down() -> tuple[float, float]:
        times.append(times[0] if times else up_and_down_s(rounds=given.rounds))
        return times[0]

    add("up_64_s", "s", 2.0, lambda: up_and_down()[0])
    add("down_64_s", "s", 1.0, lambda: up_and_down()[1])
    add("leftovers", "traces", 0.0, lambda: float(len(leftovers_after_kills(given.kills, told=told))))
    add("rate_error_ratio", "ratio", 0.05, lambda: rate_error_ratio(seconds=given.rate_s))
    add("sflow_byte_error_ratio", "ratio", 0.03, lambda: sflow_byte_error_ratio(given.rate_s, told))
    add(
        "telemetry_step_cost_ratio",
        "ratio",
        1.05,
        lambda: statistics.median(telemetry_step_cost_ratio(given.pairs, given.steps, told)),
    )
    add("bundle_mb_10min", "MB", 5.0, lambda: bundle_mb(given.bundle_s, told))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", type=lambda text: [each for each in text.split(",") if each])
    parser.add_argument("--rounds", type=int, default=5, help="of up_64_s and down_64_s")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate-s", type=float, default=10.0, help="how long ports are loaded")
    parser.add_argument("--pairs", type=int, default=3, help="of spans, watched and alone")
    parser.add_argument("--steps", type=int, default=25, help="of each span")
    parser.add_argument("--bundle-s", type=float, default=600.0, help="the target is for 600")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    under = conditions(0, seen="lab", topology="clos64, clos8", sampling=RATE, **_sizes(given))
    lacks = privileges.missing()
    if lacks:
        names = ("up_64_s", "down_64_s", "leftovers", "rate_error_ratio", "sflow_byte_error_ratio")
        reason = f"the lab needs {', '.join(lacks)}"
        found = [Figure(name, None, "", better="lower", reason=reason) for name in names]
    else:
        found = figures(given, lambda text: print(text, file=sys.stderr, flush=True))
    tell("lab", under, found, given.json)


def _sizes(given: argparse.Namespace) -> dict[str, object]:
    return {name: getattr(given, name) for name in ("rounds", "kills", "rate_s", "pairs", "steps", "bundle_s")}


if __name__ == "__main__":
    main()
