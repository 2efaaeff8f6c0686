"""How large a server must be for a fleet: from what was measured, and how far that goes.

    fleet (hosts, GPUs, interval) ──> rates ──> load, in hosts of the measured fleet ──> CPU, memory, delay of verdicts
                                        └────────────────────────────────────────────> disk, network

Every constant is here, with what measured it, when and where; docs/sizing.md is made from them, and a test holds them
against docs/figures.yaml. What lies beyond the measured sizes is told as extrapolated, never as measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from leadline.model.tables import TABLES

MACHINE = "virtual machine with two shared cores and 24 GB"


class Measured(NamedTuple):
    """A constant. `value` in `unit`."""

    value: float
    unit: str
    what: str
    by: str  # command or page
    date: str


class Live(NamedTuple):
    """One size at which the whole was measured (`bench.live`: all analyses on, five viewers). None: not taken down."""

    hosts: int
    cores: float | None
    late_s: float | None  # verdicts of causes, 95th percentile beyond window and grace
    private_bytes: float | None
    by: str
    date: str


LIVE = (
    Live(1, None, None, 460e6, "leadline up and one agent for 2 minutes, no job", "2026-11-27"),
    Live(64, 0.92, 0.57, None, "python -m bench.live --hosts 64 256", "2026-11-28"),
    Live(256, 1.62, 9.07, 1.582e9, "python -m bench.live --hosts 256 --seconds 60", "2026-11-28"),
)
"""In order of size; hosts of GPUS_OF_LIVE GPUs."""
GPUS_OF_LIVE = 8
LATE_S_MAX = 3.0
"""Verdicts that come later than so are late: the goal of `lag_p95_s` in docs/figures.yaml."""
CORES_SPARE = 1.5
"""Cores to have for each that is used on average: a window of an analysis takes a whole core for a second or two, and a
backlog is to be made up for. Source: judgement."""
MEMORY_SPARE = 2.0
"""Memory to have for each byte of private memory: `server.memory_bytes_max` is half of the machine by default."""
MEMORY_MIN = 4e9
"""Bytes of the smallest machine that is advised: the engine's page cache and a query of 2 GB. Source: judgement."""


class Rate(NamedTuple):
    """Rows a second of one host of the measured fleet, and where they are stored."""

    what: str
    table: str
    per_s: float
    scraped: bool = False  # scales with the interval of exporters


class Traffic(NamedTuple):
    """Bytes a second that one host of the measured fleet sends, as bodies; headers are not counted."""

    what: str
    bytes_per_s: float
    scraped: bool = False
    by_host: bool = True  # from the training host itself; else from Prometheus or a switch


STREAMS_OF_HOST = 256  # of it, its GPUs, ports, switch ports and agent
SCRAPE_S = 15.0  # the interval of exporters in the measured fleet
VOLUME_BY = "python -m bench.live_parts.volume"
VOLUME_DATE = "2026-11-28"
RATES: tuple[Rate, ...] = (
    Rate("samples of agents (96 streams every 5 s)", "metric_sample", 19.22),
    Rate("samples of exporters (96 streams)", "metric_sample", 6.40, scraped=True),
    Rate("samples of switches (64 streams every 20 s)", "metric_sample", 3.20),
    Rate("flows that switches sample", "flow_sample", 31.29),
    Rate("collectives, of all ranks", "collective", 11.63),
    Rate("steps, of all ranks", "step", 1.82),
)
"""Of one host with GPUS_OF_LIVE GPUs, by VOLUME_BY: 256 hosts, 60 s."""
TRAFFIC: tuple[Traffic, ...] = (
    Traffic("event rings", 3602),
    Traffic("metrics of the agent", 1671),
    Traffic("watermarks", 136),
    Traffic("exporters, by remote-write or scraped", 750, scraped=True, by_host=False),
    Traffic("sFlow", 3933, by_host=False),
)
"""The same."""
_REPLAY = "leadline show tables after a replay of the shipped recording"
ROW_BYTES = {
    "metric_sample": Measured(
        3.0,
        "bytes",
        "a metric sample on disk, once merged (2.6 to 3.0)",
        f"{_REPLAY}; python -m bench.ingest",
        "2026-11-27",
    ),
    "flow_sample": Measured(8.0, "bytes", "a sampled flow on disk", _REPLAY, "2026-11-27"),
    "collective": Measured(20.0, "bytes", "a collective of a rank on disk", _REPLAY, "2026-11-27"),
    "step": Measured(100.0, "bytes", "a step of a rank on disk", _REPLAY, "2026-11-27"),
}
"""By table, bytes of a row at rest."""
FRESH_BYTES = Measured(
    10.0, "bytes", "a metric sample of the last 8 minutes, whose unmerged parts are kept",
    "python -m bench.ingest --no-settle", "2026-11-28",
)  # fmt: skip
FRESH_S = 480.0  # store: old parts are kept so long
DAY_S = 86_400.0
RETENTION_D = next(each.keep_hours for each in TABLES if each.name == "metric_sample") / 24


