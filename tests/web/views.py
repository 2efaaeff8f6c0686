"""What each view shows of the recorded incident, and how it is known to be there."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "web"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"

# path: a text that only the answer of the API can have put there
VIEWS = {
    "/": "lost its carrier",
    "/fleet?over=span": "h6",
    "/jobs": "bert-1",
    "/jobs/bert-1": "all_reduce",
    "/graph?job=bert-1": "leaf1",
    "/paths?job=bert-1": "leaf1",
    "/expectations": "nic-link",
    "/incidents": "lost its carrier",
    "/clock": "No clock is fitted",
    "/telemetry": "collectives",
    "/compare?a=host:h6": "peers",
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
