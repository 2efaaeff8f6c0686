"""One rank of the `rings` benchmark: sweeps sizes of collectives over TCP or RoCEv2 framing, checks the data, times it.

    RANK=0 WORLD_SIZE=2 python -m leadline.lab.workloads.rings.rank -b 64K -e 1M &
    RANK=1 WORLD_SIZE=2 python -m leadline.lab.workloads.rings.rank -b 64K -e 1M

Options are nccl-tests' where it has them. Rank 0 prints the table. Every message and collective goes to the event
ring of LEADLINE_RING_DIR; faults speak through LEADLINE_CONTROL: {"data_delay_s": x} comes late to every collective,
{"diverge": true} comes with a buffer of another size.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.rank_ring import Announced, Member, member_from, open_ring
from leadline.lab.workloads.rings import nccl_table
from leadline.lab.workloads.rings.algorithm import OPS, Op, bandwidths, op_named, sizes, usable_count
from leadline.lab.workloads.rings.collectives import Communicator, edges_of
from leadline.lab.workloads.rings.data import DTYPES, pattern, prepare, wrong
from leadline.lab.workloads.rings.job import TRANSPORTS
from leadline.lab.workloads.rings.rendezvous import Meeting
from leadline.lab.workloads.transport.base import SEND, Transport
from leadline.lab.workloads.transport.roce import RoceTransport
from leadline.lab.workloads.transport.tcp import TcpTransport
from leadline.model.errors import LeadlineError
from leadline.wire.ring.writer import RingWriter

RECORDS = 32_768  # 2 MiB. An all-reduce of 8 ranks on 2 channels writes 114: a minute of 4 in a second
STRINGS_BYTES = 128 * 1024  # a flow per edge of 34 bytes: all-to-all of 64 ranks on 8 channels has 1,008 of them
SIZES_MAX = 64
RESULTS_MAX = 10_000  # kept of a job that runs for hours
BUFFER_BYTES_MAX = 1 << 30


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="rings.rank", description="A collectives benchmark in the manner of nccl-tests."
    )
    made.add_argument("--ops", default="all_reduce", help=f"comma-separated: {', '.join(op.name for op in OPS)}")
    made.add_argument("--transport", choices=TRANSPORTS, default="tcp")
    made.add_argument("--channels", type=int, default=2, help="connections and ring orders side by side, 1 to 32")
    made.add_argument("-b", "--minbytes", type=octets, default=octets("64K"))
    made.add_argument("-e", "--maxbytes", type=octets, default=octets("4M"))
    made.add_argument("-f", "--stepfactor", type=float, default=4.0)
    made.add_argument("-n", "--iters", type=int, default=5, help="timed iterations of each size")
    made.add_argument("-w", "--warmup-iters", type=int, default=1)
    made.add_argument("-c", "--check", type=int, choices=(0, 1), default=1, help="check each size's last result")
    made.add_argument("-d", "--datatype", choices=DTYPES, default="float32")
    made.add_argument("-r", "--root", type=int, default=0, help="of the broadcast")
    made.add_argument("--cycles", type=int, default=1, help="sweeps; 0: until --seconds are over")
    made.add_argument("--seconds", type=float, default=600.0, help="no new collective after so long")
    made.add_argument("--pause", type=float, default=0.0, help="seconds between two collectives, as if computing")
    made.add_argument("--timeout", type=float, default=60.0, help="seconds until a collective counts as hung")
    made.add_argument("--address", default="", help="our address, or one per rail: a,b; default that of the interface")
    made.add_argument("--congestion", default="", help="TCP congestion control per socket, e.g. cubic")
    made.add_argument("--json", default="", help="rank 0: write the results there, - for the last line of the output")
    return made


def octets(text: str) -> int:
    """`64K`, `8M`, `1G` or a number. Errors: ArgumentTypeError."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) * factor <= BUFFER_BYTES_MAX:
        raise argparse.ArgumentTypeError(f"expected a size from 1 to 1G such as 64K or 16M, got {text!r}")
    return int(digits) * factor


def checked(options: argparse.Namespace, ranks: int) -> list[Op]:
    """The collectives to run. Errors: SystemExit with what is wrong."""
    try:
        ops = [op_named(name) for name in options.ops.split(",")]
    except KeyError as error:
        parser().error(f"--ops: {error.args[0]}")
    if not 1 <= options.channels <= 32:
        parser().error(f"--channels must be 1 to 32, got {options.channels}")
    if not 0 <= options.root < ranks:
        parser().error(f"--root must be a rank, 0 to {ranks - 1}; got {options.root}")
    if options.minbytes > options.maxbytes or len(_swept(options)) > SIZES_MAX:
        parser().error(f"-b, -e, -f must give 1 to {SIZES_MAX} sizes; got {options.minbytes} to {options.maxbytes}")
    if options.iters < 1 or options.warmup_iters < 0:
        parser().error(f"-n must be at least 1 and -w at least 0; got {options.iters} and {options.warmup_iters}")
    return ops


