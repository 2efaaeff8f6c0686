"""How long the page's views take while a fleet sends, at its real pace, all that its agents, exporters and switches do.

A server with default settings takes what `bench.live_parts.fleet` simulates, judges it, and is asked what each view of
the page asks when it opens (`web_parts.answers.requests_of`), one view after the other. Of each opening counts the
slowest answer of the view.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.live import ENCODE_HOST_S, LATE_MS_MAX, READY_S, configured, encoded, sending
from bench.peers import Peer
from bench.web_parts.answers import Ask, Server, requests_of
from leadline.model.units import S

BETWEEN_S = 0.5  # from one view to the next: nobody looks at one for less
ENCODE_S = READY_S + 2.0  # before the first body is due, and ENCODE_HOST_S for each host
ENCODE_TIMES = (1, 3, 9)  # on a busy machine encoding takes longer
FIRST_S = 3  # the shortest that is simulated
SENT_S_MAX = 120.0
SENT_S_MAX_NS = round(SENT_S_MAX * S)


@dataclass(frozen=True, slots=True)
class Fleet:
    """How large, and for how long it sends: until there is something to show, and while views are opened.

    `late_ms_max`: with bodies sent later than that (p99) figures are worth nothing; None: they are not looked at.
    """

    hosts: int
    warm_s: int
    seconds: int
    late_ms_max: float | None = LATE_MS_MAX


def views_written(fleet: Fleet, seed: int) -> dict[str, list[float]]:
    """Of each view what its slowest answer took, ms, each time that it was opened.

    Errors: RuntimeError if an answer is refused, or senders were late or could not send something: then it was not
    written to as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as name:
        folder = Path(name)
        # Its targets and switches are the server's configuration. What it sends is encoded when the server runs: of one
        # that starts slowly, as on a busy machine, it would be late.
        (folder / "first").mkdir()
        told = encoded(folder / "first", fleet.hosts, FIRST_S, time.time_ns() + SENT_S_MAX_NS, seed)
        if told is None:
            raise RuntimeError(f"{FIRST_S} s of {fleet.hosts} hosts take more than {SENT_S_MAX:.0f} s to encode")
        server, ports = configured(folder, told)
        server.start()
        try:
            start_ns = _encoded(folder, fleet, seed)
            return _opened(server, ports, folder, start_ns, fleet)
        finally:
            server.stop()


def _encoded(folder: Path, fleet: Fleet, seed: int) -> int:
    """When the first body is due. Errors: RuntimeError if bodies could not be made until then."""
    for times in ENCODE_TIMES:
        start_ns = time.time_ns() + round(times * (ENCODE_S + ENCODE_HOST_S * fleet.hosts) * S)
        if encoded(folder, fleet.hosts, fleet.warm_s + fleet.seconds, start_ns, seed) is not None:
            return start_ns
    raise RuntimeError("bodies were not encoded in time, three times; is the machine busy?")


def _opened(peer: Peer, ports: dict[str, int], folder: Path, start_ns: int, fleet: Fleet) -> dict[str, list[float]]:
    sender = sending(folder, peer, ports)
    try:
        time.sleep(max(0.0, (start_ns - time.time_ns()) / S) + fleet.warm_s)
        until = time.monotonic() + fleet.seconds
        with httpx.Client(base_url=peer.url, timeout=SENT_S_MAX, trust_env=False) as client:
            server = Server(client)
            found = _took(server, requests_of(server), until)
        out, _ = sender.communicate(timeout=SENT_S_MAX)
        _require_sent(json.loads(out), fleet.late_ms_max)
        return found
    finally:
        sender.kill()
        sender.wait()


def _took(server: Server, asked: Mapping[str, list[Ask]], until: float) -> dict[str, list[float]]:
    """Open one view after the other until it is time; every view once at least."""
    found: dict[str, list[float]] = {view: [] for view in asked}
    while time.monotonic() < until or not all(found.values()):
        for view, asks in asked.items():
            found[view].append(max(_timed(server, each) for each in asks))
            time.sleep(BETWEEN_S)
    return found


def _timed(server: Server, ask: Ask) -> float:
    try:
        return server.timed(ask)
    except httpx.HTTPError as error:
        raise RuntimeError(
            f"leadline did not answer {ask[0]} {dict(ask[1])} while it was written to: {error}"
        ) from error


def _require_sent(sent: Mapping[str, Any], late_ms_max: float | None) -> None:
    if sent["lost"]:
        raise RuntimeError(f"{sent['lost']} bodies were not taken while views were opened")
    if late_ms_max is not None and sent["late_ms_p99"] > late_ms_max:
        raise RuntimeError(
            f"bodies were sent {sent['late_ms_p99']:.0f} ms late (p99; at most {late_ms_max:.0f}): the machine is too "
            "busy to tell how long answers take; take fewer --fleet-hosts"
        )


def p95(found: Mapping[str, list[float]]) -> float:
    """95th percentile of all openings of all views, ms."""
    return float(np.percentile([took for each in found.values() for took in each], 95))
