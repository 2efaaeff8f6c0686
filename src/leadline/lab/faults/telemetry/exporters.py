"""What faults take hold of at a host's exporters and a switch's sampler: process, page, control files."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.lab.levers import Lever, merged
from leadline.lab.running import RunningLab, write_json
from leadline.lab.telemetry.controls import EXPORTER_FILE, SWITCH_FILE
from leadline.lab.telemetry.plan import STATUS
from leadline.model.errors import UsageError, WorldError

PAGE_S_MAX = 1.0  # an exporter on loopback answers within milliseconds, or not at all


def control(lab: RunningLab, host: str) -> Lever:
    """What a host's exporters are told: `drop_labels` and `frozen` of all who want some, see `telemetry.controls`."""
    path = lab.state / "hosts" / host / EXPORTER_FILE

    def together(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        lists = ("drop_labels", "frozen")
        rest = merged([{k: v for k, v in claim.items() if k not in lists} for claim in claims])
        return rest | {name: sorted({each for claim in claims for each in claim.get(name, ())}) for name in lists}

    return Lever(("exporter", host), together, lambda told: write_json(path, told or {}))


def sampler(lab: RunningLab, switch: str) -> Lever:
    """How silent a switch's sampler is: "flows" or "all"; who wants more rules."""
    path = lab.state / "switches" / switch / SWITCH_FILE
    return Lever(
        ("sampler", switch),
        lambda claims: "all" if "all" in claims else "flows",
        lambda silent: write_json(path, {"silent": silent} if silent else {}),
    )


def stopped(lab: RunningLab, host: str) -> Lever:
    """A host's exporter process: stopped while anybody holds it."""

    def apply(held: object) -> None:
        pid = exporter_pid(lab, host)
        try:
            os.kill(pid, signal.SIGCONT if held is None else signal.SIGSTOP)
        except ProcessLookupError as error:
            if held is not None:  # one that is gone needs not go on
                raise WorldError(f"the exporter of {host}, process {pid}, has just ended: it cannot hang") from error

    return Lever(("exporter-stopped", host), any, apply)


def exporter_pid(lab: RunningLab, host: str) -> int:
    """The process that serves a host's pages. Errors: UsageError."""
    if lab.telemetry is None:
        raise UsageError("faults of exporters need the lab's telemetry, which this scenario leaves out")
    return lab.telemetry.exporter_pid(host)


def page(lab: RunningLab, host: str, kind: str = "dcgm") -> str | None:
    """A host's page now (`dcgm` or `hosts`), or None if its exporter does not answer."""
    try:
        targets = json.loads((lab.state / "scrape" / f"{kind}.json").read_text())
    except (OSError, ValueError):
        return None
    for each in targets:
        if each["labels"].get("nodename") == host:
            return _fetched(f"http://{each['targets'][0]}/metrics")
    return None


def _fetched(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=PAGE_S_MAX) as answer:
            return str(answer.read().decode())
    except (OSError, http.client.HTTPException):
        return None


def sampler_status(lab: RunningLab, switch: str) -> dict[str, int]:
    """What the sampler of a switch counted until some seconds ago; empty without telemetry."""
    try:
        told = json.loads((lab.state / STATUS).read_text())
        return {name: int(value) for name, value in told["switches"].get(switch, {}).items()}
    except (OSError, ValueError, KeyError):
        return {}


def some_gpu_host(lab: RunningLab, rng: random.Random) -> str:
    """A host with GPUs, from the seed."""
    return rng.choice([each.name for each in lab.cluster.topology.hosts if each.gpus])


def several(names: Sequence[str], first: str | None, count: int) -> list[str]:
    """`first` and those after it in `names`, round and round, `count` in all at most."""
    start = names.index(first) if first in names else 0
    return [names[(start + step) % len(names)] for step in range(min(count, len(names)))]


def gpu_hosts(lab: RunningLab, first: str | None, count: int) -> list[str]:
    """Hosts with GPUs, from `first` on."""
    return several([each.name for each in lab.cluster.topology.hosts if each.gpus], first, count)
