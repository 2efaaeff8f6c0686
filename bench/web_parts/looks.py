"""How many views of the page break the rules of accessibility, and how many are wider than a phone.

A recording is played whole and every view of it is opened by Chromium: in light and dark at 1440 px, in light at 390.
`axe_violations`: elements that axe-core finds against WCAG 2.0 to 2.2, A and AA, over all of these. `sideways_views`:
views whose document is wider than a phone's 390 px, so that it scrolls sideways; `header_share_390`: the largest part
of the phone's screen that the header takes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from bench.figures import Figure
from bench.web_parts import answers

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
HEADER_SHARE_MAX = 0.2  # of a phone's screen: what is left must show something
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
STILL_MS = 400
WAIT_MS = 60_000


def violations(page: Page) -> list[str]:
    """What axe finds: rule and element."""
    page.evaluate(AXE.read_text())  # past the page's policy, which takes no script but its own
    found = page.evaluate("async (rules) => (await axe.run({runOnly: rules})).violations", list(RULES))
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def settled(page: Page) -> None:
    """Wait until nothing loads any more: no part of the view is busy, and for a moment none begins to be."""
    page.wait_for_selector("main h1", timeout=WAIT_MS)
    page.wait_for_function(
        f"""() => {{
            const busy = document.querySelector('main [aria-busy="true"]') !== null;
            const now = performance.now();
            if (busy || window.lastBusy === undefined) window.lastBusy = now;
            return now - window.lastBusy > {STILL_MS};
        }}""",
        timeout=WAIT_MS,
    )


def on_phone(page: Page) -> tuple[int, float]:
    """Width of the document, px, and the header's share of the screen, on a phone."""
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(STILL_MS)
    width: int = page.evaluate("document.documentElement.scrollWidth")
    height: float = page.evaluate("document.querySelector('header').getBoundingClientRect().height")
    return width, height / PHONE["height"]


def paths_of(server: answers.Server) -> dict[str, str]:
    """The views, of the first job and the first incident that the recording has."""
    views = {
        view: f"/{view}" for view in ("fleet", "jobs", "expectations", "incidents", "clock", "telemetry", "explore")
    }
    views["now"] = "/"
    for job in server.get(("jobs", answers.LAST))["jobs"][:1]:
        name = quote(job["job"], safe="")
        views |= {"job": f"/jobs/{name}", "graph": f"/graph?job={name}", "paths": f"/paths?job={name}"}
    for incident in server.get(("incidents", answers.LAST))["incidents"][:1]:
        views["incident"] = f"/incidents/{quote(incident['incident'], safe='')}"
    for host in server.get(("fleet", {"from": "-60s"}))["hosts"][:1]:
        views["compare"] = f"/compare?a={quote(f'host:{host}')}"
        views["entity"] = f"/entity?of={quote(f'host:{host}')}"
    return views


def figures(recording: Path, browser: str, most: int = 0) -> list[Figure]:
    """The three figures over a recording; `browser`: Chromium's path; `most`: views at most, 0: all."""
    kept = tempfile.TemporaryDirectory(prefix="leadline-bench-")
    with kept as directory, answers.served(recording, Path(directory)) as server:
        views = dict(list(paths_of(server).items())[: most or None])
        broken, widths, shares = looked_at(str(server.client.base_url), views, browser)
    sideways = [view for view, width in widths.items() if width > PHONE["width"]]
    anchor = {"of": "views", "value": len(views)}
    return [
        Figure("axe_violations", len(broken), "1", 0.0, "lower", {**anchor, "seen": "; ".join(broken)}),
        Figure("sideways_views", len(sideways), "1", 0.0, "lower", {**anchor, "seen": ", ".join(sideways)}),
        Figure("header_share_390", max(shares), "ratio", HEADER_SHARE_MAX, "lower"),
    ]


def looked_at(url: str, views: Mapping[str, str], browser: str) -> tuple[list[str], dict[str, int], list[float]]:
    """What axe finds, with its view; of each view the width of its document on a phone; shares of its header."""
    from playwright.sync_api import sync_playwright

    broken, widths, shares = [], {}, []
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for view, path in views.items():
            for theme in THEMES:
                page = chromium.new_page(viewport=WIDE, color_scheme=theme)
                page.goto(url + path)
                settled(page)
                broken += [f"{view}, {theme}: {each}" for each in violations(page)]
                if theme == THEMES[0]:
                    widths[view], share = on_phone(page)
                    shares.append(share)
                    broken += [f"{view}, phone: {each}" for each in violations(page)]
                page.close()
        chromium.close()
    return broken, widths, shares