class Benchmark:
    """One rank's part in the sweep."""

    def __init__(
        self, options: argparse.Namespace, ops: list[Op], member: Member, transport: Transport, meeting: Meeting,
        communicator: Communicator, control: Control,
    ) -> None:  # fmt: skip
        self._options, self._ops, self._member = options, ops, member
        self._transport, self._meeting, self._communicator = transport, meeting, communicator
        self._control = control
        self._end_s = time.monotonic() + options.seconds
        self.results: list[nccl_table.Result] = []  # the last RESULTS_MAX
        self._counted: dict[str, int] = {}

    def sweep(self) -> None:
        """Every collective at every size, as many cycles as were asked for."""
        cycle = 0
        while self._options.cycles == 0 or cycle < self._options.cycles:
            for op in self._ops:
                self._say_head(op)
                for size in _swept(self._options):
                    if not self._together():
                        return
                    self._measure(op, size)
            cycle += 1

    def _together(self) -> bool:
        """A barrier; whether every rank still has time."""
        return all(self._exchange(time.monotonic() < self._end_s))

    def _exchange(self, value: Any) -> list[Any]:
        """Meanwhile the transport goes on: a neighbour may still wait for an acknowledgement of ours."""
        return self._meeting.exchange(value, lambda sockets: self._transport.turn(0.2, sockets))

    def _measure(self, op: Op, size_bytes: int) -> None:
        options, member = self._options, self._member
        item = np.dtype(options.datatype).itemsize
        count = usable_count(op, size_bytes, item, member.ranks)
        if count == 0:
            return
        given = pattern(member.rank, count, options.datatype)
        work = np.empty_like(given)
        times = [self._once(op, work, given) for _ in range(options.warmup_iters + options.iters)]
        bad = wrong(op, work, member.rank, member.ranks, options.root) if options.check else None
        told = self._exchange({"times": times[options.warmup_iters :], "wrong": bad})
        self._keep(op, count, item, told)

    def _once(self, op: Op, work: np.ndarray[Any, np.dtype[Any]], given: np.ndarray[Any, np.dtype[Any]]) -> float:
        """One collective; its time on this rank, seconds. What comes before it is not in the time."""
        prepare(op, given, work, self._member.rank, self._member.ranks)
        self._control.changed()
        self._wait(self._options.pause + self._control.number("data_delay_s"))
        if self._control.settings.get("diverge"):
            work, given = work[: len(work) // 2 + 1], given[: len(given) // 2 + 1]
        begin_ns, end_ns = self._communicator.run(op, work, given, self._options.root)
        return (end_ns - begin_ns) / 1e9

    def _wait(self, seconds: float) -> None:
        """Sleep, but keep acknowledging, as a NIC does while the process computes."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._transport.turn(left)

    def _keep(self, op: Op, count: int, item: int, told: list[dict[str, Any]]) -> None:
        ranks = self._member.ranks
        mean_s = statistics.fmean(value for each in told for value in each["times"])
        slowest = [max(values) for values in zip(*(each["times"] for each in told), strict=True)]
        algorithm, bus = bandwidths(op, count * item, mean_s, ranks)
        self.results.append(
            nccl_table.Result(
                op=op.name,
                size_bytes=count * item,
                count=count // ranks if op.per_rank_count else count,
                dtype=self._options.datatype,
                redop="sum" if op.name in ("all_reduce", "reduce_scatter") else "none",
                root=self._options.root if op.name == "broadcast" else -1,
                time_s=mean_s,
                time_s_p50=statistics.median(slowest),
                time_s_max=max(slowest),
                algbw_bytes_per_s=algorithm,
                busbw_bytes_per_s=bus,
                wrong=sum(each["wrong"] for each in told) if self._options.check else None,
            )
        )
        del self.results[:-RESULTS_MAX]
        if self._member.rank == 0:
            print(nccl_table.line(self.results[-1]), flush=True)

    def _say_head(self, op: Op) -> None:
        if self._member.rank == 0:
            options = self._options
            print(
                nccl_table.head(
                    op.name, self._transport.name, self._member.ranks, options.channels, options.iters,
                    options.warmup_iters,
                ),
                flush=True,
            )  # fmt: skip

    def finish(self) -> int:
        """What all ranks counted, the foot of the table, the JSON. Returns the exit code."""
        reports = self._exchange(self._transport.report())
        if self._member.rank:
            return 0
        print(nccl_table.foot(self.results))
        counted = {name: sum(report.get(name, 0) for report in reports) for name in sorted(set().union(*reports))}
        print("# " + ", ".join(f"{name} {value}" for name, value in counted.items()), flush=True)
        self._counted = counted
        return 1 if any(result.wrong for result in self.results) else 0

    def write(self) -> None:
        """Rank 0: the results so far as JSON, where it was asked for."""
        if self._member.rank == 0 and self._options.json:
            about = {
                "job": self._member.job, "ranks": self._member.ranks, "channels": self._options.channels,
                "transport": self._transport.name, "in_place": True, "counters": self._counted,
            }  # fmt: skip
            _write_json(self._options.json, nccl_table.as_json(self.results, about))


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """The whole rank. Errors: LeadlineError."""
    member = member_from(environ)
    ops = checked(options, member.ranks)
    transport = _transport(options, member, environ)
    ring = open_ring(environ.get("LEADLINE_RING_DIR"), member, RECORDS, STRINGS_BYTES)
    announced = Announced(ring)
    try:
        announced.tell(member.edges())
        master = (environ.get("MASTER_ADDR", "127.0.0.1"), int(environ.get("MASTER_PORT", "29500")))
        with Meeting(member.rank, member.ranks, *master, timeout_s=options.timeout) as meeting:
            communicator = _connect(options, ops, member, transport, meeting, ring, announced)
            control = Control(environ.get("LEADLINE_CONTROL"))
            benchmark = Benchmark(options, ops, member, transport, meeting, communicator, control)
            try:
                benchmark.sweep()
                return benchmark.finish()
            finally:
                benchmark.write()  # also when it was told to stop in the middle
    finally:
        transport.close()
        announced.end()
        if ring is not None:
            ring.close()


def _connect(
    options: argparse.Namespace, ops: list[Op], member: Member, transport: Transport, meeting: Meeting,
    ring: RingWriter | None, announced: Announced,
) -> Communicator:  # fmt: skip
    outgoing, incoming = edges_of(ops, member.rank, member.ranks, options.channels)
    told = meeting.exchange({"offer": transport.offer(outgoing, incoming), "start_ns": time.time_ns()})
    transport.connect([each["offer"] for each in told])
    # Numbered by rank 0's start: a job of the same name that runs later counts its collectives from 0 again.
    name = f"{member.job}/0x{told[0]['start_ns']:016x}"
    announced.tell([(member.entity, "member", f"comm:{name}")])
    for flow in transport.flows():
        announced.tell([(f"flow:{flow.flow}", "owns", member.entity)])
        if flow.queue_pair and flow.side != SEND:  # ours: data comes to it
            announced.tell(
                [(f"qp:{flow.queue_pair}", "owns", member.entity), (f"qp:{flow.queue_pair}", "member", f"comm:{name}")]
            )
    return Communicator(
        name, member.rank, member.ranks, options.channels, transport, ring, timeout_s=options.timeout
    )  # fmt: skip


def _transport(options: argparse.Namespace, member: Member, environ: Mapping[str, str]) -> Transport:
    addresses = options.address.split(",") if options.address else [_own_address(environ)]
    if options.transport == "tcp":
        return TcpTransport(member.rank, addresses, options.congestion or None)
    folders = [Path(part) for part in environ.get("LEADLINE_HW_COUNTERS", "").split(os.pathsep) if part]
    return RoceTransport(member.rank, addresses, folders, member.job)


def _own_address(environ: Mapping[str, str]) -> str:
    """The address from which rank 0 is reached. Loopback when it is on this machine."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with probe:
        probe.connect((environ.get("MASTER_ADDR", "127.0.0.1"), 9))  # sends nothing: only chooses a route
        return str(probe.getsockname()[0])


def _swept(options: argparse.Namespace) -> list[int]:
    return sizes(options.minbytes, options.maxbytes, options.stepfactor)


def _write_json(target: str, value: dict[str, Any]) -> None:
    if target == "-":
        print(json.dumps(value), flush=True)
    elif target:
        Path(target).write_text(json.dumps(value, indent=1) + "\n")


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)  # through every `finally`: the ring is closed, the edges end


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 all right, 1 a result was wrong or the network failed, 2 a wrong option."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return run(parser().parse_args(arguments), os.environ)
    except LeadlineError as error:
        print(f"rings_rank: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
