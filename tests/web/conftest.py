"""A real Chromium on a real server that was fed by a recorded incident, judged whole. Pictures go to build/web."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from bench.docs_commands.serve import replayed
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Playwright, ViewportSize, expect, sync_playwright

from leadline.server.page import BUILT

SIZE: ViewportSize = {"width": 1400, "height": 900}


@pytest.fixture(scope="session")
def built() -> None:
    """The page as `make test` built it."""
    if not (BUILT / "index.html").is_file():
        pytest.fail("the page was not built: scripts/build-page")


@pytest.fixture(scope="module")  # of the one file that asks for it: judging takes a minute
def recorded(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that replayed the recording of `make up`: a flapping link, then a slow worker. Who works
    on the page saves the minute: `leadline replay` of it goes on beside, LEADLINE_RECORDED_URL says where."""
    if beside := os.environ.get("LEADLINE_RECORDED_URL"):
        yield beside
        return
    with replayed(tmp_path_factory.mktemp("recorded")) as url:
        yield url


@pytest.fixture(scope="module")  # while it runs no other test of this process can run an event loop of its own
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=20_000)  # a machine that is busy with other tests
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """The system's Chromium. As root it has no sandbox of its own; it shows only our server's pages."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: scripts/install-programs chromium"
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=program, args=args)
    yield launched
    launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages; each must have said nothing in its console and thrown nothing when the test ends."""
    said: list[str] = []
    pages: list[Page] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(message.text)

    def thrown(error: Error) -> None:
        said.append(str(error))

    def opened(url: str, theme: Literal["light", "dark"] = "light", *, may_fail: bool = False) -> Page:
        page = browser.new_page(viewport=SIZE, color_scheme=theme)
        if not may_fail:  # a browser tells of each request that fails
            page.on("console", heard)
        page.on("pageerror", thrown)
        page.goto(url)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert said == []
