"""sFlow version 5 over UDP into Leadline and sfacctd (pmacct): flow samples per second of CPU.

The same datagrams go to each collector over loopback, at the same rate; each runs alone, started anew, and they take
turns. Two mixes (`sflow_parts.mixes`): switches of a RoCEv2 fabric, and datagrams of real switches. A collector's CPU
is that of all its processes from the first datagram until it has all of them: Leadline every sample in its store,
sfacctd the sums of packets and bytes by agent, ports and flow in a file (plugin `print`). What else Leadline does
meanwhile (merging, analyses) is in it; what it does of that later is in the figures `until_rest`, up to REST_S_MAX. A
round counts only if nothing was lost: Leadline has every row, sfacctd every packet and byte; else the benchmark says
where it was lost, and ends with exit code 1. Decoding alone is measured too, in this process.

    python -m bench.sflow [--json] [--rounds 3] [--quick] [--only leadline] [--mixes roce golden]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from bench.figures import Figure, conditions, tell
from bench.peers import Leadline, Peer, cpu_s, free_port, process_tree
from bench.sflow_parts import mixes
from bench.sflow_parts.mixes import Mix
from leadline.host.bound import bound_to_parent
from leadline.wire.sflow.datagrams import Switch, decode_sflow, flow_columns

GOALS = {"flow_samples_per_core_second": 500_000.0, "ratio_sfacctd": 5.0}
CYCLE_DATAGRAMS = 2048
WARM_CYCLES = 1  # sent before it is measured: a port or stream is new once in the life of a collector
BURST_S = 0.002  # the sender's step: it sends what is due, then sleeps
BUFFER_SHARE_MAX = 0.25  # of the receiver's socket buffer: more waiting there, and the sender waits too
BUFFER_BYTES = 4 << 20  # of both receivers; Leadline's default
REST_S = 1.0  # at rest: less than REST_SHARE of a core for this long
REST_SHARE = 0.05
REST_S_MAX = 20.0
FINISH_S_MAX = 60.0
BETWEEN_BYTES, BETWEEN_ENTRY_BYTES_MIN = 65536, 64  # buffer between sfacctd's processes, and the least a sample takes
STORED = 'leadline_ingest_accepted_total{reason="rows"}'


class LostError(Exception):
    """Samples are not where they should be; the message says how many, and what counted them."""


class Collector(Protocol):
    """A collector under measurement."""

    name: str
    port: int

    def start(self) -> None:
        """Start it and wait until it listens."""

    def cpu_s(self) -> float:
        """User and system time of its processes so far, of those that ended too."""

    def finish(self, mix: Mix, cycles: int) -> None:
        """Wait until it has what was sent, FINISH_S_MAX at most."""

    def check(self, mix: Mix, cycles: int) -> None:
        """Errors: LostError unless it has all of it."""

    def stop(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One collector, one mix, one round."""

    flow_samples: int
    cpu_s: float
    seconds: float
    rest_cpu_s: float  # until it was at rest

    @property
    def per_core_second(self) -> float:
        """Flow samples per second of CPU."""
        return self.flow_samples / self.cpu_s


def main() -> int:
    """Run the benchmark and print its figures; 1 if samples were lost."""
    options = _options()
    made = {"roce": lambda: mixes.roce(options.seed, CYCLE_DATAGRAMS), "golden": lambda: mixes.golden(CYCLE_DATAGRAMS)}
    chosen = [made[name]() for name in options.mixes]
    decoding = {mix.name: decode_alone(mix, options.rounds) for mix in chosen}
    wanted: list[tuple[str, Callable[[Path, Mix], Collector]]] = [
        ("leadline", leadline),
        ("sfacctd", partial(sfacctd, write_s=options.write_s)),
    ]
    runs: dict[tuple[str, str], list[Run]] = {}
    missing: dict[str, str] = {}
    cycles = {mix.name: max(1, round(options.samples[mix.name] / mix.flow_samples)) for mix in chosen}
    lost: list[str] = []
    for _ in range(options.rounds):
        for mix in chosen:
            for name, make in wanted:
                if options.only and name not in options.only:
                    missing[name] = "left out by --only"
                    continue
                try:
                    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
                        run = measure(make(Path(folder), mix), mix, cycles[mix.name], options.rate)
                except FileNotFoundError as error:
                    missing[name] = str(error)
                    continue
                except LostError as error:
                    lost.append(f"{name}, {mix.name}: {error}")
                    print(f"{lost[-1]}; send slower (--rate)", file=sys.stderr, flush=True)
                    continue
                runs.setdefault((name, mix.name), []).append(run)
                print(
                    f"{name}, {mix.name}: {run.per_core_second:,.0f} flow samples per second of CPU, "
                    f"{run.cpu_s / run.flow_samples * 1e6:.2f} us each, {run.cpu_s:.1f} s in {run.seconds:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    told = conditions(
        seed=options.seed, rate=options.rate, rounds=options.rounds, lost=lost, seen="lab",
        flow_samples={mix.name: cycles[mix.name] * mix.flow_samples for mix in chosen},
        samples_a_datagram={mix.name: round(mix.flow_samples / len(mix.ends), 2) for mix in chosen},
    )  # fmt: skip
    tell("sflow", told, figures(runs, decoding, missing, lost), as_json=options.json)
    return 1 if lost else 0


