"""What the story says of what was found, and how it is held against the truth."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.unit.views.incidents.incident_rows import FLAP, NOW, ROWS, THIN, S, newest

from leadline.cli.client import Client
from leadline.cli.demo.conclusions import Conclusions
from leadline.cli.diagnosis.truth import compared, same_place
from leadline.lab.truth import Entry
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.view import incidents_of

TOLD = {one.incident: incident_json(one) for one in incidents_of(newest("incident"), ROWS["cause"], ROWS["symptom"])}
LINK = Entry("flapping-link", ("link:h3/eth0~leaf1/Ethernet3",), "network", "transient", NOW - 50 * S, NOW - 20 * S)


def words(shown: Any) -> str:
    out = Console(width=140, file=io.StringIO(), color_system=None)
    out.print(shown)
    return str(out.file.getvalue())  # type: ignore[attr-defined]


class _Server(Client):
    """Has incidents, and keeps what it was asked."""

    def __init__(self, *incidents: dict[str, Any]) -> None:
        self.incidents, self.judged_ns = list(incidents), NOW
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **params: str | int) -> dict[str, Any]:
        if path == "/api/v1/analyses":
            far = {"stalls": self.judged_ns + S, "slowdowns": self.judged_ns, "cause": self.judged_ns, "ledger": 0}
            return {"analyses": [{"name": name, "judged_to_ns": at_ns} for name, at_ns in far.items()]}
        self.asked.append((path, params))
        return {"incidents": self.incidents}


def test_a_cause_is_told_once_with_the_time_at_which_the_answer_was_there() -> None:
    found = Conclusions(_Server(TOLD[FLAP]), NOW - 100 * S)
    assert found.ask(NOW - 35 * S) == ["link down on port:h3/eth0 (0.93), reported 13 s after the first lost second"]
    assert found.ask(NOW - 33 * S) == []
    assert "reported 13 s after" in words(found.lines())
    replayed = Conclusions(_Server(TOLD[FLAP]), 0, live=False)
    assert "reported 8.0 s after" in replayed.ask(NOW)[0]


def test_the_table_tells_the_same_as_the_line_and_what_became_of_it() -> None:
    """The incident began with something else 30 s before this cause did, and what is told of it is less sure later."""
    (cause,) = TOLD[FLAP]["causes"]
    began = {**TOLD[FLAP], "start_ns": NOW - 80 * S}
    server = _Server({**began, "causes": [{**cause, "probability": 0.99}]})
    found = Conclusions(server, 0)
    assert found.ask(NOW - 43 * S) == ["link down on port:h3/eth0 (0.99), reported 5.4 s after the first lost second"]
    server.incidents = [{**began, "causes": [{**cause, "probability": 0.88}]}]
    found.ask(NOW)
    table = words(found.held_against([LINK]))
    assert "link down on port:h3/eth0 (0.99, 0.88 at the end)" in table
    assert "7.0 s" in table  # since the fault began, as the line below it says
    assert "since the fault was injected" in table


def test_only_what_was_told_by_then_is_asked_of_a_replay() -> None:
    server = _Server()
    found = Conclusions(server, 0, live=False)
    found.ask(7, 7)
    assert server.asked == [("/api/v1/incidents", {"to": "7"})]
    assert "no problem found" in words(found.lines())


def test_an_incident_without_a_cause_says_what_is_missing() -> None:
    found = Conclusions(_Server(TOLD[THIN]), 0)
    assert found.ask(NOW) == []
    assert "cause not known yet, missing collectives of resnet-2" in words(found.lines())


def test_the_last_table_holds_truth_and_findings_against_each_other() -> None:
    found = Conclusions(_Server(TOLD[FLAP], TOLD[THIN]), 0)
    found.ask(NOW - 38 * S)
    gpu = Entry("gpu-throttle", ("gpu:GPU-1",), "gpu", "gray", NOW - 10 * S, None)
    lines = [line.split() for line in words(found.held_against([gpu, LINK])).splitlines()]
    link = next(line for line in lines if line and line[0] == "flapping-link")
    assert {"right", "12", "CHECK_CABLE"} <= set(link)
    assert "unknown" in next(line for line in lines if line and line[0] == "gpu-throttle")  # what cost most
    assert found.complete([LINK], None)
    assert not found.complete([LINK, gpu], NOW + S)
    assert found.complete([LINK, gpu], NOW)  # all is judged: more will not come


def test_what_is_not_judged_is_neither_fine_nor_missed() -> None:
    server = _Server()
    found = Conclusions(server, 0)
    assert "nothing analysed yet" in words(found.lines())
    found.ask(NOW + 10 * S)
    assert "no problem found" in words(found.lines())
    found.ask(NOW + 40 * S)
    assert "judged until 40 s ago: behind" in words(found.lines())
    assert "missed" in words(found.held_against([LINK]))
    server.judged_ns = NOW - 30 * S  # the fault was over 10 s later
    found.ask(NOW)
    assert "not judged" in words(found.held_against([LINK]))
    assert "no problem found" not in words(found.lines())


def test_an_incident_that_names_another_fault_is_not_held_against_this_one() -> None:
    worker = Entry("slow-worker", ("host:h9",), "host", "gray", NOW - 15 * S, NOW - 5 * S)
    assert [each.verdict for each in compared([LINK, worker], [TOLD[FLAP]])] == ["right", "missed"]
    late = compared([LINK, worker], [TOLD[FLAP]], judged_ns=NOW - 8 * S)
    assert [each.verdict for each in late] == ["right", "not judged"]
    both = {**TOLD[FLAP], "causes": [*TOLD[FLAP]["causes"], {**TOLD[FLAP]["causes"][0], "entity": "host:h9"}]}
    assert [each.verdict for each in compared([LINK, worker], [both])] == ["right", "right"]


def test_of_what_is_over_the_action_is_told_that_was_advised_while_it_lasted() -> None:
    server = _Server(TOLD[FLAP])
    found = Conclusions(server, 0)
    found.ask(NOW)
    causes = [{**each, "action": "NONE"} for each in TOLD[FLAP]["causes"]]
    server.incidents = [{**TOLD[FLAP], "state": "over", "end_ns": NOW, "causes": causes}]
    found.ask(NOW + S)
    assert "CHECK_CABLE" in words(found.held_against([LINK]))
    late = Conclusions(server, 0)
    late.ask(NOW + S)
    assert "NONE" in words(late.held_against([LINK]))


@pytest.mark.parametrize(
    ("fault", "incidents", "verdicts"),
    [
        (LINK, [FLAP], ["right"]),
        (LINK, [], ["missed"]),
        (LINK, [THIN], ["unknown"]),
        (LINK, [FLAP, THIN], ["right"]),  # it is of the same time
        (Entry("slow", ("host:h6",), "host", "gray", NOW - 50 * S, None), [FLAP], ["wrong"]),
        (Entry("slow", ("host:h6",), "host", "gray", NOW - 900 * S, NOW - 800 * S), [FLAP, THIN],
         ["missed", "wrong", "unknown"]),
        (Entry("load", ("host:h6",), "host", "gray", NOW - 50 * S, None, decoy=True), [FLAP], ["wrong"]),
    ],
)  # fmt: skip
def test_each_fault_has_a_line_and_each_incident_of_another_time_too(
    fault: Entry, incidents: list[str], verdicts: list[str]
) -> None:
    assert [each.verdict for each in compared([fault], [TOLD[name] for name in incidents])] == verdicts


@pytest.mark.parametrize(
    ("entity", "component", "same"),
    [("port:h3/eth0", "link:h3/eth0~leaf1/E3", True), ("swport:leaf1/E3", "link:h3/eth0~leaf1/E3", True),
     ("link:h3/eth0~leaf1/E3", "port:h3/eth0", True), ("port:h3/eth1", "link:h3/eth0~leaf1/E3", False),
     ("host:h3", "port:h3/eth0", False), ("link:a/1~b/2", "link:a/1~c/3", False), ("gpu:G", "gpu:G", True)],
)  # fmt: skip
def test_a_link_and_its_ends_are_one_place(entity: str, component: str, same: bool) -> None:
    assert same_place(entity, (component,)) == same
