"""One rank of the `serve` job: a server with its model, or a client that asks it.

    RANK=0 WORLD_SIZE=2 python -m leadline.lab.workloads.serve.rank server --listen 127.0.0.1:29600 &
    RANK=1 WORLD_SIZE=2 python -m leadline.lab.workloads.serve.rank client --servers 127.0.0.1:29600 --rate 50

Each second is a window, told as a step of the event ring (samples: requests answered; metrics: latency_ms_p50,
latency_ms_p99, queue, batch_size, and what was lost by reason) and as a line of the log. Exit code 0 after SIGTERM or
--seconds, 1 if it failed. Control file: `data_delay_s` (a server: every batch takes so much longer; a client: every
request leaves so much later), `allocate_mb_per_step` (per window).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.rank_ring import Announced, Edge, Member, member_from, open_ring
from leadline.lab.workloads.serve.batching import Policy, Window, percentile
from leadline.lab.workloads.serve.client import RATE_MAX, Load
from leadline.lab.workloads.serve.server import Model, Server
from leadline.lab.workloads.serve.wire import PAYLOAD_MAX
from leadline.model.errors import LeadlineError
from leadline.model.ids import flow_id

RECORDS = 4096  # some 5 per window: a quarter of an hour
STRINGS_BYTES = 32 * 1024
TCP = socket.IPPROTO_TCP


class Teller:
    """What this rank says: to its event ring, to its log."""

    def __init__(self, member: Member, role: str, control: Control) -> None:
        self._member, self._role, self._control = member, role, control
        self._ring = open_ring(os.environ.get("LEADLINE_RING_DIR"), member, RECORDS, STRINGS_BYTES)
        self._announced = Announced(self._ring)
        self._announced.tell(member.edges())
        self._hog: list[bytearray] = []
        self.lost: Counter[str] = Counter()
        self.answered = 0

    def connected(self, connection: socket.socket) -> None:
        """Announce the flows of a connection, out and back."""
        self._announced.tell(flow_edges(self._member.entity, connection.getsockname(), connection.getpeername()))

    def window(self, window: Window, end_ns: int) -> None:
        """Tell a window that has passed. A server that was asked nothing yet says nothing."""
        self.answered += len(window.latencies_ms)
        self.lost.update(window.counts())
        self._grow()
        if not self.answered and not self.lost:
            return
        metrics = window.metrics()
        if self._ring is not None:
            self._ring.step(
                window.number,
                window.start_ns,
                end_ns,
                forward_ns=window.compute_ns or None,
                samples=float(len(window.latencies_ms)),
                metrics=metrics,
            )
        seconds = round((end_ns - window.start_ns) / 1e9, 4)
        answered = len(window.latencies_ms)
        self.say("window", number=window.number, answered=answered, **metrics, seconds=seconds, end_ns=end_ns)

    def say(self, event: str, **values: object) -> None:
        """A line of the log."""
        told = {"rank": self._member.rank, "role": self._role, "event": event, **values}
        print(json.dumps(told), flush=True)

    def end(self, latencies_ms: list[float]) -> None:
        """The last words: figures of the whole run, as far as latencies were kept."""
        ordered = sorted(latencies_ms)
        figures = {f"latency_ms_p{p}": round(percentile(ordered, p / 100), 3) for p in (50, 99) if ordered}
        self.say("end", answered=self.answered, **figures, lost=dict(self.lost))
        self._announced.end()
        if self._ring is not None:
            self._ring.close()

    def _grow(self) -> None:
        megabytes = self._control.number("allocate_mb_per_step")
        if megabytes > 0:
            self._hog.append(bytearray(b"\x01") * int(megabytes * 1e6))


def flow_edges(rank: str, local: tuple[str, int], peer: tuple[str, int]) -> list[Edge]:
    """The flows of one TCP connection, out and in, as owned by a rank."""
    out = flow_id(TCP, local[0], peer[0], local[1], peer[1])
    back = flow_id(TCP, peer[0], local[0], peer[1], local[1])
    return [(f"flow:{flow:032x}", "owns", rank) for flow in (out, back)]


def endpoint(text: str) -> tuple[str, int]:
    """`10.1.3.1:29600`. Errors: ArgumentTypeError."""
    address, _, port = text.rpartition(":")
    if not address or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise argparse.ArgumentTypeError(f"expected ADDRESS:PORT, got {text!r}")
    return address, int(port)


def bounded(least: float, most: float) -> Callable[[str], float]:
    """A number between two others, both allowed."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected a number from {least:g} to {most:g}, got {text!r}")
        return value

    return number


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="serve.rank", description="One rank of the lab's batched inference.")
    roles = parser.add_subparsers(dest="role", required=True)
    server, client = roles.add_parser("server"), roles.add_parser("client")
    server.add_argument("--listen", type=endpoint, required=True, metavar="ADDRESS:PORT")
    server.add_argument("--batch-max", type=int, default=8, help="requests of a batch (default 8)")
    server.add_argument(
        "--batch-wait-ms", type=bounded(0, 10_000), default=5.0, help="a request waits no longer for more"
    )
    server.add_argument("--queue-max", type=int, default=64, help="requests that wait; one more is shed (default 64)")
    server.add_argument("--device-ms", type=bounded(0, 60_000), default=10.0, help="least time of a batch (default 10)")
    server.add_argument("--response-bytes", type=int, default=1024)
    server.add_argument("--hidden", type=int, default=256)
    client.add_argument("--servers", type=lambda text: [endpoint(each) for each in text.split(",")], required=True)
    client.add_argument("--rate", type=bounded(0.01, RATE_MAX), default=20.0, help="requests per second (default 20)")
    client.add_argument("--timeout", type=bounded(0.01, 600), default=5.0, help="seconds until a request is given up")
    for each in (server, client):
        each.add_argument("--request-bytes", type=int, default=4096)
        each.add_argument("--seconds", type=bounded(0, 1e9), default=0.0, help="0 (default): until told to stop")
        each.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    if given.role == "server" and not 0 < given.batch_max <= given.queue_max:
        parser.error(f"--batch-max must be 1 to --queue-max, got {given.batch_max} and {given.queue_max}")
    for size in (given.request_bytes, getattr(given, "response_bytes", 1)):
        if not 0 < size <= PAYLOAD_MAX:
            parser.error(f"a payload has 1 to {PAYLOAD_MAX} bytes, got {size}")
    return given


