"""Clocks of one host against another's over the same virtual Ethernet: chrony, ptp4l and our prober, one after another.

The true difference is 0 (one kernel clock), so what each says is its error. None of them touches the machine's clock:
chronyd runs with -x, where what it would correct is its own `System time`; ptp4l runs free and says the offset of each
exchange, once a second (it says no more). What its servo would have made of these is computed, and the better of both
counts. chrony asks 16 times a second, and measures delays with stamps of the kernel as the other two do.
"""

from __future__ import annotations

import contextlib
import queue
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.clock_parts.hosts import Hosts, ended
from leadline.host.mesh.commands import Options, Peer
from leadline.host.mesh.lines import Edge, Line, Ready
from leadline.host.mesh.prober import Prober, usable_program
from leadline.model.errors import WorldError

Errors = NDArray[np.float64]
SETTLE_S = 15.0  # before anything counts: chrony needs some 100 exchanges, the prober a window
EVERY_S = 0.25
LATENCY_S = 0.15  # until a line is used: the way of its rows
KEY = b"bench.clock only"
PORT = 8446
CHRONY_SERVER = "local stratum 1\nallow 10.73.0.0/24\n"
CHRONY_CLIENT = "server {address} minpoll -4 maxpoll -4 xleave\nallow 127.0.0.1\n"
PTP = """[global]
twoStepFlag 1
free_running 1
time_stamping software
network_transport UDPv4
delay_mechanism E2E
logSyncInterval 0
logMinDelayReqInterval -4
logAnnounceInterval -1
summary_interval -4
freq_est_interval 0
uds_address {uds}
"""
# Of its servo with software stamps: corrections a second, and their sum. Source: linuxptp, pi.c, SWTS_KP_SCALE.
SERVO_KP, SERVO_KI, SERVO_S = 0.1, 0.001, 1.0
PTP_OFFSET = re.compile(r"master offset\s+(-?\d+)")


def chrony(hosts: Hosts, folder: Path, seconds: float) -> Errors:
    """What chronyd on host 1 thinks it is off from host 0, ns, four times a second. Errors: WorldError."""
    if not shutil.which("chronyd") or not shutil.which("chronyc"):
        raise WorldError("needs chronyd and chronyc (Debian: chrony)")
    running, control = [], folder / "chronyc.sock"
    try:
        for host, text in ((0, CHRONY_SERVER), (1, CHRONY_CLIENT.format(address=hosts.addresses[0]))):
            config = folder / f"chrony{host}.conf"
            socket = control if host else folder / "server.sock"
            config.write_text(
                f"{text}pidfile {folder}/chrony{host}.pid\ncmdport 0\nbindcmdaddress {socket}\nuser root\n"
            )
            command = hosts.command(host, ["chronyd", "-x", "-d", "-f", str(config)])
            with (folder / f"chrony{host}.log").open("wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
        time.sleep(SETTLE_S)
        found, end = [], time.monotonic() + seconds
        ask = ["chronyc", "-c", "-h", str(control), "tracking"]
        while time.monotonic() < end:
            said = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=5).stdout.split(",")
            if len(said) != 14 or said[13].strip() == "Not synchronised":
                raise WorldError(f"chronyd did not synchronise: {said}")
            found.append(float(said[4]) * 1e9)
            time.sleep(EVERY_S)
        return np.array(found)
    finally:
        ended(running)


def ptp4l(hosts: Hosts, folder: Path, seconds: float) -> Errors:
    """Offsets that ptp4l on host 1 says of host 0, ns, or what its servo makes of them. Errors: WorldError."""
    if not shutil.which("ptp4l"):
        raise WorldError("needs ptp4l (Debian: linuxptp)")
    running, log_path = [], folder / "ptp1.log"
    try:
        for host in (0, 1):
            config = folder / f"ptp{host}.conf"
            config.write_text(PTP.format(uds=folder / f"ptp{host}.sock") + ("slaveOnly 1\n" if host else ""))
            command = hosts.command(host, ["ptp4l", "-i", "eth0", "-f", str(config), "-m", "-q"])
            with (folder / f"ptp{host}.log").open("wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
        time.sleep(SETTLE_S)
        before = len(PTP_OFFSET.findall(log_path.read_text()))
        time.sleep(seconds)
        text = log_path.read_text()
        every = np.array([float(each) for each in PTP_OFFSET.findall(text)])
        if len(every) - before < seconds / 2:
            raise WorldError(f"ptp4l said {len(every) - before} offsets in {seconds:g} s: {text[-200:]!r}")
        return min(every[before:], steered(every)[before:], key=p99)
    finally:
        ended(running)


def prober(hosts: Hosts, folder: Path, seconds: float) -> Errors:
    """How far off host 1's clock is by the newest line of the edge, at the times at which lines are used, ns.

    No filter over windows and no mesh: one edge alone, as the other two have it.
    """
    program = str(usable_program())
    heard: queue.SimpleQueue[tuple[int, Line]] = queue.SimpleQueue()
    probers = [
        Prober(
            Options(f"h{host}", host + 1, KEY, PORT, report_ms=EVERY_S * 1e3),
            lambda line, host=host: heard.put((host, line)),  # type: ignore[misc]
            hosts.command(host, [program]),
        )
        for host in (0, 1)
    ]
    try:
        for host, each in enumerate(probers):
            other = 1 - host
            each.set_peers([Peer(other + 1, f"h{other}", hosts.addresses[other], PORT, host == 0)])
            each.start()
        base_ns, found, begin = [0, 0], [], time.monotonic() + SETTLE_S
        while time.monotonic() < begin + seconds:
            with contextlib.suppress(queue.Empty):
                host, line = heard.get(timeout=1.0)
                if isinstance(line, Ready):
                    base_ns[host] = line.base_ns
                elif isinstance(line, Edge) and line.fit is not None and time.monotonic() >= begin:
                    ages_s = LATENCY_S + EVERY_S * (np.arange(4) + 0.5) / 4
                    found += list(line.fit.offset_ns - (base_ns[1] - base_ns[0]) + line.fit.rate_ppb * ages_s)
        if not found:
            raise WorldError("the prober told no line")
        return np.array(found)
    finally:
        for each in probers:
            each.stop()


def steered(offset_K: Errors) -> Errors:
    """What a clock would be off that the servo of ptp4l steers by these offsets of a clock that is right, ns."""
    error, drift, found = 0.0, 0.0, np.zeros(len(offset_K))
    for step, offset in enumerate(offset_K.tolist()):
        drift += SERVO_KI * (error + offset)
        error -= (SERVO_KP * (error + offset) + drift) * SERVO_S
        found[step] = error
    return found


def p99(errors: Errors) -> float:
    """The 99th percentile of the absolute error, ns."""
    return float(np.percentile(np.abs(errors), 99))
