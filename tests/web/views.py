"""What each view shows of the recorded incident, how it is known to be there, and what is asked of every view."""

from __future__ import annotations

from pathlib import Path

import httpx
from bench.web_parts.looks import HEADER_SHARE_MAX, PHONE, on_phone, settled, violations
from playwright.sync_api import Page, expect

PICTURES = Path(__file__).parents[2] / "build" / "web"

FLAPPING = "from=2026-11-20T20:20:10Z&to=2026-11-20T20:21:38Z"  # while the link is down for the third time
# name of the picture: address, and a text that only the answer of the API can have put there
VIEWS = {
    "now": ("/", "flapped"),
    "now-then": (f"/?{FLAPPING}", "What was open at"),
    "fleet": ("/fleet", "hosts, 8 GPUs"),
    "fleet-then": (f"/fleet?{FLAPPING}&at=host:h3", "carrier"),
    "jobs": ("/jobs", "bert-1"),
    "job": ("/jobs/bert-1", "all_reduce"),
    "job-rank": ("/jobs/bert-1?rank=5", "rank 5"),
    "graph": ("/graph?job=bert-1&time=2026-11-20T20:21:35Z", "leaf1"),
    "paths": ("/paths?job=bert-1", "10.1.1.1"),
    "expectations": ("/expectations", "nic-link"),
    "incidents": ("/incidents", "flapped"),
    "clock": ("/clock", "No clock is fitted"),
    "entity-host": ("/entity?of=host:h6", "Held back by its CPU quota"),
    "entity-gpu": ("/entity?of=gpu:GPU-b63578af-d2aa-51b2-8827-aca12008be50", "h6 GPU 0"),
    "entity-port": ("/entity?of=port:h3/eth0", "Carrier changes"),
    "entity-link": ("/entity?of=link:h3/eth0~leaf1/Ethernet3", "h3/eth0: carrier"),
    "entity-switch": ("/entity?of=switch:leaf1", "the ports of this switch"),
    "explore": ("/explore?name=DCGM_FI_DEV_POWER_USAGE", "h6 GPU 0"),
    "explore-all": ("/explore", "node_cpu_seconds_total"),
    "telemetry": ("/telemetry", "collectives"),
    "compare": ("/compare?a=host:h6", "peers of host:h6"),
}


def looked_at(page: Page, text: str, name: str) -> None:
    """It says `text`, nothing went wrong, axe finds nothing; the picture is kept under `name`.

    In light also on a phone: nothing scrolls sideways, and the header leaves most of the screen."""
    expect(page.locator("main")).to_contain_text(text, timeout=60_000)
    settled(page)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")
    assert page.locator("[role=alert]").all_inner_texts() == []
    found = violations(page)
    assert not found, found
    if name.endswith("light"):
        width, header = on_phone(page)
        page.screenshot(path=PICTURES / f"{name.removesuffix('light')}phone.png", full_page=True)
        assert width <= PHONE["width"]
        assert header <= HEADER_SHARE_MAX
        found = violations(page)
        assert not found, found


def incident(url: str, part: str) -> str:
    """The id of the recorded incident whose cause's text has `part`."""
    found = httpx.get(f"{url}/api/v1/incidents", timeout=30.0).json()["incidents"]
    return next(str(one["incident"]) for one in found for cause in one["causes"] if part in cause["text"])