class Basis(StrEnum):
    """What a figure stands on."""

    MEASURED = "measured"  # at this very size
    BETWEEN = "between two measured sizes"
    COMPUTED = "computed"  # a measured rate times hosts: nothing in it depends on size
    BELOW = "at most: measured at the next larger size"
    BEYOND = "extrapolated"
    ABOVE = "at least: measured at the largest size"


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is to be watched."""

    hosts: int
    gpus_per_host: int = GPUS_OF_LIVE
    interval_s: float = SCRAPE_S
    retention_d: float = RETENTION_D


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a server takes, or does. `value` in `unit`; `advice`: what to have, if that is more."""

    name: str
    value: float
    unit: str
    basis: Basis
    advice: float | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """The answer. `load_hosts`: hosts of the measured fleet that send as much."""

    fleet: Fleet
    load_hosts: float
    needs: tuple[Need, ...]
    notes: tuple[str, ...]

    def need(self, name: str) -> Need:
        """One of them, by name."""
        return next(each for each in self.needs if each.name == name)


def size_of(fleet: Fleet) -> Size:
    """What a server for this fleet needs. Inputs are positive; who asks has checked it."""
    scale, interval = _scales(fleet)
    rates = {each.what: each.per_s * scale * (interval if each.scraped else 1.0) for each in RATES}
    load_hosts = fleet.hosts * sum(rates.values()) / sum(each.per_s for each in RATES)
    needs = (*_live_needs(load_hosts), *_disk_needs(fleet, rates), *_network_needs(fleet, scale, interval))
    return Size(fleet, load_hosts, needs, tuple(_notes(fleet, load_hosts)))


def _scales(fleet: Fleet) -> tuple[float, float]:
    """How much more a host sends than one that was measured: for its GPUs, and for the interval of its exporters."""
    return fleet.gpus_per_host / GPUS_OF_LIVE, SCRAPE_S / fleet.interval_s


# --- CPU, memory, delay ---------------------------------------------------------------------------------------------


def _live_needs(hosts: float) -> tuple[Need, ...]:
    cores, cores_basis = _at(hosts, [(each.hosts, each.cores) for each in LIVE if each.cores is not None])
    private, private_basis = _at(
        hosts, [(each.hosts, each.private_bytes) for each in LIVE if each.private_bytes is not None]
    )
    late, late_basis = _at(hosts, [(each.hosts, each.late_s) for each in LIVE if each.late_s is not None])
    if late_basis is Basis.BEYOND:  # a backlog that grows has no line
        late, late_basis = max(each.late_s for each in LIVE if each.late_s is not None), Basis.ABOVE
    return (
        Need("CPU", cores, "cores", cores_basis, max(2.0, math.ceil(cores * CORES_SPARE))),
        Need("memory", private, "bytes", private_basis, max(MEMORY_MIN, MEMORY_SPARE * private)),
        Need("verdicts late by (p95)", late, "s", late_basis),
    )


