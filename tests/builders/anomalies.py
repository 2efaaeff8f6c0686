"""A small site of which one GPU throttles and one port drops packets, as the series and samples of its exporters.

8 hosts h0..h7, a GPU and a port each, read every 5 s from T0 - 180 s on; a job of 8 ranks on them, a step each second
what a test says of a series (`Said`) comes instead of what it usually is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.small_job import MS, Row, collective, event, step, table

from leadline.analysis.spec import Window
from leadline.model.ids import series_id

HOSTS = 8
BACK_S = 180
WINDOW = Window(T0, T0 + 5 * S)
READ = ("series", "metric_sample", "step", "collective", "event", "relation", "anomaly", "profile")


@dataclass(frozen=True, slots=True)
class Said:
    """One series and its value by the second from T0 (negative: before); none where the function says None."""

    name: str
    entity: str
    value: Callable[[float], float | None]
    type: str = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None
    every_s: float = 5.0
    phase_s: float = 1.0
    tenant: str = "default"

    @property
    def id(self) -> int:
        """The id that the store would give it."""
        return series_id({"__name__": self.name, "entity": self.entity, **self.labels})

    def series(self) -> Row:
        """Its row of `series`."""
        told = {"series": self.id, "name": self.name, "entity_kind": self.entity.partition(":")[0]}
        told |= {"entity": self.entity, "unit": None, "labels": dict(self.labels), "first_ns": T0 - BACK_S * S}
        return {**told, "last_ns": T0, "type": self.type, "host": self.host, "source": "scrape", "tenant": self.tenant}

    def samples(self, from_s: float, to_s: float) -> Iterable[Row]:
        """Its rows of `metric_sample`."""
        at = from_s + self.phase_s
        while at < to_s:
            value = self.value(at)
            if value is not None:
                yield {"series": self.id, "time_ns": T0 + round(at * S), "value": value, "tenant": self.tenant}
            at += self.every_s


def wavy(level: float, size: float, seed: int) -> Callable[[float], float]:
    """About a level, never twice the same, without chance."""
    return lambda at: level + size * (((at * 7.13 + seed * 3.7) * 1.618) % 1.0 - 0.5)


def counted(rate: Callable[[float], float], from_s: float = -BACK_S) -> Callable[[float], float]:
    """A counter that grows by so much a second: summed by the second."""

    def total(at: float) -> float:
        return sum(rate(from_s + second) for second in range(round(at - from_s)))

    return total


def since(at_s: float, value: float, before: float) -> Callable[[float], float]:
    """One value before a second, another from then on."""
    return lambda at: value if at >= at_s else before


def clocks(odd: Mapping[int, Callable[[float], float | None]] | None = None, hosts: int = HOSTS) -> list[Said]:
    """SM clocks of all GPUs, about 1980 MHz, but for those that are odd."""
    return [
        Said("DCGM_FI_DEV_SM_CLOCK", f"gpu:GPU-{host}", (odd or {}).get(host, wavy(1980, 8, host)), host=f"h{host}")
        for host in range(hosts)
    ]


def drops(odd: Mapping[int, Callable[[float], float | None]] | None = None, hosts: int = HOSTS) -> list[Said]:
    """Packets dropped at all ports: none, but for those that are odd."""
    return [
        Said("node_network_receive_drop_total", f"port:h{host}/eth0", (odd or {}).get(host, lambda at: 3.0), "counter")
        for host in range(hosts)
    ]


def tables(
    said: Sequence[Said], from_s: float = -BACK_S, to_s: float = 5.0, **rows: Sequence[Row]
) -> dict[str, pa.Table]:
    """Everything that the analysis reads: these series, and rows of other tables by name."""
    found = {name: table(name, rows.get(name, [])) for name in READ}
    found["series"] = table("series", [each.series() for each in said])
    found["metric_sample"] = table("metric_sample", [row for each in said for row in each.samples(from_s, to_s)])
    return found


def job_rows(slow: int = 5, since_s: int = -12) -> dict[str, list[Row]]:
    """Steps and collectives of a second each; one rank's input takes 0.3 s longer since then."""
    steps, collectives = [], []
    for number, at_s in enumerate(range(-150, 4)):
        for rank in range(HOSTS):
            late_ms = 300 if rank == slow and at_s >= since_s else 0
            begin_ns = T0 + at_s * S
            phases = {"data": 5 + (number * 3 + rank) % 4 + late_ms, "forward": 200, "backward": 700 - late_ms}
            steps.append(step(rank, number, begin_ns, S, **phases))
            asked_ns = begin_ns + (400 + late_ms + (number * 5 + rank * 3) % 7) * MS
            collectives.append(collective(rank, number, asked_ns, begin_ns + 900 * MS))
    return {"step": steps, "collective": collectives}


@cache
def odd_site() -> dict[str, pa.Table]:
    """GPU 3 throttles since 15 s before T0, the port of host 2 drops 40 packets a second since 8 s before, rank 5's
    input is slow since 12 s before."""
    told: dict[str, list[dict[str, Any]]] = {**job_rows(), "event": [event(T0 - 100 * S, 0, "checkpoint")]}
    said = [*clocks({3: since(-15, 900.0, 1980.0)}), *drops({2: counted(since(-8, 40.0, 0.0))})]
    return tables(said, **told)
