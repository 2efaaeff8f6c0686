"""The telemetry of one lab, in one process for all its switches, and one small one per host for its exporters.

    python -m leadline.lab.telemetry.main --state DIR        DIR holds telemetry.json, see `plan`

    NFLOG of each switch ---> sFlow agent of the switch ---> UDP from 127.77.0.<n>
    rtnetlink of each switch -+--> sFlow counter samples, trees of files, exporter page 127.79.0.<n>:9100
    rtnetlink, TCP of each host ---> trees of files
    /dev/kmsg ---> <state>/hosts/<h>/kmsg

One loop, nothing runs between events and timers: the training beside it needs the CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from leadline.lab.telemetry.exporters import NodePorts, serve_host
from leadline.lab.telemetry.http_pages import PageServer
from leadline.lab.telemetry.nodes import HostTelemetry, KernelLog, SwitchTelemetry
from leadline.lab.telemetry.plan import (
    NODE_PORT,
    READY,
    STATUS,
    Plan,
    PlannedNode,
    in_slot,
    read_plan,
    scrape_targets,
    sflow_senders,
    write_json,
)
from leadline.model.errors import LeadlineError, WorldError

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
FIRST_COUNTERS_S = 1.5  # a collector looks at our list of senders once a second: before, it knows none of them
REVIVE_EVERY_S = 2.0
_FILES_MAX = 65536
_FIRST_FILES = 4096  # five files a node
_SLOTS, _CLAIM_PORT = 250, 17701  # not 6343: a collector may have that on every address
_libc = ctypes.CDLL(None, use_errno=True)


class Timers:
    """Deeds that come again every so many seconds; spread out, so that not all of them fall into one moment."""

    def __init__(self) -> None:
        self._due: list[tuple[float, float, Callable[[], None]]] = []

    def every(self, seconds: float, deed: Callable[[], None], share: float = 0.0, after_s: float = 0.0) -> None:
        """Do `deed` every `seconds`, first after `after_s` and the part `share` of them."""
        self._due.append((time.monotonic() + after_s + seconds * share, seconds, deed))

    def wait_s(self) -> float:
        """Until the next deed."""
        return max(0.0, min((due for due, _, _ in self._due), default=1.0) - time.monotonic())

    def run(self) -> None:
        """Do what is due. A deed that fails for the world's sake is told and comes again."""
        now = time.monotonic()
        for place, (due, seconds, deed) in enumerate(self._due):
            if due > now:
                continue
            try:
                deed()
            except (LeadlineError, OSError) as error:
                print(f"telemetry: {error}", file=sys.stderr, flush=True)
            self._due[place] = (max(due + seconds, now), seconds, deed)


def run(state: Path) -> None:
    """Do it until SIGTERM. Errors: WorldError, OSError, DataError before anything is told to be ready."""
    plan, claim = claimed(read_plan(state))
    plan.write(state)
    children = fork_exporters(state, plan) if plan.config.exporters else {}
    _raise_file_limit()
    loop = selectors.DefaultSelector()
    stopping = _stop_on_signal(loop)
    switches = [SwitchTelemetry(plan, node, state, loop) for node in plan.switches]
    hosts = [HostTelemetry(node, state) for node in plan.hosts]
    if plan.config.kernel_log:
        KernelLog(plan, state, loop)
    if plan.config.exporters:
        for each in switches:
            ports = NodePorts(each.node, each.sockets, overlay=each.overlay)
            PageServer(loop, each.node.address, NODE_PORT, ports.page)
    timers = _timers(plan, switches, hosts)
    timers.every(5.0, partial(_write_status, state, switches, children))
    if children:
        tell = partial(_write_status, state, switches, children)
        timers.every(REVIVE_EVERY_S, partial(_revive_exporters, state, plan, children, tell), after_s=REVIVE_EVERY_S)
    _announce(state, plan, switches, children)
    while not stopping:
        timers.run()
        for key, _ in loop.select(timers.wait_s()):
            key.data()
    for key, _ in loop.select(0):  # what the kernel has for us already
        key.data()
    claim.close()
    for pid in children.values():
        os.kill(pid, signal.SIGKILL)  # one of them may be stopped, and would never hear of SIGTERM


