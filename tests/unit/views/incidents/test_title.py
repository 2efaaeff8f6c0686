"""The title of an incident: whose fault it is in words, what that cost; and the list of incidents like it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.incidents.incident_rows import NOW, S, cause, incident

from leadline.analysis.cause.rules import RULES
from leadline.views.incidents.incident import Evidence, Incident
from leadline.views.incidents.similar import SAME_FAULT, SAME_HOST, SAME_JOB, SAME_PART, SAME_SYMPTOM, alike
from leadline.views.incidents.title import severity, title
from leadline.views.incidents.view import incidents_of

LINK, GPU = "link:h3/eth0~leaf1/Ethernet3", "gpu:GPU-be1914a2-b5fd-5d10-a041-070a0f6c1544"
HOSTS = {"port:h3/eth0": "host:h3", GPU: "host:h5", "rank:bert-1/5": "host:h6"}


def named(entity: str, rule: str, *more: tuple[str, str], **own: Any) -> Incident:
    """An incident of bert-1 that lost 128 GPU-s, with a cause that is named, and more of them."""
    rows = [cause("one", place, one, of, 0.9, 0, chosen=True)
            for place, (one, of) in enumerate([(entity, rule), *more], 1)]  # fmt: skip
    (found,) = incidents_of([incident("one", "bert-1", 0, lost_gpu_seconds=128.0)], rows, [], HOSTS, {GPU: "4"})
    return replace(found, **own)


def seen(one: Incident, what: str, times: int = 1, code: str = "") -> Incident:
    """The same with an event as its evidence."""
    piece = Evidence("event", one.chosen[0].entity, what, NOW, 0, what, 0.0, "unknown", code, times)
    return replace(one, causes=(replace(one.causes[0], evidence=(piece,)), *one.causes[1:]))


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (seen(named(LINK, "link-down"), "link-down", 5),
         "Link h3/eth0 to leaf1 flapped 5 times: bert-1 lost 128 GPU-s"),
        (seen(named(LINK, "link-down"), "link-down"), "Link h3/eth0 to leaf1 lost its carrier: bert-1 lost 128 GPU-s"),
        (named("link:leaf1/e9~spine1/e1", "link-errors"),
         "Link leaf1/e9 to spine1/e1 damages or loses packets: bert-1 lost 128 GPU-s"),
        (named(GPU, "slow-gpu"), "h5 GPU 4 runs at a lower clock than it should: bert-1 lost 128 GPU-s"),
        (seen(named(GPU, "gpu-lost"), "xid", code="79"),
         "h5 GPU 4 reported XID 79 (GPU has fallen off the bus): bert-1 lost 128 GPU-s"),
        (named("gpu:GPU-be1914a2-b5fd", "slow-gpu"),
         "GPU-be1914a2 runs at a lower clock than it should: bert-1 lost 128 GPU-s"),
        (named("rank:bert-1/5", "straggler"),
         "Rank 5 on h6 takes longer for its own work than the others: bert-1 lost 128 GPU-s"),
        (named("host:h6", "of-tomorrow"), "Host h6 is the cause (of tomorrow): bert-1 lost 128 GPU-s"),
        (named(LINK, "link-down", (GPU, "slow-gpu"), ("host:h6", "oom-kill")),
         "Link h3/eth0 to leaf1 lost its carrier, and 2 more causes: bert-1 lost 128 GPU-s"),
        (named("host:h6", "oom-kill", jobs=("bert-1", "moe-2"), lost_gpu_seconds=9000.0),
         "Host h6 ran out of memory: bert-1 and 1 more job lost 2.5 GPU-h"),
        (named("host:h6", "telemetry-lost", symptom="telemetry-lost", lost_gpu_seconds=0.0),
         "Host h6 does not send any more: bert-1 sends no data any more"),
        (named("host:h6", "oom-kill", verdict="unknown"), "bert-1 is slow and lost 128 GPU-s, cause unknown"),
        (named("host:h6", "oom-kill", verdict="unknown", state="over", lost_gpu_seconds=0.0),
         "bert-1 was slow, cause unknown"),
    ],
)  # fmt: skip
def test_a_title_says_the_cause_in_words_and_what_it_cost(one: Incident, text: str) -> None:
    assert title(one) == text


def test_the_first_clause_of_every_rule_is_whole() -> None:
    for rule in RULES:
        told = title(named("host:h6", rule.name)).removesuffix(": bert-1 lost 128 GPU-s")
        assert told.startswith("Host h6 ")
        assert rule.words.startswith(told.removeprefix("Host h6 "))
        assert not set(told) & set(";:,"), told
        assert len(told) < 90, told


def test_what_stands_still_is_critical() -> None:
    kinds = {kind: severity(kind) for kind in ("slow", "sle", "stall", "crash")}
    assert kinds == {"slow": "warning", "sle": "warning", "stall": "critical", "crash": "critical"}


def test_earlier_incidents_are_listed_by_how_alike_they_are() -> None:
    one = named("port:h3/eth0", "link-down")

    def before(name: str, seconds: float, other: Incident) -> Incident:
        return replace(other, incident=name, start_ns=one.start_ns - round(seconds * S))

    others = [
        before("elsewhere", 5, replace(named("port:h9/eth0", "link-down"), job="moe-2")),
        before("job", 10, named("port:h8/eth0", "link-down")),
        before("host", 20, named("port:h3/eth1", "link-down")),
        before("older", 90, named("port:h3/eth0", "link-down")),
        before("part", 80, named("port:h3/eth0", "link-down")),
        before("other-fault", 1, named("port:h3/eth0", "wrong-mtu")),
        before("unknown", 1, named("port:h3/eth0", "link-down", verdict="unknown")),
        before("later", -1, named("port:h3/eth0", "link-down")),
        before("not-mine", 1, named("port:h3/eth0", "link-down", tenant="beta")),
        one,
    ]
    assert [(why, each.incident) for why, each in alike(one, others)] == [
        (SAME_PART, "part"), (SAME_PART, "older"), (SAME_HOST, "host"), (SAME_JOB, "job"), (SAME_FAULT, "elsewhere"),
    ]  # fmt: skip
    unknown = replace(one, verdict="unknown")
    assert [(why, each.incident) for why, each in alike(unknown, others)] == [(SAME_SYMPTOM, "unknown")]


def test_evidence_that_two_tables_report_is_listed_once_and_by_name() -> None:
    pieces = [
        {"table": table, "entity": GPU, "what": "xid", "time_ns": NOW, "text": text}
        for table, text in (("event", "xid: XID 79, GPU has fallen off"), ("failure", "XID 79"))
    ]
    row = cause("one", 1, GPU, "gpu-lost", 0.9, 0, evidence=json.dumps([*pieces, {**pieces[1], "time_ns": NOW + S}]))
    (found,) = incidents_of([incident("one", "bert-1", 0)], [row], [], HOSTS, {GPU: "4"})
    assert [(each.table, each.time_ns, each.name) for each in found.chosen[0].evidence] == [
        ("event", NOW, "h5 GPU 4"), ("failure", NOW + S, "h5 GPU 4"),
    ]  # fmt: skip
