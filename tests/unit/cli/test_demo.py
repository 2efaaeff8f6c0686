"""What the demonstration does around its scenario: it tells its inventory first, and ends with what can be asked."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.demo import demo
from leadline.cli.demo.demo import Demo
from leadline.cli.demo.story import Story, Told
from leadline.cli.lab.server import Listening, tell_inventory
from leadline.lab.run import Happening, ScenarioRun
from leadline.lab.scenarios.spec import scenario_of
from leadline.lab.topology import load_named
from leadline.model.errors import WorldError

URL = "http://127.0.0.1:1"
END_NS = 1_767_225_600_500_000_000


def test_the_demo_tells_what_hangs_on_what_and_ends_with_questions_that_have_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job has ended by then, so each question names the time."""
    order: list[str] = []
    screen = Console(file=io.StringIO(), width=200, color_system=None)

    def told(one: ScenarioRun, url: str) -> Generator[None, None, Story]:
        order.append("scenario")
        story = Story(Client(url), one.scenario, "bert-1")
        story.add(Happening("end", "the scenario has ended", END_NS, 150.0))
        yield
        return story

    monkeypatch.setattr(demo, "tell_inventory", lambda url, topology, since_ns: order.append(topology.name))
    monkeypatch.setattr(demo, "told", told)
    monkeypatch.setattr(demo, "console", lambda: screen)
    monkeypatch.setattr(demo, "JUDGE_S_MAX", 0.0)  # nobody answers
    monkeypatch.setattr(Demo, "_arrived", lambda _: dict.fromkeys((*demo.NEEDED, "streams", "entities"), 1))
    shown = Demo(Listening(URL, ("127.0.0.1", 1), tmp_path / "store"), "demo")
    story = shown.show(once=True)
    assert next(story) is None
    assert next(story) == 0
    assert order == ["clos8", "scenario"]
    assert isinstance(screen.file, io.StringIO)
    assert "Where the time of" not in screen.file.getvalue()  # nobody answers
    assert "what was broken, and what Leadline found" in screen.file.getvalue()
    assert "leadline diagnose bert-1 --at 2026-01-01T00:00:00Z\n" in screen.file.getvalue()
    assert "leadline show ledger bert-1\n" in screen.file.getvalue()
    assert "leadline show path bert-1/0 bert-1/1 --at 2026-01-01T00:00:00Z\n" in screen.file.getvalue()


def test_the_demo_ends_with_where_the_time_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), width=200, color_system=None)
    monkeypatch.setattr(demo, "console", lambda: screen)
    story = Story(Client(URL), scenario_of("demo"), "bert-1")
    owner = {"category": "straggler", "owner": "rank:bert-1/5", "lost_gpu_seconds": 360.0}
    story.told = Told(
        ledger={"total": {"lost_gpu_seconds": 360.0}, "missing": {"gpu_seconds": 0.0}, "owners": [owner],
                "hosts": {"rank:bert-1/5": "host:h6"},
                "categories": [{"category": "compute", "gpu_seconds": 640.0},
                               {"category": "straggler", "gpu_seconds": 360.0}]},
    )  # fmt: skip
    demo._summary(dict.fromkeys((*demo.NEEDED, "streams", "entities"), 1), tmp_path, story, once=False)
    assert isinstance(screen.file, io.StringIO)
    assert (
        "Where the time of bert-1 went: compute 64 %, waiting for a straggler 36 %.\n"
        "By part: rank 5 (host h6) cost 360 GPU-s.\n" in screen.file.getvalue()
    )


def test_an_inventory_arrives_as_rows_and_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[bytes] = []
    answers = [httpx.Response(200), httpx.Response(429, text="too much")]

    def post(url: str, **given: Any) -> httpx.Response:
        assert url == f"{URL}/api/v1/rows/relation"
        got.append(given["content"].encode())
        return answers.pop(0)

    monkeypatch.setattr(httpx, "post", post)
    tell_inventory(URL, load_named("tiny"), 7)
    rows = [json.loads(line) for line in got[0].splitlines()]
    assert {"address", "port", "swport", "gpu"} <= {row["child"].partition(":")[0] for row in rows}
    assert {row["from_ns"] for row in rows} == {7}
    with pytest.raises(WorldError, match="refused the inventory of tiny: 429 too much"):
        tell_inventory(URL, load_named("tiny"), 7)
