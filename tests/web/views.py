"""What each view shows of the recorded incident, and how it is known to be there."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "web"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"

FLAPPING = "from=2026-11-20T20:20:10Z&to=2026-11-20T20:21:38Z"  # while the link is down for the third time
# name of the picture: address, and a text that only the answer of the API can have put there
VIEWS = {
    "now": ("/", "lost its carrier"),
    "now-then": (f"/?{FLAPPING}", "What was open at"),
    "fleet": ("/fleet", "hosts, 8 GPUs"),
    "fleet-then": (f"/fleet?{FLAPPING}&at=host:h3", "carrier"),
    "jobs": ("/jobs", "bert-1"),
    "job": ("/jobs/bert-1", "all_reduce"),
    "job-rank": ("/jobs/bert-1?rank=5", "rank 5"),
    "graph": ("/graph?job=bert-1&time=2026-11-20T20:21:35Z", "leaf1"),
    "paths": ("/paths?job=bert-1", "10.1.1.1"),
    "expectations": ("/expectations", "nic-link"),
    "incidents": ("/incidents", "lost its carrier"),
    "clock": ("/clock", "No clock is fitted"),
    "telemetry": ("/telemetry", "collectives"),
    "compare": ("/compare?a=host:h6", "peers of host:h6"),
}
STILL_MS = 400


def settled(page: Page) -> None:
    """Wait until nothing loads any more: no part of the view is busy, and for a moment none begins to be."""
    page.wait_for_selector("main h1", timeout=60_000)
    page.wait_for_function(
        f"""() => {{
            const busy = document.querySelector('main [aria-busy="true"]') !== null;
            const now = performance.now();
            if (busy || window.lastBusy === undefined) window.lastBusy = now;
            return now - window.lastBusy > {STILL_MS};
        }}""",
        timeout=60_000,
    )
