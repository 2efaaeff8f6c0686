"""A small site as the series and samples of its exporters, for what is promised of it; and a training job on it.

4 hosts h0..h3, a GPU each (`gpu:GPU-0`..), a NIC each (`port:h0/eth0`..), read every 5 s from T0 - 600 s to T0 + 60 s
what a test says of one of them (`Said`) replaces its values from some time on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0 as FABRIC_T0
from tests.builders.fabrics import S
from tests.builders.small_job import table

from leadline.analysis.spec import Window
from leadline.model.ids import series_id

T0 = FABRIC_T0
MINUTE = Window(T0, T0 + 60 * S)
BACK_S = 600
EVERY_S = 5
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """One series: its values by the second from T0 (negative: before), or none where the function says None."""

    name: str
    entity: str
    value: Callable[[int], float | None]
    type: str = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None
    every_s: int = EVERY_S
    tenant: str = "default"

    @property
    def id(self) -> int:
        """The id that the store would give it."""
        return series_id({"__name__": self.name, "entity": self.entity, **self.labels})

    def series(self) -> Row:
        """Its row of `series`."""
        kind = self.entity.partition(":")[0]
        told = {"series": self.id, "name": self.name, "entity_kind": kind, "entity": self.entity, "unit": None}
        told |= {"labels": dict(self.labels), "first_ns": T0 - BACK_S * S, "last_ns": T0, "type": self.type}
        return {**told, "host": self.host, "source": "scrape", "tenant": self.tenant}

    def samples(self, to_s: int = 60) -> Iterable[Row]:
        """Its rows of `metric_sample`."""
        for at in range(-BACK_S, to_s, self.every_s):
            value = self.value(at)
            if value is not None:
                told = {"series": self.id, "time_ns": T0 + at * S, "value": value, "tenant": self.tenant}
                yield {**told, "cluster": "default"}


def always(value: float) -> Callable[[int], float]:
    """The same at all times."""
    return lambda at: value


def since(at_s: int, value: float, before: float) -> Callable[[int], float]:
    """One value before a second, another from then on."""
    return lambda at: value if at >= at_s else before


def tables(said: Sequence[Said], to_s: int = 60, **rows: Sequence[Row]) -> dict[str, pa.Table]:
    """Everything that the analysis reads: these series, and rows of other tables by name."""
    found = {name: table(name, rows.get(name, [])) for name in OTHERS}
    found["series"] = table("series", [each.series() for each in said])
    found["metric_sample"] = table("metric_sample", [row for each in said for row in each.samples(to_s)])
    return found


OTHERS = (
    "expectation", "event", "failure", "step", "collective", "ledger", "clock_fit", "ecmp_group", "relation",
)  # fmt: skip


def promise(spec: str, name: str = "x", tenant: str = "default", from_ns: int = T0 - 3600 * S, **more: Any) -> Row:
    """A row of `expectation`."""
    told = {"expectation": name, "layer": "gpu", "from_ns": from_ns, "to_ns": None, "spec": spec, "source": "site.yaml"}
    return {**told, "tenant": tenant, "cluster": "default", **more}


def gpus(name: str = "DCGM_FI_DEV_GPU_TEMP", baseline: float = 60.0, **of: Callable[[int], float | None]) -> list[Said]:
    """One metric of four GPUs; `GPU_2=...` says what one of them tells instead."""
    return [
        Said(name, f"gpu:GPU-{number}", of.get(f"GPU_{number}", always(baseline)), host=f"h{number}")
        for number in range(4)
    ]


def hot_gpu() -> dict[str, pa.Table]:
    """A GPU that is hot from second 20 on, a link that flaps, ECC on another, and a job that lost time on it all."""
    links = [Said("node_network_speed_bytes", f"port:h{n}/eth0", always(1e10), host=f"h{n}") for n in range(4)]
    events = [
        {"time_ns": T0 + 30 * S, "entity_kind": "port", "entity": "port:h1/eth0", "kind": "link-down"},
        {"time_ns": T0 + 34 * S, "entity_kind": "port", "entity": "port:h1/eth0", "kind": "link-up"},
    ]
    told = {"severity": "error", "code": None, "message": "", "source": "test"}
    lost = {"job": "bert-1", "window_ns": 10 * S, "category": "straggler", "owner": "gpu:GPU-2", "seconds": 10.0}
    lost |= {"gpu_seconds": 40.0, "lost_seconds": 4.0, "lost_gpu_seconds": 16.0, "confidence": 1.0, "depth": "steps"}
    return tables(
        [*gpus(GPU_2=since(20, 95.0, 60.0)), *links],
        event=[{**each, **told} for each in events],
        ledger=[{**lost, "end_ns": T0 + at * S} for at in (20, 30, 40)],
    )
