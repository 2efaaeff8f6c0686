"""What the probe mesh costs a host: real agents with real probers, in network namespaces on one bridge.

    python -m bench.prober [--json] [--hosts 11] [--seconds 30] [--python]

Each host has an agent whose only source is the mesh. A double of the server has a real roster, which makes each host
the neighbour of ten others where there are eleven, and takes rows. When the mesh has settled:

    cpu_share         CPU of a host's prober, and of its agent less what an agent without the mesh takes, as a share of
                      one core: the median of hosts. `prober_cpu_share` and `agent_cpu_share` are its two parts
    mbit_per_s        that a host's probes take on the way out, with the headers of UDP and IPv4
    card_mbit_per_s   all that its card sends: Ethernet's headers, and rows for the server

`--python` measures the prober in Python, which sends 10 pairs a second to each neighbour at most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.clock_parts.hosts import ROOT, Hosts, ended, missing
from bench.figures import Figure, conditions, tell
from leadline.host.mesh.packet import PACKET_BYTES
from leadline.host.mesh.prober import usable_program
from leadline.model.errors import WorldError

BEGUN_S = 60.0  # until all have a prober, which a busy machine delays
SETTLE_S = 15.0  # until all know all
PORT_MBIT, SERVER_PORT, NEIGHBOURS = 1000, 8440, 10
HEADERS_BYTES = 28  # of UDP and IPv4
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """What a process has taken so far, s; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def child_of(pid: int) -> int:
    """Its prober; 0: it has none."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for task in Path(f"/proc/{pid}/task").iterdir():  # a thread started it
        words += (task / "children").read_text().split()
    return int(words[0]) if words else 0


def probes_sent(hosts: Hosts, host: int) -> int:
    """Datagrams that its namespace has sent by UDP: nobody but the prober does."""
    text = subprocess.run(
        hosts.command(host, ["cat", "/proc/net/snmp"]), check=True, capture_output=True, text=True
    ).stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    return int(values[names.index("OutDatagrams")])


def measured(
    hosts: Hosts, folder: Path, seconds: float, settle_s: float, mesh: bool, environ: dict[str, str]
) -> dict[str, list[float]]:
    """By quantity, of each host: CPU shares of agent and prober, bits per second. Errors: WorldError."""
    server = f"http://{hosts.server_address}:{SERVER_PORT}"
    running = [
        subprocess.Popen(
            hosts.command(
                -1, [sys.executable, "-m", "bench.clock_parts.double", hosts.server_address, str(SERVER_PORT)]
            ),
            cwd=ROOT,
        )
    ]
    time.sleep(1.0)
    try:
        agents = []
        for host, name in enumerate(hosts.names):
            command = [sys.executable, "-m", "leadline.host.main", "--server", server, "--host", name]
            command += [
                "--spool",
                str(folder / f"{name}-{mesh}"),
                "--sources",
                "mesh",
                "--mesh" if mesh else "--no-mesh",
            ]
            with (folder / f"{name}.log").open("ab") as log:
                agents.append(subprocess.Popen(hosts.command(host, command), env=environ, cwd=ROOT, stderr=log))
        running += agents
        pids = [each.pid for each in agents]  # `ip netns exec` becomes the program
        end = time.monotonic() + BEGUN_S
        while mesh and not all(map(child_of, pids)) and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(settle_s)
        probers = [child_of(pid) for pid in pids]
        if mesh and not all(probers):
            raise WorldError(f"no prober began on {probers.count(0)} of {len(pids)} hosts; {_last_words(folder)}")
        of = [range(len(pids))] * 4
        before = _read(hosts, pids, probers)
        began = time.monotonic()
        time.sleep(seconds)
        took_s, after = time.monotonic() - began, _read(hosts, pids, probers)
        names = ("agent", "prober", "probes", "card_bytes")
        return {
            name: [(after[name][at] - before[name][at]) / took_s for at in each]
            for name, each in zip(names, of, strict=True)
        }
    finally:
        ended(running)


def _read(hosts: Hosts, pids: Sequence[int], probers: Sequence[int]) -> dict[str, list[float]]:
    places = range(len(pids))
    return {
        "agent": [cpu_s(each) for each in pids],
        "prober": [cpu_s(each) for each in probers],
        "probes": [float(probes_sent(hosts, each)) for each in places],
        "card_bytes": [float(hosts.sent_bytes(each)) for each in places],
    }


def _last_words(folder: Path) -> str:
    return next((path.read_text().strip().splitlines()[-1] for path in folder.glob("*.log") if path.stat().st_size), "")


def figures(count: int, seconds: float, settle_s: float, in_python: bool) -> list[Figure]:
    """All of them."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    environ["LEADLINE_PROBER"] = "/dev/null/none" if in_python else str(usable_program())
    with Hosts(count, PORT_MBIT) as hosts, tempfile.TemporaryDirectory(prefix="leadline-bench-") as told:
        without = measured(hosts, Path(told), seconds, settle_s, False, environ)
        found = measured(hosts, Path(told), seconds, settle_s, True, environ)
    agent = statistics.median(found["agent"]) - statistics.median(without["agent"])
    prober, probes = statistics.median(found["prober"]), statistics.median(found["probes"])
    whole = count == NEIGHBOURS + 1 and not in_python  # else it is another question than the target's
    return [
        Figure("cpu_share", agent + prober, "ratio", 0.01 if whole else None, better="lower"),
        Figure("prober_cpu_share", prober, "ratio"),
        Figure("agent_cpu_share", agent, "ratio"),
        Figure(
            "mbit_per_s", probes * (PACKET_BYTES + HEADERS_BYTES) * 8 / 1e6, "Mbit/s", 1.0 if whole else None, "lower"
        ),
        Figure("card_mbit_per_s", statistics.median(found["card_bytes"]) * 8 / 1e6, "Mbit/s"),
        Figure("pairs_per_s", probes / 2 / (count - 1), "1/s to each neighbour"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=NEIGHBOURS + 1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--settle", type=float, default=SETTLE_S, metavar="SECONDS", help="before they are counted")
    parser.add_argument("--python", action="store_true")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(argv)
    under = conditions(hosts=told.hosts, seconds=told.seconds, settle=told.settle, link="veth, one kernel")
    why = missing()
    try:
        found = figures(told.hosts, told.seconds, told.settle, told.python) if not why else []
    except WorldError as error:
        why = str(error)
    if why:
        found = [
            Figure(name, None, unit, reason=why) for name, unit in (("cpu_share", "ratio"), ("mbit_per_s", "Mbit/s"))
        ]
    tell("prober", under, found, told.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
