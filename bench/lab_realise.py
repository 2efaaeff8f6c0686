"""Figures of the lab's realisation: up and down, what killed labs leave behind, whether ports carry their rate.

Functions only; `bench/lab.py` tells them with the other figures of the lab. All need root.
"""

from __future__ import annotations

import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from leadline.lab import state
from leadline.lab.realise import cgroups, namespaces
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import status
from leadline.lab.topology import Topology, load

RATE_S = 6.0  # how long ports are loaded; the first second, when TCP finds its rate, does not count
VICTIM = "import sys; from bench.lab_realise import victim; victim(*sys.argv[1:])"
SLEEPER = "leadline-sleeper"


def up_and_down_s(preset: str = "clos64", rounds: int = 3, name: str = "bench") -> tuple[float, float]:
    """Median seconds to make and to remove a lab, all included."""
    topology = load(preset)
    ups, downs = [], []
    for _ in range(rounds):
        cluster = Cluster(topology, name)
        began = time.perf_counter()
        cluster.up()
        ups.append(time.perf_counter() - began)
        began = time.perf_counter()
        cluster.down()
        downs.append(time.perf_counter() - began)
    return statistics.median(ups), statistics.median(downs)


def leftovers_after_kills(
    kills: int = 20,
    preset: str = "clos8",
    name: str = "kills",
    seed: int = 0,
    told: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Kill a program that makes, uses and removes labs over and over, at random moments; each next start must find
    and remove what is there. Returns what is left after the last one: nothing, if all is well."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="leadline-kills-") as directory:
        root = Path(directory)
        for number in range(kills):
            victim = subprocess.Popen(
                [sys.executable, "-c", VICTIM, preset, name, str(root)],
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
            )
            assert victim.stdout is not None
            victim.stdout.readline()  # past the imports: it is making its first lab now
            after_s = rng.uniform(0.0, 0.4)
            time.sleep(after_s)
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
            there = len(traces(name, root))
            Cluster(load("tiny"), f"{name}n", root).up()  # the next start; its own end is removed by the one after
            left = [trace for trace in traces(name, root) if f"{name}n" not in trace]
            told(f"kill {number + 1} after {after_s:.3f} s: {there} traces, then {len(left)}")
            if left:
                return left
            Cluster.attach(f"{name}n", root).down()
        return traces(name, root)


def traces(name: str, root: Path) -> list[str]:
    """Everything on this machine that belongs to labs whose names begin so: what must be empty in the end."""
    found = [f"namespace {path.name}" for path in namespaces.NETNS.glob(f"ll-{name}*")]
    for hierarchy_root in cgroups.hierarchy().roots.values():
        found += [f"cgroup {path}" for path in (hierarchy_root / cgroups.PARENT).glob(f"{name}*")]
    found += [f"directory {lab}" for lab in state.labs(root) if lab.startswith(name)]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{SLEEPER}-{name}".encode() in command and state.start_of(int(entry.name)) is not None:
                found.append(f"process {entry.name}")
    return found


def victim(preset: str, name: str, root: str) -> None:
    """Make, use and remove labs until killed; a minute at most."""
    topology = load(preset)
    print("ready", flush=True)
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        cluster = Cluster(topology, name, Path(root))
        cluster.up()
        for host in ("h1", "h2"):
            for detached in (False, True):
                argv = ["sh", "-c", "sleep 50; exit 0", f"{SLEEPER}-{name}"]
                cluster.spawn(host, argv, name=f"s{detached}", detached=detached)
        time.sleep(0.05)
        cluster.down()


def rate_error_ratio(name: str = "rates", seconds: float = RATE_S, topology: Topology | None = None) -> float:
    """How far 8 switch ports, all loaded at once, are from the rate they are set to: the worst port's |ratio - 1|.

    TCP from each host to the next by their first NICs, so that each host port of leaf1 carries one flow. Counted is
    what the port sent, by the kernel's counter, with Ethernet headers: the rate is one of the wire.
    """
    with Cluster(topology or load("clos8"), name) as cluster:
        end = time.monotonic() + seconds
        flows = [_flow(cluster, host, peer, end) for host, peer in _ring(cluster)]
        for thread in flows:
            thread.start()
        time.sleep(1.0)
        before, began = _sent(cluster), time.monotonic()
        time.sleep(seconds - 1.5)
        after, took_s = _sent(cluster), time.monotonic() - began
        for thread in flows:
            thread.join()
        rate_bps = cluster.topology.shape.host_rate_bps
        return max(abs((after[port] - before[port]) * 8 / took_s / rate_bps - 1) for port in after)


def _ring(cluster: Cluster) -> list[tuple[str, str]]:
    hosts = [host.name for host in cluster.topology.hosts]
    return list(zip(hosts, hosts[1:] + hosts[:1], strict=True))


def _flow(cluster: Cluster, host: str, peer: str, end: float) -> threading.Thread:
    listener = cluster.socket_in(peer, socket.AF_INET, socket.SOCK_STREAM)
    sender = cluster.socket_in(host, socket.AF_INET, socket.SOCK_STREAM)
    with listener:
        listener.bind((cluster.address(peer, "eth0"), 0))
        listener.listen()
        sender.bind((cluster.address(host, "eth0"), 0))
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()

    def receive() -> None:
        buffer = bytearray(1 << 20)
        while receiver.recv_into(buffer):
            pass

    def send() -> None:
        reading = threading.Thread(target=receive)
        reading.start()
        data = bytes(1 << 18)
        while time.monotonic() < end:
            sender.send(data)
        sender.shutdown(socket.SHUT_RDWR)
        reading.join()
        sender.close()
        receiver.close()

    return threading.Thread(target=send)


def _sent(cluster: Cluster) -> dict[str, int]:
    leaf = next(node for node in status(cluster) if node.node == "leaf1")
    return {port.port: port.sent_bytes for port in leaf.ports if port.peer.startswith("port:")}
