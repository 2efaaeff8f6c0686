"""A real Chromium on a real server that was fed by a recorded incident, judged whole. Pictures go to build/web."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Playwright, ViewportSize, expect, sync_playwright
from tests.senders.running import free_ports, running, wait_for

from leadline.lab.incidents import incident
from leadline.server.page import BUILT

JUDGED_S_MAX = 240.0  # a recording of three minutes at full speed, on a busy machine
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
    directory = tmp_path_factory.mktemp("recorded")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "leadline.cli.main", "replay", str(incident("demo")), "--speed", "max",
        "--data-dir", str(directory / "store"), "--port", str(port),
    ]  # fmt: skip
    with running(command, directory / "log") as process:
        wait_for("the recording to be judged", lambda: _judged(process, url), JUDGED_S_MAX, 1.0)
        yield url


def _judged(process: subprocess.Popen[bytes], url: str) -> bool:
    """Whether both faults of the recording have their incident, and nothing is left to judge."""
    assert process.poll() is None, f"leadline replay ended with {process.returncode}"
    try:
        if httpx.get(f"{url}/api/v1/replay", timeout=30.0).json()["state"] != "done":
            return False
        incidents = httpx.get(f"{url}/api/v1/incidents", timeout=30.0).json()["incidents"]
    except (httpx.HTTPError, KeyError):
        return False
    return sum(bool(one["causes"]) for one in incidents) >= 2


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
