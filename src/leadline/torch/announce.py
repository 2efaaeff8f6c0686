"""A rank says what it is: in which job, on which host and GPU, as which process, with which sockets and versions.

It runs in a daemon thread of its own, which has a ring of its own, so nothing here is in the way of training. Edges
are announced when they begin, and again with their end (`to_ns`) when they stop to hold.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from leadline.model.ids import flow_id
from leadline.torch.identity import Identity
from leadline.torch.rings import Rings
from leadline.torch.run_info import is_connected, run_info
from leadline.torch.sockets import Socket, own_sockets

# Sockets are looked for soon after the start, when the groups connect, then seldom: 2 us per open file.
LOOK_AFTER_S = (0.5, 1.0, 2.0, 5.0)
LOOK_EVERY_S = 10.0
FLOWS_MAX = 800  # two per socket; what the ring's table of strings holds beside the rest
CLOCK_EVERY_S = 10.0  # a pair of both clocks tells later how the realtime clock was stepped

Edge = tuple[str, str, str]  # child, kind, parent


class Announcer:
    """Keeps the edges of this rank. `start()` begins its thread, `stop()` ends it and closes the edges."""

    def __init__(
        self,
        rings: Rings,
        identity: Identity,
        count: Callable[[str], None],
        sockets: Callable[[], Iterable[Socket]] = own_sockets,
    ) -> None:
        self._rings = rings
        self._identity = identity
        self._count = count
        self._sockets = sockets
        self._holding: dict[Edge, int] = {}  # since when
        self._said_run = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to announce."""
        self._thread = threading.Thread(target=self._run, name="leadline-announce", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Close the edges and end the thread."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self._thread = None

    def _run(self) -> None:
        try:
            self.tell(edges_of(self._identity, os.getpid()), time.time_ns())
            waits = [*LOOK_AFTER_S]
            while not self._stopping.wait(waits.pop(0) if waits else LOOK_EVERY_S):
                self.look()
                if is_connected() or not waits:
                    self.tell_run()
            self.tell_run()
            self.tell((), time.time_ns())
        except Exception:
            self._count("hook_error")

    def look(self) -> None:
        """Announce the sockets that came and went, and both clocks."""
        self._rings.of_thread().clock_pair(time.time_ns(), time.monotonic_ns())
        try:
            flows = [edge for one in sorted(self._sockets()) for edge in flow_edges(self._identity, one)]
        except OSError:
            self._count("no_sockets")
            return
        if len(flows) > FLOWS_MAX:
            self._count("flows_limit")
        fixed = edges_of(self._identity, os.getpid())
        self.tell([*fixed, *flows[:FLOWS_MAX]], time.time_ns())

    def tell_run(self) -> None:
        """Say once what the run runs with: when the process group is there, else some seconds after the start."""
        if self._said_run:
            return
        self._said_run = True
        found = run_info(os.environ, self._identity.world_size)
        self._rings.of_thread().event(
            "run-info",
            time.time_ns(),
            f"torch {found['torch']}, world of {self._identity.world_size}",
            entity=self._identity.rank_entity,
            attributes=found,
        )

    def tell(self, edges: Iterable[Edge], now_ns: int) -> None:
        """Write what is new among the edges, and the end of what is no longer among them."""
        ring: Any = self._rings.of_thread()
        current = dict.fromkeys(edges)
        for gone in [edge for edge in self._holding if edge not in current]:
            ring.relation(*gone, self._holding.pop(gone), now_ns)
        for edge in current:
            if edge not in self._holding:
                self._holding[edge] = now_ns
                ring.relation(*edge, now_ns)


def edges_of(identity: Identity, pid: int) -> list[Edge]:
    """What a rank stands on: its job, its process, its host, its GPU where that is known."""
    rank = identity.rank_entity
    process = f"process:{identity.host}/{pid}"
    edges = [
        (rank, "in", f"job:{identity.job}"),
        (rank, "runs-on", process),
        (process, "in", f"host:{identity.host}"),
        (rank, "runs-on", f"host:{identity.host}"),
    ]
    if identity.gpu:
        edges.append((rank, "runs-on", f"gpu:{identity.gpu}"))
    return edges


def flow_edges(identity: Identity, one: Socket) -> list[Edge]:
    """The flows of one socket, out and in; a rank owns both, because the other end may not be watched."""
    out = flow_id(one.protocol, one.local_ip, one.peer_ip, one.local_port, one.peer_port)
    back = flow_id(one.protocol, one.peer_ip, one.local_ip, one.peer_port, one.local_port)
    return [(f"flow:{flow:032x}", "owns", identity.rank_entity) for flow in (out, back)]