def loaded(given: argparse.Namespace) -> Model:
    """The model, warmed up."""
    import torch  # here: a client does without it

    from leadline.lab.workloads.serve.model import Scorer

    torch.set_num_threads(1)
    scorer = Scorer(given.request_bytes, given.response_bytes, given.hidden, given.seed)
    scorer.answer([b""] * given.batch_max)
    return scorer.answer


async def serve(given: argparse.Namespace, teller: Teller, control: Control, stop: asyncio.Event) -> list[float]:
    """Be a server until `stop`."""
    policy = Policy(given.batch_max, round(given.batch_wait_ms * 1e6), given.queue_max)
    server = Server(policy, loaded(given), given.device_ms / 1e3, control, teller.window)
    address, port = given.listen
    await server.run(address, port, stop, lambda port: teller.say("listening", port=port))
    return []


async def ask(given: argparse.Namespace, teller: Teller, control: Control, stop: asyncio.Event) -> list[float]:
    """Be a client until `stop`; the latencies that were kept."""
    # Every client has times of its own, the same in every run with this seed.
    seed = random.Random(f"{given.seed}/{os.environ.get('RANK', '0')}").getrandbits(63)
    load = Load(
        given.servers, given.rate, given.request_bytes, given.timeout, seed, control, teller.window, teller.connected
    )
    await load.run(stop)
    return list(load.latencies_ms)


async def run(given: argparse.Namespace) -> None:
    """The whole life of the rank."""
    control = Control(os.environ.get("LEADLINE_CONTROL"))
    control.changed()
    teller = Teller(member_from(os.environ), given.role, control)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    if given.seconds:
        loop.call_later(given.seconds, stop.set)
    latencies_ms: list[float] = []
    try:
        latencies_ms = await (serve if given.role == "server" else ask)(given, teller, control, stop)
    finally:
        teller.end(latencies_ms)


def main() -> None:
    """Serve or ask, and leave with an honest exit code."""
    given = arguments()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run(given))
    except (LeadlineError, OSError) as error:
        print(f"rank {os.environ.get('RANK')} ends: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
