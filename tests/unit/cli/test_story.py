"""The story on the terminal: the truth of a recorded incident is told when the replay reaches it."""

from __future__ import annotations

import io

from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.demo.recorded_story import RecordedStory, happenings
from leadline.cli.demo.story import Story, Told, paths_words
from leadline.lab.incidents import incident
from leadline.lab.run import Happening
from leadline.lab.scenarios.spec import scenario_of
from leadline.lab.truth import Entry

S = 10**9


def drawn(story: Story, at_s: float | None) -> str:
    console = Console(file=io.StringIO(), width=150, color_system=None)
    console.print(story.picture(at_s))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def story() -> Story:
    return Story(Client("http://127.0.0.1:1"), scenario_of("demo"), "bert-1")


def test_a_story_without_answers_says_so_and_shows_where_faults_are_planned() -> None:
    told = story()
    told.ask()  # nobody answers: the picture stays as it was
    text = drawn(told, None)
    assert "setting up" in text
    assert "no step reported yet" in text
    assert text.count("▒") == 35  # 30 of 150 s and 40 of 150 s on 72 cells, both ends drawn


def test_what_is_told_stands_beside_the_truth() -> None:
    told = story()
    told.add(Happening("fault", "flapping-link on link:h3/eth0~leaf1/Ethernet3", 30 * S, 30.0))
    steps = [
        {"step": n, "seconds": s, "mean_loss": 5.0, "ranks": r} for n, s, r in ((0, 1.0, 8), (1, 4.0, 8), (2, 1, 2))
    ]
    events = [{"kind": "link-down", "one": "port:h3/eth0", "entities": 1, "times": 5, "last_ns": 28 * S}]
    told.told = Told(steps=steps, events=events, asked_ns=30 * S)
    text = drawn(told, 31.0)
    assert "30 s flapping-link on link:h3" in text
    assert "step 1: 4.00 s on 8 ranks, loss 5.00" in text  # not the step that only two ranks have told
    assert "link-down of port:h3/eth0 5 times, last 2 s ago" in text
    assert "▃█▃  0 to 4.0 s" in text


def test_a_truth_file_is_told_in_the_order_in_which_it_happened() -> None:
    entries = [
        Entry("slow-worker", ("host:h6",), "host", "gray", 90 * S, 130 * S),
        Entry("sigsegv", ("rank:b/1",), "application", "transient", 95 * S, None),
    ]
    told = [(each.kind, each.text, each.at_s) for each in happenings(entries, zero_ns=0)]
    assert told == [
        ("fault", "slow-worker on host:h6", 90.0),
        ("mended", "slow-worker is over", 130.0),
        ("fault", "sigsegv on rank:b/1", 95.0),
    ]


def test_a_recorded_story_begins_where_its_scenario_began() -> None:
    shown = RecordedStory("http://127.0.0.1:1", incident("demo"))
    assert [each.text.split()[0] for each in shown._ahead] == [
        "flapping-link",
        "flapping-link",
        "slow-worker",
        "slow-worker",
    ]
    first = shown._ahead[0].at_s
    assert first is not None
    assert abs(first - 30.0) < 0.01


def test_paths_are_told_by_the_largest_flow_that_is_known() -> None:
    def flow(name: str, state: str, carried: float, links: list[str]) -> dict[str, object]:
        ends = {"src_rank": "rank:bert-1/0", "dst_rank": f"rank:bert-1/{name}"}
        return {"flow": name, "state": state, "bytes": carried, "links": links, **ends}

    way = ["link:h1/eth0~leaf1/Ethernet1", "link:leaf1/Ethernet9~spine2/Ethernet1",
           "link:leaf2/Ethernet9~spine2/Ethernet2", "link:h2/eth0~leaf2/Ethernet1"]  # fmt: skip
    flows = [flow("1", "known", 5.0, way), flow("2", "ambiguous", 9.0, []), flow("3", "known", 4.0, way)]
    assert paths_words(flows) == "2 of 3 flows of the job traced; rank 0 to 1 by leaf1 > spine2 > leaf2"
    assert paths_words(flows[1:2]) == "0 of 1 flows of the job traced"
