"""How long the search box waits, over a store with a million metric series.

The series are those of a simulated fleet (`simulator.metrics`), with its relations and some hundred incidents,
appended to an embedded store; then a server as `leadline up` runs it opens that store and is asked, one request after
the other. `search_ms` is the median over what people type (QUERIES), each asked `rounds` times; `search_ms_max` the
slowest query's median. The first search of a server reads all names before it answers: `search_first_ms`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from bench.figures import Figure
from bench.peers import free_port
from leadline.host.bound import bound_to_parent
from leadline.model.tables import BY_NAME
from leadline.simulator.fleet import Fleet
from leadline.simulator.happenings import of_addresses, standing
from leadline.simulator.metrics.catalogue import chosen
from leadline.simulator.metrics.streams import Streams
from leadline.simulator.rows import Common, made
from leadline.store import Store
from leadline.store.config import StoreConfig
from leadline.store.schema import arrow_table

SEARCH_MS = 100.0
SERIES = 1_000_000
STREAMS_PER_HOST = 165  # of the simulator's catalogue: 10 of each of 8 GPUs and 8 ports, 5 of the host
INCIDENTS = 300
READY_S_MAX = 300.0  # the server reads all series when it starts
S = 10**9
INCIDENT_ID = "train-7-slow-20261120T202216Z"
# What people type: part of a metric, of a rule, an expectation, an address, an incident's id, a switch, a host, a GPU,
# two words, and the first letter of nearly everything.
QUERIES = (
    "thrott", "cpu", "DCGM", "nic-link", "10.1.6", INCIDENT_ID, "leaf1", "h3", "gpu-", "h12 eth0", "train-7", "h",
    "no such thing",
)  # fmt: skip


def figures(series: int, rounds: int) -> list[Figure]:
    """Times of searches in a store of this many series."""
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as kept:
        stored = fill(Path(kept) / "store", series)
        with _server(Path(kept)) as ask:
            first_ms = ask("h1")
            took = {query: median(ask(query) for _ in range(rounds)) for query in QUERIES}
    anchor = {"of": "series", "value": stored, "seen": ", ".join(f"{each} {ms:.0f}" for each, ms in took.items())}
    return [
        Figure("search_ms", median(took.values()), "ms", SEARCH_MS, "lower", anchor),
        Figure("search_ms_max", max(took.values()), "ms", None, "lower"),
        Figure("search_first_ms", first_ms, "ms", None, "lower"),
    ]


def fill(directory: Path, series: int) -> int:
    """A store with about so many series of a simulated fleet, its relations and incidents; returns how many."""
    store = Store(StoreConfig(path=str(directory)))
    store.start()
    try:
        now_ns, common = time.time_ns(), Common("default", "default", 1)
        fleet = Fleet(8 * max(1, round(series / STREAMS_PER_HOST)), 8)
        count = 0
        for columns in Streams(fleet, chosen(everything=False, rest=False), now_ns - 3600 * S, 1).series(now_ns):
            rows = len(columns["first_ns"])  # type: ignore[arg-type]
            count += rows
            store.append(BY_NAME["series"], made(BY_NAME["series"], columns, rows, common, 0))
        start_ns = now_ns - 3600 * S
        for relations, rows in (*standing(fleet, 1, start_ns), of_addresses(fleet, start_ns)):
            store.append(BY_NAME["relation"], made(BY_NAME["relation"], relations, rows, common, 0))
        for name, row in (("incident", _incident), ("cause", _cause)):
            told = [row(place, now_ns) for place in range(INCIDENTS)]
            columns_of = {column.name: [each[column.name] for each in told] for column in BY_NAME[name].columns}
            store.append(BY_NAME[name], arrow_table(BY_NAME[name], columns_of))
    finally:
        store.stop()
    return count


def _incident(place: int, now_ns: int) -> dict[str, Any]:
    start_ns = now_ns - (place + 1) * 3600 * S
    symptom = {"entity": f"job:train-{place}", "symptom": "slow", "start_ns": start_ns, "lost_gpu_seconds": 100.0}
    return {
        **_verdict(place), "entity": f"job:train-{place}", "job": f"train-{place}", "jobs": [f"train-{place}"],
        "symptom": "slow", "start_ns": start_ns, "end_ns": start_ns + 60 * S, "bound_ns": 0,
        "reported_ns": start_ns + 8 * S, "state": "over", "verdict": "known", "missing": None,
        "lost_gpu_seconds": 100.0, "suppressed": None, "symptoms": json.dumps([symptom]), "seen_ns": start_ns + 60 * S,
    }  # fmt: skip


def _cause(place: int, now_ns: int) -> dict[str, Any]:
    start_ns = now_ns - (place + 1) * 3600 * S
    entity = f"port:h{place + 1}/eth0"
    return {
        **_verdict(place), "position": 1, "entity": entity, "rule": "link-flapping", "chosen": True, "layer": "nic",
        "class": "transient", "probability": 0.9, "start_ns": start_ns, "score": "{}", "evidence": "[]",
        "action": "CHECK_CABLE", "action_cost": 0.0, "saves": 0.0, "waiting_cost": 900.0,
        "text": f"{entity} lost its carrier: link-down 3 times", "seen_ns": start_ns + 60 * S,
    }  # fmt: skip


def _verdict(place: int) -> dict[str, Any]:
    name = INCIDENT_ID if place == 7 else f"train-{place}-slow-{place}"
    return {"tenant": "default", "cluster": "default", "analysis": "cause", "version": 1, "revision": 0,
            "incident": name}  # fmt: skip


@contextmanager
def _server(directory: Path) -> Iterator[Callable[[str], float]]:
    """`leadline up` on the store of a directory. Yields what asks for a query and returns the ms it took."""
    ports = {name: free_port() for name in ("PORT", "OTLP_HTTP_PORT", "OTLP_GRPC_PORT")}
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")},
        **{f"LEADLINE_SERVER__{name}": str(port) for name, port in ports.items()},
        "LEADLINE_STORE__PATH": str(directory / "store"), "LEADLINE_RUNNER__ENABLED": "false",
    }  # fmt: skip
    command = bound_to_parent([sys.executable, "-m", "leadline.cli.main", "up"])
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, env=environ, stdout=log, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{ports['PORT']}", timeout=120, trust_env=False) as client:
            _wait_ready(client, process, directory / "log")

            def ask(query: str) -> float:
                begin_s = time.perf_counter()
                client.get("/api/v1/search", params={"q": query}).raise_for_status()
                return (time.perf_counter() - begin_s) * 1000

            yield ask
    finally:
        process.terminate()
        process.wait(60)


def _wait_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + READY_S_MAX
    while True:
        assert process.poll() is None, f"leadline up ended with {process.returncode}: {log.read_text()}"
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if time.monotonic() > end_s:
            raise TimeoutError(f"leadline up was not ready within {READY_S_MAX:.0f} s: {log.read_text()}")
        time.sleep(0.2)
