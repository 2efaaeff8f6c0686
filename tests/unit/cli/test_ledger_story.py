"""The ledger in two lines."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.cli.client import Client
from leadline.cli.demo.story import LEDGER_EVERY_S, LEDGER_LAG_S, Story
from leadline.cli.words.costs import cost_words, owner_place, time_words
from leadline.lab.scenarios.spec import scenario_of

S = 10**9
HOSTS = {"rank:bert-1/4": "host:h5", "rank:bert-1/5": "host:h6"}


def answer(
    held: dict[str, float], lost: dict[tuple[str, str | None], float], missing: float = 0.0,
    hosts: dict[str, str] = HOSTS,
) -> dict[str, Any]:  # fmt: skip
    """What /api/v1/ledger says, as far as these lines need it."""
    owners = [{"category": kind, "owner": who, "lost_gpu_seconds": much} for (kind, who), much in lost.items()]
    return {
        "total": {"lost_gpu_seconds": sum(lost.values())}, "missing": {"gpu_seconds": missing}, "owners": owners,
        "hosts": hosts,
        "categories": [{"category": name, "gpu_seconds": seconds} for name, seconds in held.items()],
    }  # fmt: skip


def test_shares_are_of_all_held_time_and_the_largest_comes_first() -> None:
    found = answer({"compute": 500.0, "straggler": 300.0, "unknown": 1.0}, {}, missing=199.0)
    assert time_words(found) == "compute 50 %, waiting for a straggler 30 %, not analysed 20 %"


def test_before_anything_is_known_nothing_is_said() -> None:
    for found in (None, {"total": None}, answer({}, {})):
        assert time_words(found) == ""
        assert cost_words(found) == ""


def test_who_lost_most_is_named_with_its_host() -> None:
    lost = {("straggler", "rank:bert-1/5"): 280.0, ("communication", "rank:bert-1/5"): 100.0,
            ("communication", "rank:bert-1/4>rank:bert-1/5"): 90.0,
            ("communication", "rank:bert-1/6>rank:bert-1/7"): 80.0}  # fmt: skip
    assert cost_words(answer({}, lost)) == "rank 5 (host h6) cost 380 GPU-s, rank 4 to 5 (h5 to h6) cost 90 GPU-s"
    few: dict[tuple[str, str | None], float] = {("straggler", "rank:bert-1/5"): 99.0, ("input", "rank:bert-1/4"): 1.0}
    assert cost_words(answer({}, few, hosts={})) == "rank 5 cost 99 GPU-s"


@pytest.mark.parametrize(
    ("category", "owner", "words"),
    [
        ("restart", None, "start and restart of the job"),
        ("communication", "comm:bert-1/0x9c", "communication of all"),
        ("input", "storage:nfs-a", "storage:nfs-a"),
        ("straggler", "rank:bert-1/9", "rank 9"),
        ("communication", "rank:bert-1/5>rank:bert-1/9", "rank 5 to 9"),
    ],
)
def test_owners_that_are_no_rank_with_a_host(category: str, owner: str | None, words: str) -> None:
    assert owner_place({"category": category, "owner": owner}, HOSTS) == words


class _Server(Client):
    """Answers every question with nothing, and the ledger with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def get(self, path: str, **params: str | int) -> dict[str, Any]:
        if path == "/api/v1/ledger":
            self.asked.append(params)
        return {"sources": [], "flows": [], "total": None, "incidents": [], "analyses": []}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"rows": []}


def test_the_ledger_is_asked_once_a_window_up_to_what_is_judged() -> None:
    server = _Server()
    story = Story(server, scenario_of("demo"), "bert-1", began_ns=1000 * S)
    for at_s in range(1000, 1060, 2):
        story.ask(at_s * S)
    first = 1000 + LEDGER_LAG_S + 1
    assert [int(params["to"]) // S + LEDGER_LAG_S for params in server.asked] == list(
        range(first, 1060, LEDGER_EVERY_S)
    )
    assert {params["from"] for params in server.asked} == {str(1000 * S)}
    story.ask_ledger(1100 * S)
    assert server.asked[-1]["to"] == str(1100 * S)
