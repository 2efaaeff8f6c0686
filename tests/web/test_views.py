"""Every view in light and dark: it shows what was recorded, says nothing in the console, and axe finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.web.views import AXE, PICTURES, VIEWS, settled

THEMES = ["light", "dark"]
CAUSES = {"incident-link": "lost its carrier", "incident-host": "less CPU"}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_what_was_recorded(recorded: str, open_page: Callable[..., Page], name: str, theme: str) -> None:
    path, text = VIEWS[name]
    looked_at(open_page(recorded + path, theme), text, f"{name}-{theme}")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", CAUSES)
def test_an_incident_shows_its_cause_with_evidence_and_what_to_do(
    recorded: str, open_page: Callable[..., Page], name: str, theme: str
) -> None:
    page = open_page(f"{recorded}/incidents/{incident(recorded, CAUSES[name])}", theme)
    looked_at(page, CAUSES[name], f"{name}-{theme}")
    for heading in ("What hurts", "Explanation", "Timeline", "Take it along"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()


def looked_at(page: Page, text: str, name: str) -> None:
    """It says `text`, nothing went wrong, axe finds nothing; the picture is kept under `name`."""
    expect(page.locator("main")).to_contain_text(text, timeout=60_000)
    settled(page)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")
    assert page.locator("[role=alert]").all_inner_texts() == []
    assert violations(page) == []


def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.1 A and AA: rule and element."""
    page.evaluate(AXE.read_text())  # past the page's policy, which takes no script but its own
    found = page.evaluate(
        "async () => (await axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})).violations"
    )
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def incident(url: str, part: str) -> str:
    """The id of the recorded incident whose cause's text has `part`."""
    found = httpx.get(f"{url}/api/v1/incidents", timeout=30.0).json()["incidents"]
    return next(str(one["incident"]) for one in found for cause in one["causes"] if part in cause["text"])
