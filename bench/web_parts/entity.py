"""How long the page of an entity takes from the click until its plots are drawn, in Chromium on a real server.

`entity_page_ms`: over a recorded incident, `entity_page_ms_1k`: over twenty minutes of a simulated fleet of 1,000 GPUs.
Each is the median over a host, a GPU, a port, a link and a switch, each opened `rounds` times from another one's page,
so that the code of the view is loaded. Nothing is written meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.figures import Figure
from bench.web_parts.answers import Server, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE_MS = 300.0
PAUSE_S = 1.0  # before each click, so that what the page before asked for last (its expectations) is answered
FLEET_GPUS, FLEET_MINUTES = 1000, 20.0
WAIT_MS = 60_000
NAMES = ("entity_page_ms", "entity_page_ms_1k")

# A click on a link to the entity, as one on the page would be; until its plots are drawn.
_CLICK = """async (href) => {
    const link = document.createElement("a");
    link.href = href;
    document.querySelector("main").append(link);
    performance.clearMarks("leadline:entity");
    const begin = performance.now();
    link.click();
    while (!performance.getEntriesByName("leadline:entity").length) await new Promise(requestAnimationFrame);
    if (!document.querySelectorAll("main canvas").length) throw new Error("no plot was drawn of " + href);
    return performance.getEntriesByName("leadline:entity")[0].startTime - begin;
}"""


def figures(recording: Path, rounds: int, chromium: str) -> list[Figure]:
    """Both figures; without Chromium only why not."""
    if not chromium:
        return [Figure(name, None, "ms", PAGE_MS, "lower", reason="no Chromium: install chromium") for name in NAMES]
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as kept:
        directory = Path(kept)
        with served(recording, directory / "recorded") as server:
            recorded = _measured(server, rounds, chromium)
        with served(_fleet(directory), directory / "fleet", judged=False) as server:
            fleet = _measured(server, rounds, chromium)
    return [Figure(name, value, "ms", PAGE_MS, "lower") for name, value in zip(NAMES, (recorded, fleet), strict=True)]


def _fleet(directory: Path) -> Path:
    """A bundle of a simulated fleet."""
    path = directory / "fleet.leadline"
    wanted = ["--gpus", str(FLEET_GPUS), "--minutes", str(FLEET_MINUTES), "--seed", "3", "--to", str(path)]
    command = [sys.executable, "-m", "leadline.cli.main", "lab", "simulate", *wanted]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def entities(server: Server) -> list[str]:
    """One of each kind: a host, and a GPU, port, link and switch that a job uses."""
    found = []
    for kind in ("host", "gpu", "port"):
        names = server.get(("entities", {"match": f"{kind}:", "limit": "1000"}))["entities"]
        found.append(next(name for name in names if name.startswith(f"{kind}:")))
    links = [each for each in server.get(("entity", {"of": found[2]}))["near"] if each["link"]]
    if links:
        found += [links[0]["link"], f"switch:{links[0]['entity'].partition(':')[2].partition('/')[0]}"]
    return found


def _measured(server: Server, rounds: int, chromium: str) -> float:
    from playwright.sync_api import sync_playwright

    some = entities(server)
    url = str(server.client.base_url).rstrip("/")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.goto(f"{url}/entity?of={some[-1]}")
        page.wait_for_function("() => performance.getEntriesByName('leadline:entity').length > 0", timeout=WAIT_MS)
        took = [_click(page, entity) for _ in range(rounds) for entity in some]
        browser.close()
    return float(median(took))


def _click(page: Page, entity: str) -> float:
    time.sleep(PAUSE_S)
    return float(page.evaluate(_CLICK, f"/entity?of={entity}"))
