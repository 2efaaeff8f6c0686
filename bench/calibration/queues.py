"""How long packets wait at a port: what a drop-tail queue behind a token bucket does with different loads. Pure.

    arrivals --> bucket of `burst` bytes, filled at `rate` --> queue of `room` bytes --> line at `rate`

A shaped port lets a burst pass at once and only then lets it wait: with W the work that would wait without a bucket,
W - burst bytes wait with one. The lab's ports are such (2 ms, see `realise.plan`); a real switch has a bucket of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.simulator.fabric import Floats
from leadline.simulator.network import LAB_TCP

# How full long TCP flows keep a drop-tail queue that is much longer than their path: quantile of time, share of the
# queue. CUBIC falls to 0.7 of its window and spends most of its time near the last one (RFC 9438, section 4.2), so the
# queue is nearly full most of the time. Measured with two flows at 250 Mbit/s and 250 KB; see docs/lab/calibration.md.
STANDING = ((0.0, 0.5), (0.5, 0.855), (0.99, 1.0), (1.0, 1.0))
ELASTIC_FROM = 0.98  # of the rate: from here on the load is such flows, that take what there is


@dataclass(frozen=True, slots=True)
class Port:
    """A sending port. `burst_bytes` 0: not shaped."""

    rate_bps: float
    queue_bytes: float
    burst_bytes: float = 0.0

    @classmethod
    def of_lab(cls, rate_bps: float, queue_bytes: float) -> Port:
        """A port as the lab shapes it: 2 ms of burst, at least 20 KB."""
        return cls(rate_bps, queue_bytes, max(20_000.0, rate_bps * LAB_TCP.burst_s / 8))

    def drain_ns(self, waiting_bytes: Floats) -> Floats:
        """Time until what waits has left."""
        return waiting_bytes * (8e9 / self.rate_bps)


def queue_delay_ns(
    load_L: Floats, capacity_bps_L: Floats, queue_bytes: float, quantile: float = 0.5,
    batch_bytes: float = 4214.0, burst_s: float = 0.0,
) -> Floats:  # fmt: skip
    """Queueing delay of many ports at once: a quantile over time, ns (L,).

    Inputs: offered load over capacity; bytes that come at once (a frame, or what a sender hands over in one piece);
    `burst_s`, what the port lets pass at once, as time at its rate. Below `ELASTIC_FROM`: the tail of M/D/1 in its
    exponential form, P(W > x) = load x exp(-2 x (1 - load) / (load x batch)) (heavy traffic; Kingman 1961), less the
    bucket. From there on: long TCP flows, see `STANDING`. Never more than those.
    """
    load = np.clip(load_L, 0.0, ELASTIC_FROM)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.maximum(load, 1e-12) / (1.0 - quantile))
        work = np.where(load > 1 - quantile, batch_bytes * load / (2 * (1 - load)) * tail, 0.0)
    full = standing_share(quantile) * queue_bytes
    waiting = np.clip(work - burst_s * capacity_bps_L / 8, 0.0, full)
    waiting = np.where(load_L >= ELASTIC_FROM, full, waiting)
    found: Floats = waiting * 8e9 / capacity_bps_L
    return found


def standing_share(quantile: float) -> float:
    """How full long flows keep the queue, at a quantile of time."""
    at, share = zip(*STANDING, strict=True)
    return float(np.interp(quantile, at, share))


def waiting_bytes(at_ns_N: Floats, size_N: Floats, port: Port, when_ns_M: Floats) -> Floats:
    """Bytes that wait at a port at times (M,), for arrivals (N,) in order of time. What has no room is dropped."""
    work_N = _work(at_ns_N, size_N, port)
    if len(work_N) and work_N.max() > port.burst_bytes + port.queue_bytes:
        work_N = _work_with_drops(at_ns_N, size_N, port)
    last_M = np.searchsorted(at_ns_N, when_ns_M, side="right") - 1
    safe_M = np.maximum(last_M, 0)
    work_M = work_N[safe_M] - port.rate_bps / 8e9 * (when_ns_M - at_ns_N[safe_M])
    found: Floats = np.where(last_M >= 0, np.clip(work_M - port.burst_bytes, 0.0, port.queue_bytes), 0.0)
    return found


def departures(at_ns_N: Floats, size_N: Floats, port: Port) -> Floats:
    """When each arrival has left a port whose queue has room for all, ns (N,): those of one moment in their order."""
    waiting_N = np.maximum(_work(at_ns_N, size_N, port) - port.burst_bytes, 0.0)
    return at_ns_N + port.drain_ns(waiting_N)


def _work(at_ns_N: Floats, size_N: Floats, port: Port) -> Floats:
    """Work just after each arrival, bytes (N,), were there no bucket: W = A - r t - min over earlier (A - r s)."""
    before_N = np.cumsum(size_N) - size_N - port.rate_bps / 8e9 * at_ns_N
    floor_N = np.minimum.accumulate(before_N)
    found: Floats = before_N + size_N - floor_N
    return found


def _work_with_drops(at_ns_N: Floats, size_N: Floats, port: Port) -> Floats:
    """The same where the queue overflows. One arrival after the other: what is dropped changes all that follows."""
    room, per_ns = port.burst_bytes + port.queue_bytes, port.rate_bps / 8e9
    found, work, last_ns = np.empty(len(at_ns_N)), 0.0, 0.0
    for place, (now_ns, size) in enumerate(zip(at_ns_N.tolist(), size_N.tolist(), strict=True)):
        work = max(0.0, work - (now_ns - last_ns) * per_ns)
        if work + size <= room:
            work += size
        found[place], last_ns = work, now_ns
    return found