def claimed(plan: Plan) -> tuple[Plan, socket.socket]:
    """The plan with addresses that no other lab of this machine uses, and the socket that holds the claim to them.

    Errors: WorldError if all slots are taken.
    """
    for slot in range(_SLOTS):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind((f"127.77.{slot}.0", _CLAIM_PORT))
            for second in (78, 79):  # who has these without a claim is no lab, but has them all the same
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((f"127.{second}.{slot}.1", NODE_PORT))
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        return in_slot(plan, slot), claim
    raise WorldError(
        f"all {_SLOTS} slots of loopback addresses 127.77-79.<slot>.* are taken; does a node_exporter listen on "
        f"every address of port {NODE_PORT}?"
    )


def _timers(plan: Plan, switches: list[SwitchTelemetry], hosts: list[HostTelemetry]) -> Timers:
    timers = Timers()
    for place, switch in enumerate(switches):
        timers.every(plan.config.counters_every_s, switch.count, place / len(switches), FIRST_COUNTERS_S)
    trees = [*(switch.grow_tree for switch in switches), *(host.grow_tree for host in hosts)]
    for place, deed in enumerate(trees):
        timers.every(plan.config.trees_every_s, deed, place / len(trees))
    return timers


def _announce(state: Path, plan: Plan, switches: list[SwitchTelemetry], children: dict[str, int]) -> None:
    write_json(state / "sflow_senders.json", sflow_senders(plan, {each.node.name: each.indexes for each in switches}))
    if plan.config.exporters:
        for name, targets in scrape_targets(plan).items():
            write_json(state / "scrape" / name, targets)
    _write_status(state, switches, children)
    (state / READY).write_text(f"{os.getpid()}\n")


def _write_status(state: Path, switches: list[SwitchTelemetry], children: dict[str, int]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    write_json(
        state / STATUS,
        {
            "pid": os.getpid(),
            "exporters": children,
            "cpu_s": round(used.ru_utime + used.ru_stime, 3),
            "rss_mb": round(used.ru_maxrss / 1024, 1),
            "switches": {
                each.node.name: {
                    "samples": each.agent.samples,
                    "lost": each.agent.lost,
                    "discards": each.agent.discards,
                    "datagrams": each.agent.agent.sequence,
                    "unsent": each.unsent,
                    "withheld": each.withheld,
                }
                for each in switches
            },
        },
    )


def fork_exporters(state: Path, plan: Plan) -> dict[str, int]:
    """One process per host, as copies of this one: they share its memory. Returns process numbers by host."""
    return {host.name: _fork_exporter(state, host) for host in plan.hosts}


def _fork_exporter(state: Path, host: PlannedNode) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, _FIRST_FILES)  # one that is started again must not hold the sockets of the switches
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _libc.prctl(_PR_SET_NAME, f"exporter-{host.name}"[:15].encode(), 0, 0, 0)
        if os.getppid() == parent:  # or it died before we asked to die with it
            serve_host(state, host)
    except BaseException as error:
        print(f"exporter of {host.name}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _revive_exporters(state: Path, plan: Plan, children: dict[str, int], tell: Callable[[], None]) -> None:
    """Start exporters again that have ended, as a site's service manager does; `tell` their new numbers at once."""
    for host in plan.hosts:
        ended, _ = os.waitpid(children[host.name], os.WNOHANG)
        if ended:
            children[host.name] = _fork_exporter(state, host)
            print(f"telemetry: the exporter of {host.name} had ended and is started again", file=sys.stderr, flush=True)
            tell()  # a fault would take hold of a process that is gone, or that is somebody else's by now


def _stop_on_signal(loop: selectors.BaseSelector) -> list[int]:
    """A list that is empty until SIGTERM or SIGINT comes; the loop wakes up for it."""
    stopping: list[int] = []
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stopping.append(got))
    loop.register(reader, selectors.EVENT_READ, partial(reader.recv, 64))
    _KEPT.append(writer)
    return stopping


_KEPT: list[socket.socket] = []  # the signal module keeps the number of the socket, not the socket


def _raise_file_limit() -> None:
    """Five files per node are more than the usual 1,024 for a large lab."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m leadline.lab.telemetry.main", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="directory of the lab's state")
    arguments = parser.parse_args()
    try:
        run(arguments.state)
    except (LeadlineError, OSError, json.JSONDecodeError) as error:
        sys.exit(f"telemetry: {error}")


if __name__ == "__main__":
    main()
