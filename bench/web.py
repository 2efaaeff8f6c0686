"""Figures of the page: how much loads first, how a fleet of 100,000 GPUs shows and moves, how long answers take.

    python bench/web.py [--json] [--only page|answers|entity|search|looks] [--gpus 100000] [--rounds 3] [--frames 240]
        [--page src/leadline/server/page] [--recording demo] [--answers 20] [--entities 3] [--series 1000000]
        [--views 0]

The built page runs in the system's Chromium over a small server that answers `/api/v1/fleet` as Leadline would for a
simulated fleet (pods and leaves of `simulator`, 8 GPUs a host, a tile per host), compressed. First paint: from the
navigation until the tiles are on the canvas. Frames: while the whole fleet is dragged over the screen, one step of
the pointer a frame; a browser makes 60 a second at most. `..._tiles` is the same with one tile per GPU.

`entity_page_ms`: from a click until the plots of an entity are drawn; see bench/web_parts/entity.py.
`api_...`: what the API takes for what each view asks, over a recorded incident; see bench/web_parts/answers.py.
`axe_violations`, `sideways_views`: how the views of a recording look, wide and on a phone; bench/web_parts/looks.py.
`search_...`: what a search takes over a million metric series; see bench/web_parts/search.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.figures import Figure, conditions, tell
from bench.web_parts import answers, entity, looks, search
from leadline.lab.incidents import incident
from leadline.simulator.fleet import Fleet

if TYPE_CHECKING:
    from playwright.sync_api import Response, ViewportSize

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "src" / "leadline" / "server" / "page"
FIRST_LOAD_KB, PAINT_MS, FRAMES = 300.0, 1000.0, 50.0
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
WAIT_MS = 60_000
SIZE: ViewportSize = {"width": 1600, "height": 1000}
NOW_NS = 1_750_000_000 * 10**9


def fleet_answer(gpus: int, gpus_per_host: int, seed: int) -> dict[str, Any]:
    """What `/api/v1/fleet` says of a simulated fleet: jobs on most hosts, one host in 200 not good."""
    fleet, rng = Fleet(gpus, gpus_per_host), np.random.default_rng(seed)
    hosts = fleet.hosts
    place = np.arange(hosts)
    pod = place // fleet.pod_hosts
    jobs, job_of = _jobs(hosts, rng)
    state = np.where(rng.random(hosts) < 0.002, 4, np.where(rng.random(hosts) < 0.003, 3, 0))
    state[rng.random(hosts) < 0.001] = 2
    odd = np.flatnonzero(state >= 3)
    return {
        "schema": 1, "from_ns": NOW_NS - 60 * 10**9, "to_ns": NOW_NS, "cluster": "default", "why": "",
        "hosts": fleet.host_names.to_pylist(), "gpus": [gpus_per_host] * hosts,
        "states": ["good", "suppressed", "unknown", "watch", "bad"], "state": state.tolist(),
        "jobs": jobs, "jobs_of": [[int(job)] if job >= 0 else [] for job in job_of],
        "tags": [
            {"name": "ecmp", "values": [f"leaf{at * fleet.rails + 1} … leaf{(at + 1) * fleet.rails}"
                                        for at in range(fleet.pods)], "of": pod.tolist()},
            {"name": "pod", "values": [f"p{at // 8 + 1}" for at in range(0, fleet.pods, 8)], "of": (pod // 8).tolist()},
            {"name": "rack", "values": [f"r{at + 1}" for at in range(hosts // 8 + 1)], "of": (place // 8).tolist()},
        ],
        "loss": _ways(rng.exponential(2e-6, (2, hosts))), "errors": _ways(rng.poisson(0.001, (2, hosts)) / 60),
        "load": _ways(rng.beta(8, 6, (2, hosts))), "delay_ns": _ways(rng.gamma(9, 900, (2, hosts))),
        "bytes_per_s": _ways(rng.gamma(9, 2e10, (2, hosts))),
        "nics_total": [fleet.rails] * hosts, "nics_healthy": (fleet.rails - (state == 4)).tolist(),
        "reasons": [{"host": int(at), "state": "bad" if state[at] == 4 else "watch", "text": "link-flapping",
                     "entity": f"port:h{at + 1}/eth1", "since_ns": NOW_NS - 10**11, "port": f"h{at + 1}/eth1",
                     "incident": None} for at in odd],
        "ports": [{"host": int(at), "name": "eth1", "place": 1, "state": "bad", "text": "no carrier"}
                  for at in np.flatnonzero(state == 4)],
        "nics": {"total": fleet.rails * hosts, "healthy": int(fleet.rails * hosts - (state == 4).sum()), "unknown": 0},
        "at_address": None,
    }  # fmt: skip


def _jobs(hosts: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Jobs of 1 to 512 hosts one after another, some hosts between them free."""
    jobs: list[dict[str, Any]] = []
    job_of = np.full(hosts, -1)
    at = 0
    while at < hosts:
        size = min(hosts - at, int(2 ** rng.integers(0, 10)))
        if rng.random() < 0.9:
            job_of[at : at + size] = len(jobs)
            jobs.append({"job": f"train-{len(jobs) + 1}", "tenant": "acme", "hosts": size, "ranks": size * 8,
                         "running": True})  # fmt: skip
        at += size
    return jobs, job_of


