"""Every view in light and dark: it shows what was recorded, says nothing in the console, and axe finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.web.views import AXE, PICTURES, VIEWS, settled


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", VIEWS)
def test_a_view_shows_what_was_recorded(recorded: str, open_page: Callable[..., Page], path: str, theme: str) -> None:
    page = open_page(recorded + path, theme)
    expect(page.locator("main")).to_contain_text(VIEWS[path], timeout=60_000)
    settled(page)
    name = path.partition("?")[0].strip("/").replace("/", "-") or "now"
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}-{theme}.png")
    assert page.locator("[role=alert]").all_inner_texts() == []
    assert violations(page) == []


def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.1 A and AA: rule and element."""
    page.evaluate(AXE.read_text())  # past the page's policy, which takes no script but its own
    found = page.evaluate(
        "async () => (await axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})).violations"
    )
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
