"""What all systems hold: an hour of a fleet at 15 s, and before it a day of one GPU at a minute.

    day of one GPU ───────────────────────────────┐ hour of the fleet ───────┐ ends_ns: a whole minute
    1,440 samples of each of its 10 streams       │ 240 of each stream       │

Samples lie 5, 20, 35 and 50 s after whole minutes, never on one: whether a window of a minute holds its begin or its
end is told differently by each system (Prometheus 2: both), and here it makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.ingest_parts.measure import Sending, send, wait_for_rest
from bench.peers import Peer
from bench.remote_write_bodies import HOST_STREAMS, STEP_NS, Load, labels_of
from leadline.model.units import S

MINUTE_NS = 60 * S
HOUR_S, DAY_MINUTES = 3600, 1440
DAY_STREAMS = HOST_STREAMS // 8
STEPS = HOUR_S * S // STEP_NS
OLD_S_MIN = 60  # VictoriaMetrics answers no query about the last 30 s (search.latencyOffset)
AFTER_MINUTE_NS = 5 * S
# Few: Prometheus takes nothing that is an hour older than its newest sample, so no sender may be an hour before others.
CONNECTIONS = 4
DAY_REST_S_MAX = 20.0
BODY_SAMPLES = 2_000  # max_samples_per_send of Prometheus


@dataclass(frozen=True, slots=True)
class Data:
    """What is sent, and when it ends."""

    hosts: int
    ends_ns: int
    hour: Sending
    day: Sending

    @property
    def day_ends_ns(self) -> int:
        """When the day ends and the hour begins."""
        return self.ends_ns - HOUR_S * S

    @property
    def day_labels(self) -> dict[str, str]:
        """Labels of one stream of the GPU that was measured for a day."""
        return labels_of(self.hosts * HOST_STREAMS)

    @property
    def samples(self) -> int:
        """Of all streams."""
        return self.hour.load.samples + self.day.load.samples


def make_data(hosts: int, now_ns: int, seed: int) -> Data:
    """The hour ends at the last whole minute that is old enough for all."""
    ends_ns = (now_ns - OLD_S_MIN * S) // MINUTE_NS * MINUTE_NS
    hour_begin_ns = ends_ns - HOUR_S * S
    day_begin_ns = hour_begin_ns - DAY_MINUTES * MINUTE_NS
    streams = hosts * HOST_STREAMS
    hour = Load(streams, STEPS, BODY_SAMPLES, CONNECTIONS, seed)
    day = Load(DAY_STREAMS, DAY_MINUTES, BODY_SAMPLES, 1, seed + 1, first=streams, step_ns=MINUTE_NS)
    sent = [
        Sending(load, begin_ns=begin_ns + AFTER_MINUTE_NS)
        for load, begin_ns in ((hour, hour_begin_ns), (day, day_begin_ns))
    ]
    return Data(hosts, ends_ns, *sent)


def load(peer: Peer, data: Data) -> None:
    """Send all of it, oldest first. Errors: RuntimeError if some of it is refused."""
    send(peer, data.day)
    # Prometheus cuts a day into blocks at once. In one run the answers differed as if a stream that began meanwhile
    # lacked its first sample there; with the wait they have not yet.
    wait_for_rest(peer, DAY_REST_S_MAX)
    send(peer, data.hour)