def _ways(of_2H: np.ndarray) -> dict[str, list[float]]:
    inbound, outbound = ([float(f"{value:.4g}") for value in row] for row in of_2H)
    return {"inbound": inbound, "outbound": outbound}


@contextmanager
def serving(page: Path, answer: dict[str, Any]) -> Iterator[str]:
    """A server of the built page whose fleet is this answer. Yields its address."""
    packed = {
        "/api/v1/fleet": gzip.compress(json.dumps(answer, separators=(",", ":")).encode(), 5),
        "/api/v1/entities": gzip.compress(b'{"schema":1,"entities":[],"total":0}'),
    }
    said = f"data: {json.dumps({'now_ns': NOW_NS, 'tables': {}})}\n\n".encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/api/v1/changes":
                self._send(200, "text/event-stream", said, packed=False)
            elif path in packed:
                self._send(200, "application/json", packed[path])
            elif path.startswith("/api/"):
                self._send(
                    404, "application/json", gzip.compress(b'{"error":{"reason":"not_found","message":"bench"}}')
                )
            else:
                file = page / path.lstrip("/")
                file = file if file.is_file() else page / "index.html"
                self._send(200, TYPES.get(file.suffix, "application/octet-stream"), gzip.compress(file.read_bytes(), 6))

        def _send(self, status: int, kind: str, body: bytes, packed: bool = True) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if packed:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def missing(page: Path) -> str:
    """Why nothing can be measured here; empty if it can."""
    if not (page / "index.html").is_file():
        return f"the page is not built: {page}; run make up, or npm run build in web/"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install 'leadline[test]'"
    return "" if chromium() else "no Chromium: install chromium"


