"""The view Clock and mesh in a real Chromium, of rows that the test sends: shown, by keyboard, on a phone, themes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from tests.senders.running import RunningLeadline, ndjson, wait_for
from tests.unit.views.mesh.mesh_rows import S, agents_say, mesh_tables
from tests.web.views import looked_at

from leadline.model.tables import BY_NAME, Type

TIMES = ("/clock", "/clock?at=host:h1", "/clock?pair=h1~h3&dir=out", "/clock?group=workload&measure=lost")
SAID = ("nothing arrives", "its plots", "h1 to h3", "probes lost")


@pytest.fixture(scope="module")
def mesh(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that was told of the made mesh."""
    with RunningLeadline(tmp_path_factory.mktemp("mesh")) as running:
        end_ns = time.time_ns() // S * S
        # 429 while scanners are compiled, once on a machine.
        wait_for("agents", lambda: running.http.post("/v1/metrics", json=agents_say(end_ns)).is_success, 300.0, 1.0)
        for name, rows in mesh_tables(end_ns).items():
            given = BY_NAME[name].given
            if name == "series":
                continue
            sent = [
                {c.name: f"{row[c.name]:032x}" if c.type is Type.U128 and row[c.name] is not None else row[c.name]
                 for c in given}
                for row in rows
            ]  # fmt: skip
            headers = {"content-type": "application/x-ndjson"}
            assert running.http.post(f"/api/v1/rows/{name}", content=ndjson(sent), headers=headers).is_success
        yield running.url


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("path", "text"), list(zip(TIMES, SAID, strict=True)))
def test_it_looks_right(
    mesh: str, open_page: Callable[..., Page], path: str, text: str, theme: Literal["light", "dark"]
) -> None:
    name = re.sub(r"\W+", "-", path).strip("-")
    looked_at(open_page(mesh + path, theme), text, f"mesh-{name}-{theme}")


def test_a_host_is_reached_and_closed_by_keyboard(mesh: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{mesh}/clock?measure=p99")
    tiles = page.get_by_role("application").first
    expect(tiles).to_have_attribute("aria-label", re.compile("6 hosts by place, coloured by delay, 99th percentile"))
    tiles.focus()
    page.keyboard.press("ArrowRight")  # begins at the worst
    expect(page.get_by_role("status").filter(has_text="inbound: 8 µs ± 200 ns, 4 peers")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("at=host%3Ah3"))
    close = page.get_by_role("button", name="Close h3")
    expect(close).to_be_visible()
    page.get_by_role("row", name=re.compile("^h1 8 µs")).get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("h1 to h3"))).to_be_visible()


def test_unless_asked_the_board_shows_what_waits(mesh: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{mesh}/clock")
    tiles = page.get_by_role("application").first
    expect(tiles).to_have_attribute(
        "aria-label", re.compile("coloured by queueing, median, inbound: 4 good, 1 unknown")
    )


def test_threshold_direction_and_workload_change_what_is_bad(mesh: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{mesh}/clock?measure=p99")
    figures = page.locator(".figures")
    expect(figures).to_contain_text("1 slow, 1 dark, 1 not probed")
    page.get_by_role("button", name="outbound").click()
    expect(figures).to_contain_text("hosts healthy, 1 dark")
    page.get_by_label("threshold").fill("2")
    page.get_by_label("threshold").press("Enter")
    expect(figures).to_contain_text("1 slow, 1 dark")
    page.get_by_label("of whole fleet").select_option("bert-1")
    expect(figures).to_contain_text("/ 2")
    page.get_by_role("searchbox").last.fill("rack2")
    expect(page.get_by_text("1 of 2")).to_be_visible()


def test_queue_pairs_and_clocks_are_named(mesh: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{mesh}/clock")
    expect(page.get_by_role("row", name=re.compile("bert-1.*queue pair 17.*90 µs"))).to_be_visible()
    expect(page.get_by_text("4 of 6 not to be trusted")).to_be_visible()
    expect(page.get_by_text("on island 2: not comparable with clocks of island 1")).to_be_visible()


def test_a_pair_of_which_nothing_arrives_is_not_just_unknown(mesh: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{mesh}/clock")
    matrix = page.get_by_role("application").nth(1)
    matrix.focus()
    page.keyboard.press("End")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_text(re.compile("to h5: nothing arrives"))).to_be_visible()
