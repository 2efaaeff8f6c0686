"""Every view in light and dark on a recorded incident: it shows what was recorded, says nothing in the console, and axe
finds nothing. Then the page in use: by keyboard, by link, live, and what is said on it is kept.

One file, so that one process has it: the recording takes a minute to be judged."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from bench.docs_commands.parse import ROOT
from bench.docs_commands.run import failing
from playwright.sync_api import Page, expect
from tests.senders.running import RunningLeadline, ndjson
from tests.web.views import FLAPPING, VIEWS, incident, looked_at, settled, violations

pytestmark = pytest.mark.timeout(600)  # the first of them waits until the recording is judged

S = 10**9
THEMES = ["light", "dark"]
HEADINGS = (
    "What to do",
    "What it costs",
    "From the cause to the job",
    "How it is known",
    "People",
    "Earlier ones like it",
)
FOLDS = {"Explanation, sentence by sentence": "supporting facts", "Symptoms, and whom the time was lost on": "lost on",
         "Timeline": "reported as an incident", "Export": "report (HTML, one file)"}  # fmt: skip
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
    for heading in HEADINGS:
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    expect(
        page.get_by_role("group", name=re.compile("^From the cause to the job: .* affects job:bert-1$"))
    ).to_be_visible()
    for fold, text in FOLDS.items():
        page.get_by_text(fold, exact=True).click()
        expect(page.locator("details", has_text=fold)).to_contain_text(text)
    settled(page)
    assert violations(page) == []


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


def test_the_query_box_finds_and_leads(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(recorded)
    settled(page)
    page.keyboard.press("/")
    page.keyboard.type("thrott")
    expect(page.get_by_role("group", name="Metrics")).to_contain_text("container_cpu_cfs_throttled_seconds_total")
    expect(page.get_by_role("group", name="Incidents")).to_contain_text("less CPU time")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("carrier bert-1")
    page.get_by_role("option", name=re.compile("flapped 5 times")).wait_for()
    page.keyboard.press("Enter")  # the best hit
    expect(page).to_have_url(re.compile(rf"/incidents/{incident(recorded, 'carrier')}$"))
    page.keyboard.press("/")
    page.keyboard.type("job:ber")
    page.keyboard.press("Enter")  # before anything is shown
    expect(page).to_have_url(re.compile(r"/jobs/bert-1(\?.*)?$"))
    page.keyboard.press("/")
    page.keyboard.type("at:noon")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("expected 14:02")


def test_a_time_alone_stays_on_the_view_and_the_way_back_is_near(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/incidents?state=over")
    settled(page)
    expect(page.get_by_role("button", name="recording", exact=True)).to_be_visible()  # nothing of it is live
    page.keyboard.press("/")
    page.keyboard.type("at:20:21:30")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/incidents\?state=over&from="))
    shown = page.get_by_role("button", name="Nov 20, 20:19 to 20:24 UTC")
    expect(shown).to_be_visible()
    shown.click()
    panel = page.get_by_role("dialog", name="Time range")
    panel.get_by_label("from").fill("yesterday 20:00")
    panel.get_by_label("to", exact=True).fill("20:21:30")
    panel.get_by_role("button", name="show").click()
    expect(page.get_by_role("button", name="Nov 19, 20:00:00 to Nov 20, 20:21:30 UTC")).to_be_visible()
    page.go_back()
    expect(shown).to_be_visible()
    page.get_by_role("button", name="recording, paused").click()
    expect(page).to_have_url(re.compile(r"/incidents\?state=over$"))


def test_a_span_that_is_none_is_told(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/incidents?from=bogus")
    settled(page)
    expect(page.get_by_role("alert")).to_contain_text("got 'bogus'")
    page.get_by_role("button", name="show the last hour").click()
    expect(page.get_by_role("alert")).to_have_count(0)


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


def test_people_assign_an_incident_and_talk_about_it(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/incidents/{incident(recorded, 'less CPU')}")
    settled(page)
    for button, label, text, done in (
        ("assign…", "assign to", "pat", "assign"), ("comment…", "comment", "quota raised", "save"),
    ):  # fmt: skip
        page.get_by_role("button", name=button).click()
        page.get_by_label("who", exact=True).fill("ann")
        page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name=done, exact=True).click()
        expect(page.locator("form")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("assigned to pat")
    expect(page.locator("main")).to_contain_text("quota raised")


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/bert-1", "/incidents", "/expectations", "/telemetry", "/paths"])
def test_a_phone_scrolls_no_view_sideways(recorded: str, open_page: Callable[..., Page], path: str) -> None:
    page = open_page("about:blank")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(recorded + path)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_browser_that_blocks_its_storage_shows_the_page(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page("about:blank")
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    )
    page.goto(f"{recorded}/incidents")
    settled(page)
    page.get_by_role("button", name="Turn dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_name_that_there_is_not_is_told_with_what_to_do(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/nowhere", may_fail=True)
    expect(page.get_by_role("alert")).to_contain_text("There is no page /nowhere")


def test_filters_stand_in_the_url_and_narrow_what_is_shown(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/incidents")
    settled(page)
    expect(page.locator("main tbody tr")).to_have_count(2)
    page.get_by_role("button", name="open", exact=True).click()
    expect(page).to_have_url(re.compile(r"[?&]state=open"))
    expect(page.locator("main tbody tr")).to_have_count(0)
    page.go_back()
    expect(page.locator("main tbody tr")).to_have_count(2)
    page.goto(f"{recorded}/jobs")
    page.get_by_label("Part of the name").fill("bert-9")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]match=bert-9"))
    expect(page.locator("main")).not_to_contain_text("bert-1")
    page.goto(f"{recorded}/fleet")
    page.get_by_label(re.compile("Show hosts with this name")).fill("h3")
    expect(page.get_by_role("status").first).to_have_text("1 of 8")
    expect(page).to_have_url(re.compile(r"[?&]find=h3"))


def test_where_a_fleet_is_looked_at_stands_in_the_url(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/fleet?{FLAPPING}")
    settled(page)
    map_of_tiles = page.get_by_role("application")
    whole = map_of_tiles.screenshot()
    page.get_by_role("button", name="Zoom in").click()
    expect(page).to_have_url(re.compile(r"[?&]view=[\d.]+_[\d.]+_[\d.]+"))
    other = open_page(page.url)
    settled(other)
    expect(other.get_by_role("button", name="all", exact=True)).to_be_enabled()
    assert other.get_by_role("application").screenshot() != whole
    other.get_by_role("button", name="all", exact=True).click()
    expect(other).not_to_have_url(re.compile("view="))
    box = map_of_tiles.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("complementary")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]at=host"))


def test_a_link_to_an_entity_leads_to_its_page_and_on(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/fleet?{FLAPPING}&at=host:h3")
    settled(page)
    page.get_by_role("complementary").get_by_role("link", name="h3/eth0").first.click()
    expect(page).to_have_url(re.compile(r"/entity\?of="))
    expect(page.locator("main h1")).to_contain_text("h3/eth0")
    settled(page)
    page.get_by_role("link", name="host:h3").first.click()
    expect(page.locator("main h1")).to_have_text(re.compile(r"Host\s+h3"))
    page.get_by_role("link", name="bert-1", exact=True).first.click()
    expect(page).to_have_url(re.compile(r"/jobs/bert-1"))


def test_a_cell_of_the_heat_map_opens_into_single_collectives(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/jobs/bert-1")
    settled(page)
    expect(page.locator("main")).to_contain_text("GPUs, ports and hosts")
    late = page.get_by_role("application", name=re.compile("Lateness of ranks"))
    late.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"rank=\d+.*calls=\d+"))
    expect(page.locator("main")).to_contain_text(re.compile(r"Collectives of rank \d+"))
    with page.expect_download() as got:
        page.get_by_role("link", name="Perfetto trace").click()
    assert got.value.suggested_filename == "bert-1.trace.json"


def test_a_metric_is_filtered_and_grouped_and_the_url_says_so(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{recorded}/explore", may_fail=True)
    settled(page)
    page.get_by_label("metric", exact=True).fill("node_network_receive_bytes_total")
    page.get_by_role("button", name="show", exact=True).click()
    expect(page).to_have_url(re.compile(r"name=node_network_receive_bytes_total"))
    settled(page)
    page.get_by_label("where", exact=True).fill("host=h3")
    page.keyboard.press("Enter")
    page.get_by_label("a line for").select_option("device")
    expect(page).to_have_url(re.compile(r"where=host%3Dh3.*by=device"))
    settled(page)
    expect(page.locator("main tbody tr")).to_have_count(3)
    page.get_by_label("where", exact=True).fill("host~=(")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no regular expression")


def test_a_moment_of_the_past_shows_what_was_open_then(recorded: str, open_page: Callable[..., Page]) -> None:
    then = open_page(f"{recorded}/?{FLAPPING}")
    settled(then)
    expect(then.locator("main")).to_contain_text("1 incident open then")
    expect(then.get_by_role("button", name="paused")).to_be_visible()
    expect(then.locator("main")).not_to_contain_text("less CPU")  # it began later


def test_an_error_of_the_api_is_told_with_what_to_do(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page("about:blank", may_fail=True)
    refused = '{"error": {"reason": "store", "message": "the disk is full"}}'
    page.route("**/api/v1/incidents?*", lambda route: route.fulfill(status=503, body=refused))
    page.goto(f"{recorded}/incidents")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("the disk is full")
    expect(told).to_contain_text("GET /api/v1/incidents")
    expect(told).to_contain_text("leadline doctor")


def test_a_view_that_fails_says_so_and_leaves_the_menu(recorded: str, open_page: Callable[..., Page]) -> None:
    page = open_page("about:blank", may_fail=True)
    page.route("**/api/v1/jobs?*", lambda route: route.fulfill(body='{"jobs": [null]}'))
    page.goto(f"{recorded}/jobs")
    expect(page.get_by_role("alert")).to_contain_text("This view failed")
    page.get_by_role("link", name="Incidents").click()
    expect(page.locator("main")).to_contain_text("flapped")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[RunningLeadline]:
    """One server for what follows, which goes from empty to full to gone."""
    with RunningLeadline(tmp_path_factory.mktemp("live")) as server:
        yield server


def test_an_empty_server_says_what_to_connect(live: RunningLeadline, open_page: Callable[..., Page]) -> None:
    for path in ("/", "/fleet", "/jobs", "/incidents", "/expectations", "/clock"):
        page = open_page(live.url + path)
        settled(page)
        expect(page.locator("main .command, main code").first).to_be_visible()


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


def test_one_of_several_clusters_is_chosen_and_links_keep_it(
    live: RunningLeadline, open_page: Callable[..., Page]
) -> None:
    for cluster in ("east", "west"):
        told = {"from_ns": time.time_ns() - 60 * S, "to_ns": None, "source": "test", "confidence": 1.0}
        rank = f"rank:{cluster}-job/0"
        rows = [
            {"child": rank, "parent": f"host:{cluster}-h1", "kind": "runs-on", **told},
            {"child": rank, "parent": f"job:{cluster}-job", "kind": "in", **told},
        ]
        headers = {"content-type": "application/x-ndjson", "leadline-cluster": cluster}
        httpx.post(f"{live.url}/api/v1/rows/relation", content=ndjson(rows), headers=headers).raise_for_status()
    page = open_page(f"{live.url}/fleet", may_fail=True)
    expect(page.get_by_role("alert")).to_contain_text("Choose a cluster above", timeout=20_000)
    page.get_by_label("Cluster").select_option("west")
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("^1 host "))
    page.get_by_role("link", name="Graph").click()
    expect(page).to_have_url(re.compile(r"/graph\?(.*&)?cluster=west"))
    expect(page.locator("main")).to_contain_text("west-h1")
    expect(page.locator("main")).not_to_contain_text("east-h1")


def test_a_server_that_goes_is_told_and_its_picture_stays(
    live: RunningLeadline, open_page: Callable[..., Page]
) -> None:
    page = open_page(f"{live.url}/telemetry", may_fail=True)
    settled(page)
    live.stop()
    expect(page.get_by_role("button", name="no connection")).to_be_visible(timeout=30_000)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("No answer from the server since .* every 3 s"))
    page.get_by_role("link", name="Expectations").click()
    expect(page.locator("main")).to_have_text(re.compile("Expectations is shown as soon as the server answers"))


def test_commands_on_pages_do_what_the_pages_say(recorded: str) -> None:
    """Here because of the recording, and last because it marks verdicts."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert "\n".join(map(str, failing(pages, recorded))) == ""
