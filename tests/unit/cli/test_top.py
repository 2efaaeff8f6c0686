"""`leadline top`: its rows, and its screen driven by keys, over what a server answered of the recorded incident."""

from __future__ import annotations

import asyncio
import builtins
import copy
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from leadline.cli.top import rows as top_rows
from leadline.cli.top import top as verb
from leadline.cli.top.app import Top
from leadline.model.errors import UsageError, WorldError

ANSWERS: dict[str, Any] = json.loads((Path(__file__).parent / "top_answers.json").read_text())
NOW, JOBS, FLEET = "/api/v1/now", "/api/v1/jobs", "/api/v1/fleet"


class Server:
    """Answers as they were recorded; a test changes them, or takes the server away."""

    def __init__(self) -> None:
        self.answers = copy.deepcopy(ANSWERS)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.gone = False

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        self.asked.append((path, params))
        if self.gone:
            raise WorldError("no Leadline answers at http://127.0.0.1:1")
        found: dict[str, Any] = copy.deepcopy(self.answers[path])
        return found


def driven(server: Server, steps: Callable[[Top, Pilot[None]], Coroutine[Any, Any, None]]) -> None:
    """Run the screen and do the steps."""

    async def run() -> None:
        app = Top(server.get, every_s=3600)
        async with app.run_test(size=(150, 48)) as pilot:
            await settled(app, pilot)
            await steps(app, pilot)

    asyncio.run(run())


async def settled(app: Top, pilot: Pilot[None]) -> None:
    """The round of questions under way is over and shown."""
    await app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.pause()


def text(app: Top, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


def cells(app: Top, name: str, at: int = 0) -> list[str]:
    return [str(cell) for cell in app.query_one(f"#{name}", DataTable).get_row_at(at)]


def test_shows_jobs_incidents_hosts_and_what_to_do() -> None:
    async def steps(app: Top, pilot: Pilot[None]) -> None:
        assert "GPU-s lost" in text(app, "head")
        assert cells(app, "jobs")[1:4] == ["bert-1", "8", "8"]
        assert [cells(app, "hosts", at)[1] for at in range(8)] == [f"h{at + 1}" for at in range(8)]
        await pilot.press("i")
        await pilot.pause()
        assert cells(app, "incidents")[5:7] == ["host:h6 cpu-throttled", "0.99"], "never certain"
        assert "throttled" in text(app, "told")
        await pilot.press("down")
        await pilot.pause()
        assert "link:h3/eth0~leaf1/Ethernet3" in text(app, "told")
        await pilot.press("h")
        await pilot.pause()
        assert "leadline compare host:h1" in text(app, "told")

    driven(Server(), steps)


def test_a_key_sorts_by_the_next_column_and_the_last_one_leads_back() -> None:
    server = Server()
    for at, _ in enumerate(server.answers[FLEET]["gpus"]):
        server.answers[FLEET]["gpus"][at] = at % 3

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("h", "o", "o", "o")
        await pilot.pause()
        assert text(app, "hosts-title").endswith(", by GPUs")
        assert [cells(app, "hosts", at)[1] for at in range(3)] == ["h3", "h6", "h2"], "the most first"
        await pilot.press(*"o" * 7)
        await pilot.pause()
        assert text(app, "hosts-title") == "hosts  8"
        assert [cells(app, "hosts", at)[1] for at in range(3)] == ["h1", "h2", "h3"]

    driven(server, steps)


def test_enter_opens_what_diagnose_says_and_escape_leads_back() -> None:
    server = Server()

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("i", "enter")
        await settled(app, pilot)
        path, asked = server.asked[-1]
        assert (path, asked["job"]) == ("/api/v1/diagnosis", server.answers[NOW]["incidents"][0]["incident"])
        said = str(app.screen.query_one("#text", Static).render())
        assert "CRITICAL" in said
        assert "ten minutes more cost 1 GPU-h" in said
        await pilot.press("escape")
        await pilot.press("h", "enter")
        await pilot.pause()
        assert "leadline compare host:h1" in str(app.screen.query_one("#text", Static).render())
        await pilot.press("q")  # of the opened screen, not of the program
        await pilot.pause()
        assert cells(app, "hosts")[1] == "h1"

    driven(server, steps)


def test_new_answers_change_cells_and_keep_the_cursor() -> None:
    server = Server()

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("h", "down", "down")
        server.answers[FLEET]["gpus"][2] = 7
        await pilot.press("r")
        await settled(app, pilot)
        table = app.query_one("#hosts", DataTable)
        assert (table.cursor_row, cells(app, "hosts", 2)[3]) == (2, "7")
        # h8 goes bad: it comes first, and the chosen one stays chosen.
        fleet = server.answers[FLEET]
        fleet["state"][7] = fleet["states"].index("bad")
        fleet["reasons"] = [{"host": 7, "state": "bad", "text": "link down", "entity": "port:h8/eth0", "since_ns": 1,
                             "port": "port:h8/eth0", "incident": None}]  # fmt: skip
        await pilot.press("r")
        await settled(app, pilot)
        assert (cells(app, "hosts")[0], cells(app, "hosts")[1], cells(app, "hosts")[-1]) == ("■", "h8", "link down")
        assert cells(app, "hosts", table.cursor_row)[1] == "h3"

    driven(server, steps)


def test_a_server_that_goes_is_told_and_the_picture_stays() -> None:
    server = Server()

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        server.gone = True
        await pilot.press("r")
        await settled(app, pilot)
        assert "no Leadline answers" in text(app, "head")
        assert cells(app, "jobs")[1] == "bert-1"
        server.gone = False
        await pilot.press("r")
        await settled(app, pilot)
        assert "no Leadline answers" not in text(app, "head")

    driven(server, steps)


def test_span_is_asked_for_pause_asks_nothing() -> None:
    server = Server()

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await settled(app, pilot)
        assert (JOBS, {"from": "-6h", "cluster": ""}) in server.asked
        assert "last 6h" in text(app, "head")
        await pilot.press("p")
        count = len(server.asked)
        app._tick()
        await settled(app, pilot)
        assert len(server.asked) == count
        assert "paused" in text(app, "head")

    driven(server, steps)


def test_finds_by_name() -> None:
    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"h7", "enter")
        await pilot.pause()
        assert app.query_one("#hosts", DataTable).row_count == 1
        assert "none has that name" in text(app, "jobs-title")
        await pilot.press("escape")
        await pilot.pause()
        assert app.query_one("#hosts", DataTable).row_count == 8

    driven(Server(), steps)