def _at(hosts: float, points: list[tuple[int, float]]) -> tuple[float, Basis]:
    """The figure at that size, on the line through the two sizes around it; below the smallest that of the smallest."""
    if hosts <= points[0][0]:
        return points[0][1], Basis.MEASURED if hosts == points[0][0] else Basis.BELOW
    for size, value in points:
        if hosts == size:
            return value, Basis.MEASURED
    (low, at_low), (high, at_high) = next(
        (pair for pair in pairwise(points) if hosts <= pair[1][0]), (points[-2], points[-1])
    )
    value = at_low + (at_high - at_low) * (hosts - low) / (high - low)
    return value, Basis.BETWEEN if hosts <= high else Basis.BEYOND


# --- disk and network -----------------------------------------------------------------------------------------------


def _disk_needs(fleet: Fleet, rates: dict[str, float]) -> tuple[Need, ...]:
    kept = {each.name: each.keep_hours / 24 for each in TABLES}
    daily: dict[str, float] = {}
    for each in RATES:
        size = rates[each.what] * ROW_BYTES[each.table].value * DAY_S * fleet.hosts
        daily[each.table] = daily.get(each.table, 0.0) + size
    fresh_per_s = sum(rates[each.what] for each in RATES if each.table == "metric_sample")
    fresh = fresh_per_s * FRESH_S * (FRESH_BYTES.value - ROW_BYTES["metric_sample"].value) * fleet.hosts
    whole = sum(size * min(fleet.retention_d, kept[table]) for table, size in daily.items())
    return (
        Need("disk, a day", sum(daily.values()), "bytes", Basis.COMPUTED),
        Need(f"disk, {fleet.retention_d:g} d", whole + fresh, "bytes", Basis.COMPUTED),
    )


def _network_needs(fleet: Fleet, scale: float, interval: float) -> tuple[Need, ...]:
    def sent(which: tuple[Traffic, ...]) -> float:
        return sum(each.bytes_per_s * scale * (interval if each.scraped else 1.0) for each in which)

    return (
        Need("network, received", sent(TRAFFIC) * fleet.hosts, "bytes/s", Basis.COMPUTED),
        Need("network, of a host", sent(tuple(each for each in TRAFFIC if each.by_host)), "bytes/s", Basis.COMPUTED),
    )


# --- what is to be said with it -------------------------------------------------------------------------------------


def _notes(fleet: Fleet, load_hosts: float) -> list[str]:
    timed = [each for each in LIVE if each.late_s is not None]
    least, most = timed[0], timed[-1]
    in_time = max((each.hosts for each in timed if each.late_s is not None and each.late_s <= LATE_S_MAX), default=0)
    notes = []
    if load_hosts > most.hosts:
        notes.append(
            f"Beyond {most.hosts} hosts nothing was measured, and at {most.hosts} one server did not keep up: verdicts "
            f"were {most.late_s:g} s late while half a core was free, as it judges one window after another. More "
            "cores do not help. Expect verdicts to fall further and further behind: give each cluster a server of its "
            "own."
        )
    elif load_hosts > in_time:
        notes.append(
            f"Verdicts were {least.late_s:g} s late at {least.hosts} hosts and {most.late_s:g} s at {most.hosts}: the "
            f"server falls behind somewhere in between, and the line between them is a guess. To have verdicts within "
            f"{LATE_S_MAX:g} s, give each {in_time} hosts a server."
        )
    if fleet.gpus_per_host != GPUS_OF_LIVE:
        notes.append(
            f"Measured with {GPUS_OF_LIVE} GPUs and as many ports a host; one with {fleet.gpus_per_host} is taken to "
            "send in proportion."
        )
    if fleet.retention_d > RETENTION_D:
        notes.append(
            f"Metric samples are kept for {RETENTION_D:g} d, then 5-minute means for 400 d, whose size was not "
            "measured."
        )
    notes.append(
        "Not in it: verdicts on disk, flows that agents count, headers of the network, more than five people at the "
        "page. Real exporters may have more streams than simulated ones: compare those that `leadline doctor` counts "
        f"with the {STREAMS_OF_HOST} a host that were measured."
    )
    return notes