def figures(
    runs: dict[tuple[str, str], list[Run]], decoding: dict[str, float], missing: dict[str, str], lost: list[str]
) -> list[Figure]:
    """The named figures, of the RoCEv2 mix first; those of the other mix have its name behind."""
    found = []
    for name, decoded in decoding.items():
        end = "" if name == "roce" else f"_{name}"
        rates = {
            who: statistics.median(run.per_core_second for run in runs[who, name]) if (who, name) in runs else None
            for who in ("leadline", "sfacctd")
        }
        ours, theirs = rates["leadline"], rates["sfacctd"]
        why = {
            who: next((text for text in lost if text.startswith(f"{who}, {name}")), missing.get(who)) for who in rates
        }
        goal = GOALS["flow_samples_per_core_second"]
        beside = {"of": "sfacctd", "value": round(theirs)} if theirs else None
        found.append(
            Figure(
                f"flow_samples_per_core_second{end}", ours, "samples/core-s", goal, anchor=beside,
                reason=None if ours else why["leadline"],
            )
        )  # fmt: skip
        ratio = ours / theirs if ours and theirs else None
        reason = None if ratio else why["leadline"] or why["sfacctd"]
        found.append(Figure(f"ratio_sfacctd{end}", ratio, "ratio", GOALS["ratio_sfacctd"], reason=reason))
        at_rest = runs.get(("leadline", name), [])
        value = statistics.median(run.flow_samples / run.rest_cpu_s for run in at_rest) if at_rest else None
        found.append(
            Figure(
                f"until_rest_samples_per_core_second{end}",
                value,
                "samples/core-s",
                reason=None if value else why["leadline"],
            )
        )
        found.append(Figure(f"decoded_samples_per_core_second{end}", decoded, "samples/core-s"))
    return found


def decode_alone(mix: Mix, rounds: int) -> float:
    """Flow samples that one core makes into columns in a second: datagrams in memory, nothing received or stored."""
    switches = [Switch(*_names(number)) for number in range(mix.switches)]
    switch_D = [switches[number] for number in mix.switch_D.tolist()]
    arrived_ns = np.arange(len(mix.ends), dtype=np.int64)
    rates = []
    for number in range(rounds * 5 + 1):  # the first loads what is compiled
        data, ends = mix.cycle(number)
        began = time.thread_time()
        _, count = flow_columns(decode_sflow(data, ends), switch_D, arrived_ns)
        rates.append(count / (time.thread_time() - began))
        assert count == mix.flow_samples
    return statistics.median(rates[1:])


def measure(collector: Collector, mix: Mix, cycles: int, rate: float) -> Run:
    """Send a mix to a freshly started collector, and wait until it has done with it. Errors: LostError."""
    collector.start()
    try:
        send(mix, range(WARM_CYCLES), collector.port, rate)
        collector.finish(mix, WARM_CYCLES)
        _rest(collector)
        cpu_before, began = collector.cpu_s(), time.monotonic()
        send(mix, range(WARM_CYCLES, WARM_CYCLES + cycles), collector.port, rate)
        collector.finish(mix, WARM_CYCLES + cycles)
        cpu_s, seconds = collector.cpu_s() - cpu_before, time.monotonic() - began
        _rest(collector)
        run = Run(cycles * mix.flow_samples, cpu_s, seconds, collector.cpu_s() - cpu_before)
        if dropped := _socket(collector.port)[1]:
            raise LostError(f"{dropped} datagrams found the socket's buffer full")
        collector.check(mix, WARM_CYCLES + cycles)
        return run
    finally:
        collector.stop()


def send(mix: Mix, cycles: Iterable[int], port: int, rate: float) -> None:
    """Send these cycles, each switch from its own address, `rate` flow samples a second and never into a buffer that
    is filling up."""
    senders = []
    for switch in range(mix.switches):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.bind((mixes.source(switch), 0))
        sender.connect(("127.0.0.1", port))
        senders.append(sender.send)
    step = max(1, round(rate * BURST_S * len(mix.ends) / mix.flow_samples))  # datagrams
    due = time.monotonic()
    for number in cycles:
        data, ends = mix.cycle(number)
        whole = memoryview(data)
        begin = 0
        for place, (switch, end) in enumerate(zip(mix.switch_D.tolist(), ends, strict=True)):
            senders[switch](whole[begin:end])
            begin = end
            if place % step == step - 1:
                due = max(due + BURST_S, time.monotonic() - 10 * BURST_S)  # what was missed is not made up for
                time.sleep(max(0.0, due - time.monotonic()))
                while _socket(port)[0] > BUFFER_SHARE_MAX * BUFFER_BYTES:
                    time.sleep(BURST_S)


