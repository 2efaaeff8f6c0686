"""Programs that are not ours read what the lab's switches send, and find the same packets and bytes."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.lab.flows import Collector, collecting, transfer, wait_for

from leadline.lab.realise.cluster import Cluster
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.telemetry.plan import read_plan
from leadline.lab.topology import load
from leadline.wire.sflow import headers as sflow_headers

pytestmark = pytest.mark.senders
PROGRAMS = ("sfcapd", "nfdump", "sfacctd")
RATE = 20


@contextlib.contextmanager
def running(command: list[str], log: Path, ends_with: signal.Signals) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.send_signal(ends_with)
            process.wait(15)


def bound(port: int) -> bool:
    lines = Path("/proc/self/net/udp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") for line in lines)


def by_nfdump(captured: Path) -> tuple[int, int]:
    told = subprocess.run(["nfdump", "-R", str(captured), "-I"], capture_output=True, text=True, check=True).stdout
    counts = dict(line.split(": ") for line in told.splitlines() if ": " in line)
    return int(counts["Packets"]), int(counts["Bytes"])


def by_sfacctd(printed: Path) -> tuple[int, int]:
    if not printed.exists():
        return 0, 0
    found = [row for row in csv.DictReader(printed.read_text().splitlines()) if row["PACKETS"] != "PACKETS"]
    return sum(int(row["PACKETS"]) for row in found), sum(int(row["BYTES"]) for row in found)


def settle(collector: Collector, quiet_s: float = 2.0) -> None:
    """Wait until no more datagrams come; the sampler is the last to get a busy machine's CPU."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < quiet_s:
        if len(collector.got) != seen:
            seen, since = len(collector.got), time.monotonic()
        time.sleep(0.05)


@pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason=f"needs {', '.join(PROGRAMS)} from Debian")
def test_nfdump_and_pmacct_find_the_same_bytes(tmp_path: Path, lab_name: str) -> None:
    captured, printed = tmp_path / "captured", tmp_path / "printed.csv"
    captured.mkdir()
    ports = [20_000 + os.getpid() % 20_000 + each for each in (0, 1)]
    (tmp_path / "sfacctd.conf").write_text(
        f"daemonize: false\nsfacctd_ip: 127.0.0.1\nsfacctd_port: {ports[1]}\nsfacctd_renormalize: true\n"
        "plugins: print[a]\naggregate[a]: src_host, dst_host\nprint_output[a]: csv\n"
        f"print_output_file[a]: {printed}\nprint_output_file_append[a]: true\nprint_refresh_time[a]: 1\n"
    )
    with (
        collecting() as collector,
        Cluster(load("tiny"), lab_name) as cluster,
        running(
            ["sfcapd", "-b", "127.0.0.1", "-p", str(ports[0]), "-w", str(captured), "-t", "2"],
            tmp_path / "sfcapd.log",
            signal.SIGTERM,
        ),
        running(["sfacctd", "-f", str(tmp_path / "sfacctd.conf")], tmp_path / "sfacctd.log", signal.SIGINT),
    ):
        wait_for("sfcapd and sfacctd", lambda: all(map(bound, ports)))
        collectors = tuple(("127.0.0.1", port) for port in (collector.port, *ports))
        telemetry = Telemetry(
            cluster, TelemetryConfig(collectors=collectors, sampling_rate=RATE, lldp=False, exporters=False)
        )
        telemetry.start()
        try:
            transfer(cluster, "h1", "h2", 20_000_000)
            settle(collector)
        finally:
            telemetry.stop()
        flows = [collector.of(switch.sflow)[0].flows for switch in read_plan(cluster.state).switches]
        sampled = np.concatenate(flows)
        expected = (len(sampled) * RATE, int(sampled[:, sflow_headers.FRAME_BYTES].sum()) * RATE)
        assert expected[0] > 500 * RATE  # of a busy machine frames are fewer and larger
        wait_for("sfacctd", lambda: by_sfacctd(printed) == expected, 15)
    assert by_nfdump(captured) == expected
