"""The page in use: by keyboard, by link, live, and what is said on it is kept."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.senders.running import RunningLeadline, ndjson
from tests.web.views import settled

S = 10**9


def incident(url: str, part: str) -> str:
    """The id of the recorded incident whose cause's text has `part`."""
    found = httpx.get(f"{url}/api/v1/incidents", timeout=30.0).json()["incidents"]
    return next(str(one["incident"]) for one in found for cause in one["causes"] if part in cause["text"])


def test_keys_lead_everywhere(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(recorded)
    settled(page)
    for key, path in (("i", "/incidents"), ("e", "/expectations"), ("j", "/jobs"), ("n", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(rf"{re.escape(recorded)}{path}(\?.*)?$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("g i")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("combobox").first).to_be_focused()


def test_rows_are_followed_down_and_up_by_keyboard(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/incidents")
    settled(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/incidents/[^?]+"))
    settled(page)
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(r"/incidents(\?.*)?$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"/incidents/[^?]+"))


def test_the_query_box_completes_and_leads(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(recorded)
    settled(page)
    page.keyboard.press("/")
    page.keyboard.type("job:ber")
    page.get_by_role("option", name="job:bert-1").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/jobs/bert-1(\?.*)?$"))
    page.keyboard.press("/")
    page.keyboard.type("at:noon")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("expected 14:02")


def test_a_link_shows_the_same_to_somebody_else(recorded: str, open_page: Callable[..., Page]) -> None:
    one = open_page(f"{recorded}/expectations")
    settled(one)
    one.get_by_role("link", name="nic-link").first.click()
    expect(one.get_by_role("heading", name=re.compile("nic-link of"))).to_be_visible()
    settled(one)
    other = open_page(one.url)
    settled(other)
    assert other.locator("main h2").first.inner_text() == one.locator("main h2").first.inner_text()


def test_a_mark_is_kept_with_who_and_when(recorded: str, open_page: Callable[..., Page]) -> None:
    name = incident(recorded, "carrier")
    page = open_page(f"{recorded}/incidents/{name}")
    settled(page)
    page.get_by_role("button", name="right", exact=True).first.click()
    page.get_by_label("who").fill("ann")
    page.get_by_label("how you know").fill("swapped the cable")
    page.get_by_role("button", name="keep: right").click()
    expect(page.locator("main")).to_contain_text("ann")
    marks = httpx.get(f"{recorded}/api/v1/marks", params={"incident": name}, timeout=30.0).json()["marks"]
    assert [(each["mark"], "ann" in each["actor"], each["reason"]) for each in marks] == [
        ("right", True, "swapped the cable")
    ]
    again = open_page(page.url)
    settled(again)
    expect(again.locator("main")).to_contain_text("ann")


def test_a_name_that_there_is_not_is_told_with_what_to_do(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/nowhere", may_fail=True)
    expect(page.get_by_role("alert")).to_contain_text("There is no page /nowhere")


@pytest.fixture
def live(tmp_path: Path, built: None) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path) as server:
        yield server


def test_rows_that_come_show_without_a_reload(live: RunningLeadline, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{live.url}/jobs")
    settled(page)
    expect(page.locator("main")).not_to_contain_text("tide-1")
    now = time.time_ns()
    steps = [
        {"job": "tide-1", "rank": rank, "step": step, "start_ns": now + (step - 10) * S, "end_ns": now + (step - 9) * S,
         "metrics": {}}
        for rank in (0, 1) for step in range(9)
    ]  # fmt: skip
    headers = {"content-type": "application/x-ndjson"}
    httpx.post(f"{live.url}/api/v1/rows/step", content=ndjson(steps), headers=headers).raise_for_status()
    expect(page.locator("main")).to_contain_text("tide-1", timeout=20_000)


def test_an_empty_server_says_what_to_connect(live: RunningLeadline, open_page: Callable[..., Page]) -> None:
    for path in ("/", "/fleet", "/jobs", "/incidents", "/expectations", "/clock"):
        page = open_page(live.url + path)
        settled(page)
        expect(page.locator("main .command, main code").first).to_be_visible()


def test_a_server_that_goes_is_told_and_its_picture_stays(
    live: RunningLeadline, open_page: Callable[..., Page]
) -> None:
    page = open_page(f"{live.url}/telemetry", may_fail=True)
    settled(page)
    live.stop()
    expect(page.get_by_role("button", name="no connection")).to_be_visible(timeout=30_000)
    expect(page.locator("main h1")).to_be_visible()