def _socket(port: int) -> tuple[int, int]:
    """Bytes that wait at a UDP port, and datagrams that were dropped there. Errors: LostError if nobody listens."""
    for line in Path("/proc/self/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}"):
            return int(fields[4].partition(":")[2], 16), int(fields[-1])
    raise LostError(f"nobody listens on UDP port {port} any more")


def _rest(collector: Collector) -> None:
    """Wait until it has been at rest for REST_S, REST_S_MAX at most."""
    until = time.monotonic() + REST_S_MAX
    before, began = collector.cpu_s(), time.monotonic()
    while time.monotonic() < until:
        time.sleep(REST_S / 4)
        now, at = collector.cpu_s(), time.monotonic()
        if now - before > REST_SHARE * REST_S:
            before, began = now, at
        elif at - began >= REST_S:
            return


def _names(switch: int) -> tuple[str, dict[int, str]]:
    return f"leaf{switch + 1}", {port: f"Ethernet{port}" for port in range(1, mixes.PORTS + 1)}


# --- Leadline -----------------------------------------------------------------------------------------------------


class _Leadline:
    """`leadline up` with default settings, but for ports and who may send."""

    def __init__(self, peer: Peer, port: int) -> None:
        self.name, self.port, self._peer = "leadline", port, peer

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self._peer.start()

    def cpu_s(self) -> float:
        """CPU of all its processes."""
        return self._peer.cpu_s()

    def finish(self, mix: Mix, cycles: int) -> None:
        """Wait until it has stored as many rows, or lost some."""
        end = time.monotonic() + FINISH_S_MAX
        while time.monotonic() < end:
            told = self._metrics()
            if self._lost(told) or told.get(STORED, 0) >= cycles * mix.flow_samples:
                return
            time.sleep(0.25)

    def check(self, mix: Mix, cycles: int) -> None:
        """Every row is in the store, with its bytes, and nothing was counted as lost or refused."""
        lost = self._lost(self._metrics())
        sql = "SELECT count() AS n, sum(frame_bytes) AS bytes, uniqExact(switch) AS switches FROM flow_sample"
        request = urllib.request.Request(
            f"{self._peer.url}/api/v1/sql", json.dumps({"sql": sql}).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=150) as answer:
            row = json.load(answer)["rows"][0]
        found = {name: int(row[name]) for name in ("n", "bytes", "switches")}
        talking = len(set(mix.switch_D.tolist()) if mix.name == "roce" else {0, 1})  # the third has counters only
        expected = {"n": cycles * mix.flow_samples, "bytes": cycles * mix.frame_bytes, "switches": talking}
        if lost or found != expected:
            raise LostError(f"expected {expected}, stored {found}, counted as lost or refused {lost or 'nothing'}")

    def _metrics(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self._peer.url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        told = (line.rpartition(" ") for line in lines if line.startswith(("leadline_sflow_", "leadline_ingest_")))
        return {name: int(float(value)) for name, _, value in told}

    @staticmethod
    def _lost(told: dict[str, int]) -> dict[str, int]:
        """What its own counters say was lost or refused; markers of fields that a switch cannot tell are neither."""
        families = ("leadline_sflow_lost_total{", "leadline_ingest_refused_total{")
        found = {name: amount for name, amount in told.items() if name.startswith(families) and amount}
        return {name.removeprefix("leadline_"): n for name, n in found.items() if "blank_value" not in name}

    def stop(self) -> None:
        """End it."""
        self._peer.stop()


def leadline(root: Path, mix: Mix) -> Collector:
    """Leadline on free ports with its data under `root`."""
    port, udp_port = free_port(), _free_udp_port()
    senders = []
    for switch in range(mix.switches):
        name, ports = _names(switch)
        senders.append({"address": mixes.source(switch), "switch": name, "ports": ports})
    sections = {
        "server": {"port": port, "otlp_http_port": free_port(), "otlp_grpc_port": free_port()},
        "store": {"path": str(root / "store")},
        "ingest": {"sflow": {"port": udp_port, "senders": senders}},
    }
    (root / "leadline.yaml").write_text(json.dumps(sections))  # JSON is YAML
    command = [sys.executable, "-m", "leadline.cli.main", "up", "-c", str(root / "leadline.yaml")]
    return _Leadline(Leadline("leadline", command, port, "", "/ready", root), udp_port)


# --- sfacctd ------------------------------------------------------------------------------------------------------


class _Sfacctd:
    """pmacct's collector with its plugin `print`."""

    def __init__(self, program: str, root: Path, port: int, write_s: int) -> None:
        self.name, self.port, self._write_s = "sfacctd", port, write_s
        self._program, self._root = program, root
        self._printed = root / "printed.csv"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens. Errors: RuntimeError."""
        # Room as its manual asks for at high rates: its own defaults lose samples between its two processes.
        (self._root / "sfacctd.conf").write_text(
            f"daemonize: false\nsfacctd_ip: 127.0.0.1\nsfacctd_port: {self.port}\nsfacctd_pipe_size: {BUFFER_BYTES}\n"
            "sfacctd_renormalize: true\nplugins: print[a]\n"
            f"plugin_pipe_size: {1024 * BETWEEN_BYTES}\nplugin_buffer_size: {BETWEEN_BYTES}\n"
            "aggregate[a]: peer_src_ip, in_iface, out_iface, src_host, dst_host, src_port, dst_port, proto, tos\n"
            f"print_output[a]: csv\nprint_output_file[a]: {self._printed}\nprint_output_file_append[a]: true\n"
            f"print_refresh_time[a]: {self._write_s}\nprint_cache_entries[a]: 524287\n"
        )
        log = (self._root / "log.txt").open("wb")
        command = bound_to_parent([self._program, "-f", str(self._root / "sfacctd.conf")])
        self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 20
        while time.monotonic() < end and self._process.poll() is None:
            try:
                _socket(self.port)
                return
            except LostError:
                time.sleep(0.05)
        raise RuntimeError(f"sfacctd does not listen: {(self._root / 'log.txt').read_text(errors='replace')[-2000:]}")

    def cpu_s(self) -> float:
        """CPU of its processes, and of its writers that ended."""
        assert self._process is not None
        return cpu_s(process_tree(self._process.pid))

    def finish(self, mix: Mix, cycles: int) -> None:
        """Wait until it wrote everything, but for what it keeps until a buffer between its processes is full."""
        kept = BETWEEN_BYTES // BETWEEN_ENTRY_BYTES_MIN * mix.packets / mix.flow_samples
        end = time.monotonic() + FINISH_S_MAX
        while time.monotonic() < end and self._sums()[0] < cycles * mix.packets - kept:
            time.sleep(0.5)

    def check(self, mix: Mix, cycles: int) -> None:
        """Its sums are those of what was sent, once it was stopped and wrote what it kept."""
        self.stop()
        packets, octets = self._sums()
        if (packets, octets) != (cycles * mix.packets, cycles * mix.packet_bytes):
            log = (self._root / "log.txt").read_text(errors="replace")
            told = [line for line in log.splitlines() if "WARN" in line or "ERROR" in line]
            raise LostError(
                f"expected {cycles * mix.packets} packets, {cycles * mix.packet_bytes} bytes; it wrote {packets}, "
                f"{octets}; its log: {told[-3:]}"
            )

    def _sums(self) -> tuple[int, int]:
        if not self._printed.exists():
            return 0, 0
        rows = [row for row in csv.DictReader(self._printed.read_text().splitlines()) if row["SRC_IP"] != "SRC_IP"]
        whole = [row for row in rows if row["BYTES"]]  # the last line may be half written
        totals: Tally[str] = Tally()
        for row in whole:
            totals["packets"] += int(row["PACKETS"])
            totals["bytes"] += int(row["BYTES"])
        return totals["packets"], totals["bytes"]

    def stop(self) -> None:
        """End it: it ends when it is interrupted, not when it is terminated."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def sfacctd(root: Path, mix: Mix, write_s: int) -> Collector:
    """sfacctd from Debian, which writes its sums every `write_s`. Errors: FileNotFoundError if it is not installed."""
    program = sfacctd_program()
    if program is None:
        raise FileNotFoundError("sfacctd is not installed; `apt-get install pmacct`")
    return _Sfacctd(program, root, _free_udp_port(), write_s)


def sfacctd_program() -> str | None:
    """Where it is; None if it is not installed."""
    return shutil.which("sfacctd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the samples, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1_000_000, help="flow samples of the RoCEv2 mix in a round")
    parser.add_argument("--golden-samples", type=int, default=200_000, help="of the other: one in each datagram")
    parser.add_argument("--rate", type=float, default=200_000, help="flow samples sent in a second")
    parser.add_argument("--write-s", type=int, default=5, help="how often sfacctd writes its sums; its default is 60")
    parser.add_argument("--mixes", nargs="+", choices=("roce", "golden"), default=["roce", "golden"])
    parser.add_argument("--only", nargs="*", help="leadline, sfacctd")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.samples, options.golden_samples, options.rounds = options.samples // 20, options.golden_samples // 20, 1
    options.samples = {"roce": options.samples, "golden": options.golden_samples}
    return options


if __name__ == "__main__":
    sys.exit(main())