def chromium() -> str:
    """The system's Chromium; empty if there is none."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
    )


# One step of the pointer in each frame, around in a circle; the time from the first frame to the last.
_DRAG = """async (frames) => {
    const canvas = document.querySelector("main canvas");
    const box = canvas.getBoundingClientRect();
    const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, bubbles: true, button: 0, clientX: box.x + x, clientY: box.y + y }));
    canvas.setPointerCapture = () => undefined;
    const at = (frame) => [box.width / 2 + 300 * Math.sin(frame / 20), box.height / 2 + 200 * Math.cos(frame / 20)];
    send("pointerdown", ...at(0));
    const times = [];
    for (let frame = 0; frame <= frames; frame += 1) {
        times.push(await new Promise(requestAnimationFrame));
        send("pointermove", ...at(frame));
    }
    send("pointerup", ...at(frames));
    return times;
}"""


def _count(sizes: list[int], answer: Response) -> None:
    sizes.append(_size(answer.headers, answer.url))


def measured(url: str, rounds: int, frames: int) -> dict[str, float]:
    """Paint in ms and frames per second: medians of `rounds`; `slowest_ms`: the 95th percentile of frames."""
    from playwright.sync_api import sync_playwright

    paints, rates, slow, loads = [], [], [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for _ in range(rounds):
            tab = browser.new_page(viewport=SIZE)  # with its own cache
            sizes: list[int] = []
            tab.on("response", partial(_count, sizes))
            tab.goto(f"{url}/fleet")
            tab.wait_for_function("performance.getEntriesByName('leadline:tiles').length > 0", timeout=WAIT_MS)
            paints.append(tab.evaluate("performance.getEntriesByName('leadline:tiles')[0].startTime"))
            loads.append(sum(sizes) / 1000)
            time.sleep(0.5)  # until the first picture's leftovers are done
            times = np.array(tab.evaluate(_DRAG, frames))
            rates.append(1000 * (len(times) - 1) / (times[-1] - times[0]))
            slow.append(float(np.percentile(np.diff(times), 95)))
            tab.close()
        browser.close()
    told = {"paint_ms": paints, "frames": rates, "slowest_ms": slow, "load_kb": loads}
    return {name: float(median(values)) for name, values in told.items()}


def _size(headers: dict[str, str], url: str) -> int:
    return 0 if "/api/" in url else int(headers.get("content-length", 0))


def figures(args: argparse.Namespace) -> list[Figure]:
    """All figures that are wanted."""
    found = page_figures(args) if args.only in ("", "page") else []
    path = Path(args.recording)
    recording = path if path.suffix else incident(args.recording)
    if args.only in ("", "answers"):
        found += answers.figures(recording, args.answers)
    if args.only in ("", "entity") and args.entities:
        found += entity.figures(recording, args.entities, "" if missing(Path(args.page)) else chromium())
    if args.only in ("", "looks"):
        found += look_figures(recording, Path(args.page), args.views)
    if args.only in ("", "search"):
        found += search.figures(args.series, args.rounds)
    return found


def look_figures(recording: Path, page: Path, most: int) -> list[Figure]:
    """How the views look; without a value, and with the reason, where browser, page or axe-core is missing."""
    why = missing(page) or ("" if looks.AXE.is_file() else "axe-core is not installed: npm ci in web/")
    if why:
        return [Figure(name, None, "1", 0.0, "lower", reason=why) for name in ("axe_violations", "sideways_views")]
    return looks.figures(recording, chromium(), most)


def page_figures(args: argparse.Namespace) -> list[Figure]:
    """Figures of the page; without a value, and with the reason, where the browser or the page is missing."""
    names = (
        ("first_load_kb", "kB", FIRST_LOAD_KB, "lower", "load_kb"),
        ("first_paint_ms_100k", "ms", PAINT_MS, "lower", "paint_ms"),
        ("frames_per_s_100k", "1/s", FRAMES, "higher", "frames"),
        ("frame_p95_ms_100k", "ms", None, "lower", "slowest_ms"),
    )
    page = Path(args.page)
    if why := missing(page):
        return [Figure(name, None, unit, target, better, reason=why) for name, unit, target, better, _ in names]
    with serving(page, fleet_answer(args.gpus, 8, args.seed)) as url:
        found = measured(url, args.rounds, args.frames)
    with serving(page, fleet_answer(args.gpus, 1, args.seed)) as url:
        tiles = measured(url, 1, args.frames)
    told = [Figure(name, found[key], unit, target, better) for name, unit, target, better, key in names]
    return [
        *told,
        Figure("first_paint_ms_100k_tiles", tiles["paint_ms"], "ms", None, "lower"),
        Figure("frames_per_s_100k_tiles", tiles["frames"], "1/s"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", default=str(PAGE), help="the built page")
    kinds = ("", "page", "answers", "entity", "search", "looks")
    parser.add_argument("--only", choices=kinds, default="", help="figures of one kind")
    parser.add_argument("--recording", default="demo", help="a recorded incident by its name, or a bundle's path")
    parser.add_argument("--answers", type=int, default=20, help="rounds of questions per view")
    parser.add_argument("--entities", type=int, default=3, help="rounds of pages of entities; 0: none")
    parser.add_argument("--views", type=int, default=0, help="whose looks are judged, at most; 0: all")
    parser.add_argument("--series", type=int, default=search.SERIES, help="stored while a search is timed")
    args = parser.parse_args(argv)
    under = conditions(
        args.seed, gpus=args.gpus, rounds=args.rounds, frames=args.frames, recording=Path(args.recording).stem,
        answers=args.answers, entities=args.entities, series=args.series,
    )  # fmt: skip
    tell("web", under, figures(args), args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
