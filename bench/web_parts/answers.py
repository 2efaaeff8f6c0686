"""How long the API takes for what each view of the page asks when it opens, over a recording that was judged whole.

A server as `leadline replay` runs it, in a process of its own, is asked one request after the other. Of each round
counts the slowest answer of the view; `api_p95_ms_<view>` is the 95th percentile of the rounds. Nothing is written
meanwhile, as nothing is once a recording was played, so the server answers much from memory.
`api_written_p95_ms_<view>` is the dearest case, of a third as many rounds: before each a row of every table is appended
anew, as senders and analyses do all the time on a live cluster, so that no statement was answered before.
`api_sum_ms_<view>`: all answers of the view one after the other, median of the rounds, nothing written.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from bench.figures import Figure
from bench.peers import free_port
from leadline.host.bound import bound_to_parent

ROOT = Path(__file__).resolve().parents[2]
ANSWER_MS = 100.0
JUDGED_S_MAX = 900.0
WARM = 2  # rounds before those that count; none before a single one
S = 10**9
VIEWS = (
    "now", "fleet", "jobs", "job", "compare", "graph", "paths", "expectations", "incidents", "incident", "clock",
    "telemetry",
)  # fmt: skip
LAST = {"from": "-3600s"}  # the span that the page shows at first
Ask = tuple[str, Mapping[str, str]]  # path under /api/v1, parameters


def figures(recording: Path, rounds: int) -> list[Figure]:
    """All figures; without a value, and with the reason, those of views that the recording has nothing for."""
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as kept, served(recording, Path(kept)) as server:
        asked = requests_of(server)
        quiet = {view: _measured(server, each, rounds, write=False) for view, each in asked.items()}
        few = max(1, rounds // 3)  # before each of them thirty tables are appended to
        written = {view: _measured(server, each, few, write=True) for view, each in asked.items()}

    def slowest(of: Mapping[str, list[list[float]]]) -> dict[str, float]:
        return {view: float(np.percentile([max(round_) for round_ in each], 95)) for view, each in of.items()}

    sums = {view: median(sum(round_) for round_ in each) for view, each in quiet.items()}
    told = (("api_p95_ms", slowest(quiet), ANSWER_MS), ("api_written_p95_ms", slowest(written), None))
    return [
        Figure(f"{name}_{view}", values.get(view), "ms", target, "lower",
               reason=None if view in values else "the recording has nothing that this view shows")
        for name, values, target in (*told, ("api_sum_ms", sums, None))
        for view in VIEWS
    ]  # fmt: skip


# --- what each view asks ----------------------------------------------------------------------------------------------


def requests_of(server: Server) -> dict[str, list[Ask]]:
    """What each view asks when it opens (web/src/views), of a job, an incident and hosts that the recording has."""
    jobs = [one["job"] for one in server.get(("jobs", LAST))["jobs"]]
    asked: dict[str, list[Ask]] = {
        "now": [("now", {**LAST, "cluster": ""})],
        "fleet": [("fleet", {"from": "-60s", "address": ""})],
        "jobs": [("jobs", {**LAST, "match": "", "cluster": ""})],
        "expectations": [("sle", {"window": window}) for window in ("5m", "1h", "24h", "30d")],
        "incidents": [("incidents", {**LAST, "state": "", "job": ""})],
        "clock": [("mesh", {"measure": "p99"}), ("clock", {})],
        "telemetry": [("telemetry", {}), ("doctor", {}), ("analyses", {}), ("series", {"match": "", "limit": "200"})],
    }
    if jobs:
        known: Ask = ("entities", {"match": "job:"})
        asked["job"] = _of_job(server, jobs[0])
        asked["graph"] = [known, ("graph", {"job": jobs[0], "at": "", "states": "true"})]
        asked["paths"] = [known, *_of_paths(server, jobs[0])]
    if len(hosts := server.get(asked["fleet"][0])["hosts"]) > 1:
        both: Ask = ("compare", {"a": f"host:{hosts[0]}", "b": f"host:{hosts[1]}"})
        if server.ask(both).is_success:  # else nothing was measured on them
            asked["compare"] = [("entities", {}), both]
    if incidents := server.get(asked["incidents"][0])["incidents"]:
        asked["incident"] = _of_incident(incidents[0])
    return {view: asked[view] for view in VIEWS if view in asked}


def _of_job(server: Server, job: str) -> list[Ask]:
    first: Ask = (f"jobs/{quote(job)}", {**LAST, "cluster": ""})
    now = server.get(first)["now"]
    until = {} if now["running"] else {"to": str(now["until_ns"] + S)}
    of = {"from": str(now["since_ns"]), "cluster": "", **until}
    at = {"at": until["to"]} if until else {}
    return [
        first,
        ("ledger", {"job": job, **of}),
        *((f"jobs/{quote(job)}/{part}", of) for part in ("steps", "lateness", "collectives")),
        ("overlays", {"job": job, **of}),
        ("messages", {"job": job, "cluster": "", "window": "4m", **at}),
    ]


def _of_paths(server: Server, job: str) -> list[Ask]:
    asked: list[Ask] = [("flows", {"job": job, "at": ""}), ("graph", {"job": job, "at": ""})]
    flows = [one for one in server.get(asked[0])["flows"] if one["src_rank"] and one["dst_rank"]]
    if flows:
        asked.append(("path", {"a": flows[0]["src_rank"], "b": flows[0]["dst_rank"], "at": ""}))
    return asked


def _of_incident(one: Mapping[str, Any]) -> list[Ask]:
    """With the plots of its first cause's evidence, and of its job's step time."""
    path = f"incidents/{quote(one['incident'])}"
    plots = [("step.seconds", f"job:{one['job']}", "false")] if one["job"] else []
    pieces = [piece for cause in one["causes"][:1] for piece in cause["evidence"] if piece["table"] == "anomaly"]
    plots += [(piece["what"], piece["entity"], "true") for piece in pieces[:2]]
    span = {"from": str(one["start_ns"] - 60 * S), "to": str((one["end_ns"] or one["seen_ns"]) + 60 * S)}
    return [
        (path, {}),
        (f"{path}/explanation", {}),
        ("marks", {"incident": one["incident"]}),
        *(
            ("samples", {"metric": metric, "entity": entity, "points": "240", "peers": peers, **span})
            for metric, entity, peers in plots
        ),
    ]


def _measured(server: Server, asked: list[Ask], rounds: int, *, write: bool) -> list[list[float]]:
    """Of each round what each answer took, ms."""
    found = []
    warm = min(WARM, rounds - 1)
    for place in range(warm + rounds):
        if write:
            server.write()
        took = [server.timed(each) for each in asked]
        if place >= warm:
            found.append(took)
    return found


# --- the server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is asked, one that has judged a recording; `process` where rows can be appended to it."""

    client: httpx.Client
    process: subprocess.Popen[str] | None = None

    def ask(self, ask: Ask) -> httpx.Response:
        """An answer, or a refusal."""
        return self.client.get(f"/api/v1/{ask[0]}", params=dict(ask[1]))

    def get(self, ask: Ask) -> dict[str, Any]:
        """What an answer says. Errors: httpx.HTTPStatusError."""
        answer: dict[str, Any] = self.ask(ask).raise_for_status().json()
        return answer

    def timed(self, ask: Ask) -> float:
        """How long an answer takes until all of it is here, ms."""
        begin_s = time.perf_counter()
        self.ask(ask).raise_for_status()
        return (time.perf_counter() - begin_s) * 1000

    def write(self) -> None:
        """Have a row of every table appended anew; returns when they are stored."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("write\n")
        self.process.stdin.flush()
        while self.process.stdout.readline().strip() != "written":
            assert self.process.poll() is None, "the server ended"


@contextmanager
def served(recording: Path, directory: Path, judged: bool = True) -> Iterator[Server]:
    """A server that has played a recording; `judged`: and analysed it whole."""
    port = free_port()
    program = "import sys; from bench.web_parts.answers import serve; serve(*sys.argv[1:])"
    told = [str(recording.resolve()), str(directory / "store"), str(port), "judged" if judged else ""]
    command = [sys.executable, "-c", program, *told]
    process = subprocess.Popen(
        bound_to_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False) as client:
            server = Server(client, process)
            _wait(lambda: process.poll() is not None or _judged(server))
            yield server
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _judged(server: Server) -> bool:
    """Whether everything was played and no window is left to judge."""
    try:
        played = server.get(("replay", {}))["state"] == "done"
        return played and not any(one["waiting"] for one in server.get(("analyses", {}))["analyses"])
    except httpx.HTTPError:
        return False


def _wait(look: Callable[[], bool]) -> None:
    """Until something was seen three times, half a second apart: an analysis may get work from another."""
    end_s, seen = time.monotonic() + JUDGED_S_MAX, 0
    while seen < 3:
        if time.monotonic() > end_s:
            raise TimeoutError(f"the recording was not judged within {JUDGED_S_MAX:.0f} s")
        seen = seen + 1 if look() else 0
        time.sleep(0.5)


def serve(recording: str, store: str, port: str, judged: str) -> None:
    """A replay at full speed that also appends a row of every table when a line comes in."""
    from leadline.server.config import Flag, load
    from leadline.server.replay_process import ReplayProcess

    told = {
        ("server", "port"): int(port), ("runner", "replay_file"): recording, ("runner", "replay_speed"): 0.0,
        ("store", "path"): store, ("store", "ttl"): False, ("runner", "enabled"): bool(judged),
    }  # fmt: skip
    process = ReplayProcess(load(flags=[Flag("bench", *key, value) for key, value in told.items()]))
    threading.Thread(target=_write_when_told, args=(process.store,), daemon=True).start()
    asyncio.run(process.run())


def _write_when_told(store: Any) -> None:
    from leadline.model.tables import TABLES
    from leadline.model.tables.verdicts import ANALYSIS_RUN
    from leadline.store.schema import arrow_table

    rows: dict[str, Any] = {}
    for count, _ in enumerate(sys.stdin):
        for table in TABLES:
            if table is ANALYSIS_RUN:
                continue
            if table.name not in rows:
                columns = ", ".join(f"`{column.name}`" for column in table.columns)
                newest = f"SELECT {columns} FROM leadline.{table.name} ORDER BY {table.time} DESC LIMIT 1"
                rows[table.name] = store.query(newest)
            store.append(table, rows[table.name])
        # Of an analysis that writes no table: a run that was there already would be a window that is judged again, as
        # only late rows bring it about.
        run = {"tenant": "default", "cluster": "default", "analysis": "bench", "part": "", "end_ns": count,
               "window_ns": 1, "version": 1, "revision": 0, "state": "done", "rows_in": 0, "rows_out": 0,
               "digest": bytes(16), "took_ns": 0, "error": ""}  # fmt: skip
        store.append(ANALYSIS_RUN, arrow_table(ANALYSIS_RUN, {name: [value] for name, value in run.items()}))
        print("written", flush=True)