def test_nothing_connected_says_what_to_do() -> None:
    server = Server()
    server.answers[JOBS]["jobs"] = []
    server.answers[NOW] |= {"incidents": [], "state": "unknown", "why": "no job told a step", "lost_gpu_seconds": None}
    server.answers[FLEET] |= {"hosts": [], "reasons": []}

    async def steps(app: Top, _: Pilot[None]) -> None:
        assert "▨ unknown lost" in text(app, "head"), "not zero, and not good"
        assert "no job told a step" in text(app, "head")
        assert "Instrument a PyTorch job" in text(app, "jobs-title")
        assert "leadline agent" in text(app, "hosts-title")

    driven(server, steps)


def test_without_textual_it_is_said_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name == "textual" or name.startswith("textual."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **more)

    monkeypatch.delitem(sys.modules, "leadline.cli.top.app", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'leadline\[top\]'"):
        verb.top(server="http://127.0.0.1:1")


def test_a_span_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="5m, 15m, 1h"):
        verb.top(span="7 weeks", server="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "good"),
        ({"incidents_open": 1}, "bad"),
        ({"step_s": 3.0, "baseline_s": 2.0}, "watch"),
        ({"step_s": None}, "unknown"),
        ({"goodput": None}, "unknown"),
        ({"running": False}, "good"),
        ({"running": False, "step_s": 3.0, "baseline_s": 2.0}, "good"),
    ],
)
def test_states_of_a_job(change: dict[str, Any], state: str) -> None:
    one = {**ANSWERS[JOBS]["jobs"][0], "running": True, "incidents_open": 0, **change}
    assert top_rows.jobs({"jobs": [one]})[0].state == state


def test_a_line_of_cells_has_dots_where_nothing_is_known() -> None:
    assert top_rows.sparkline([1.0, None, 8.0, 8.0]) == "▂·██"
    assert top_rows.sparkline([]) == ""
    assert len(top_rows.sparkline([1.0] * 999)) == top_rows.LINE_CELLS
    assert top_rows.sparkline([0.0, 0.0]) == "▁▁"


def test_an_incident_tells_what_to_do_and_each_command() -> None:
    now = copy.deepcopy(ANSWERS[NOW])
    one = next(each for each in now["incidents"] if each["causes"])
    one["incident"] = "x; reboot"
    one["causes"][0]["todo"] = {"words": "Let no new job onto h6.", "commands": ["first h6", "second h6"]}
    told = next(each for each in top_rows.incidents(now) if each.cells[-1] == "x; reboot").details
    at = told.index("  do: Let no new job onto h6.")
    assert told[at + 1 : at + 3] == ("      first h6", "      second h6")
    assert told[-1] == "more: leadline diagnose 'x; reboot'"


def test_rates_have_units() -> None:
    assert [top_rows.bits(value) for value in (None, 0.0, 12.5e9)] == ["-", "0 bit/s", "100 Gbit/s"]


def test_what_is_known_of_a_job_counts_incidents_that_are_over() -> None:
    one = {**ANSWERS[JOBS]["jobs"][0], "incidents": 2, "incidents_open": 0, "incidents_known": 0,
           "incidents_explained": 2, "state": "ended", "ended_ns": 1_750_000_000 * 10**9}  # fmt: skip
    (told,) = top_rows.jobs({"jobs": [one]})
    assert any("2 incidents, 0 open, 2 with a known cause" in line for line in told.details)
    assert "ended 2025-06-15 15:06:40Z" in told.details[0]


def test_the_head_says_what_of_the_loss_is_estimated_and_unknown_ports_are_not_sick() -> None:
    now = {**ANSWERS[NOW], "lost_gpu_seconds": 100.0, "estimated_gpu_seconds": 40.0}
    assert "100 GPU-s lost, so far, 40 GPU-s of it estimated" in top_rows.head(now)[1]
    assert [top_rows.nics(*each) for each in ((7, 8, 0), (0, 8, 8), (6, 8, 1), (0, 0, 0))] == [
        "7 of 8", "8 unknown", "6 of 7, 1 unknown", "-"]  # fmt: skip
