"""Packets that came into a switch and never left: what no counter counts, the sum of the counters shows.

    came in - went out - discarded and counted = vanished        (of all ports of a switch, between two readings)

Source: conservation of packets as a check on counters (Krentsel et al., "The Case for Validating Inputs in
Software-Defined WANs", HotNets 2024). What vanishes on the wire is counted as sent at one end and not as received at
the other: of that it says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import codes, floats, ids, ints
from leadline.model.ids import EntityId, kind_of

TOGETHER_NS = 100_000_000  # ports of a switch that are read so close are read at once
VANISHED_MIN = 5.0  # packets in one interval: to and from the switch itself go some, too
VANISHED_SHARE = 5e-4
NOISE = 4.0  # times what did not add up in quiet intervals
KINDS = ("Ucast", "Multicast", "Broadcast")
IN, OUT, DROPPED = (
    tuple(f"ifIn{kind}Pkts" for kind in KINDS),
    tuple(f"ifOut{kind}Pkts" for kind in KINDS),
    ("ifInDiscards", "ifOutDiscards", "ifInErrors", "ifOutErrors"),
)
SIGN = dict.fromkeys(IN, 1.0) | dict.fromkeys((*OUT, *DROPPED), -1.0)

COUNTED = frozenset(
    {"ifOutDiscards", "ifInDiscards", "ifInErrors", "node_qdisc_drops_total", "node_network_transmit_drop_total"}
)
"""What a port tells of packets that it dropped, by any of its names."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """What the counters of a switch say of one interval."""

    from_ns: int
    to_ns: int
    came_in: float  # packets
    vanished: float
    is_loss: bool


Readings = dict[tuple[str, str], dict[int, float]]  # (port, counter) -> time -> value


def vanished(readings: Readings, since_ns: int) -> dict[str, Vanished]:
    """By name of the switch: the interval that ended after `since_ns` in which most vanished.

    Switches whose ports are not read at once tell nothing.
    """
    by_switch: dict[str, Readings] = defaultdict(dict)
    for (port, counter), told in readings.items():
        if kind_of(port) == "swport" and counter in SIGN:
            by_switch[EntityId.of(port).first][port, counter] = told
    found: dict[str, Vanished] = {}
    for switch, mine in sorted(by_switch.items()):
        intervals = _intervals(mine)
        recent = [each for each in intervals if each.to_ns > since_ns]
        quiet = [abs(each.vanished) for each in intervals if each.to_ns <= since_ns]
        if recent:
            noise = NOISE * float(np.median(quiet)) if quiet else 0.0
            most = max(recent, key=lambda each: (each.vanished, each.to_ns))
            least = max(VANISHED_MIN, VANISHED_SHARE * most.came_in, noise)
            found[switch] = replace(most, is_loss=most.vanished > least)
    return found


def dropped(readings: Readings, since_ns: int) -> dict[str, float]:
    """Packets that each port says it dropped in the intervals that ended after `since_ns`."""
    found: dict[str, float] = {}
    for (port, counter), told in sorted(readings.items()):
        if counter in COUNTED:
            times = sorted(told)
            grown = sum(max(0.0, told[now] - told[last]) for last, now in pairwise(times) if now > since_ns)
            found[port] = max(found.get(port, 0.0), grown)  # the same packets, by several names
    return found


def readings_of(series: pa.Table, sample: pa.Table) -> Readings:
    """Values of the counters of packets of all ports."""
    name, entity = codes(series, "name"), codes(series, "entity")
    wanted = np.array([each in SIGN or each in COUNTED for each in name.names], bool)
    ports = np.array([kind_of(each) in ("swport", "port") for each in entity.names], bool)
    if not wanted.any() or not ports.any():
        return {}
    rows = np.flatnonzero((name.code_N >= 0) & (entity.code_N >= 0) & wanted[name.code_N] & ports[entity.code_N])
    series_N2 = ids(series, "series")
    who = {
        tuple(series_N2[row].tolist()): (entity.names[entity.code_N[row]], name.names[name.code_N[row]])
        for row in rows.tolist()
    }
    keys = pa.array([low.to_bytes(8, "little") + high.to_bytes(8, "little") for low, high in who], pa.binary(16))
    ours = sample.filter(pc.is_in(sample["series"], keys))
    found: Readings = defaultdict(dict)
    told = zip(
        ids(ours, "series").tolist(), ints(ours, "time_ns").tolist(), floats(ours, "value").tolist(), strict=True
    )
    for (low, high), time_ns, value in sorted(told):
        if np.isfinite(value):
            found[who[low, high]][time_ns] = value
    return found


def _intervals(readings: Readings) -> list[Vanished]:
    """What vanished between readings of all ports of one switch, in order of time."""
    times = sorted({time_ns for told in readings.values() for time_ns in told})
    moments: list[tuple[int, dict[tuple[str, str], float]]] = []
    for time_ns in times:
        if not moments or time_ns - moments[-1][0] > TOGETHER_NS:
            moments.append((time_ns, {}))
        for key, told in readings.items():
            if time_ns in told:
                moments[-1][1][key] = told[time_ns]
    whole = [(time_ns, values) for time_ns, values in moments if len(values) == len(readings)]
    found = []
    for (from_ns, before), (to_ns, now) in pairwise(whole):
        grown = {key: now[key] - before[key] for key in now}
        came_in = sum(grown[key] for key in sorted(grown) if SIGN[key[1]] > 0)
        if min(grown.values()) < 0:  # a counter began anew
            continue
        out = sum(SIGN[key[1]] * grown[key] for key in sorted(grown))
        found.append(Vanished(from_ns, to_ns, came_in, out, False))
    return found
