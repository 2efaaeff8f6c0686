"""`leadline show graph|path|flows` against a running server with hand-made relations and verdicts."""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.senders.running import RunningLeadline, imported, ndjson
from tests.unit.cli.conftest import Run
from tests.unit.views.paths.path_rows import END, ROWS, S, fabric

from leadline.model.tables import BY_NAME, Type

HOWTO = Path(__file__).parents[3] / "docs" / "how-to" / "see-what-a-job-stands-on.md"
VERBS = {
    "graph": ("show", "graph", "bert-1"),
    "path": ("show", "path", "bert-1/0", "rank:bert-1/1"),
    "flows": ("show", "flows", "bert-1"),
}


def moved(name: str, row: dict[str, Any], by_ns: int) -> dict[str, Any]:
    """A row as it is sent, with its times moved; tenant and cluster left out."""
    out = {}
    for column in BY_NAME[name].given:
        value = row[column.name]
        if column.name in ("start_ns", "end_ns", "seen_ns", "from_ns", "to_ns") and value is not None:
            value += by_ns
        out[column.name] = f"{value:032x}" if column.type is Type.U128 else value
    return out


@pytest.fixture(scope="module")
def fabric_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    # Its window ended just now: taken here, since minutes pass between the import of this file and its tests.
    by_ns = time.time_ns() // (10 * S) * 10 * S - END
    for name, some in {**ROWS, "relation": list(fabric())}.items():
        for row in some:
            rows[(name, row["tenant"])].append(moved(name, row, by_ns))
    with RunningLeadline(tmp_path_factory.mktemp("fabric")) as server:
        for (name, tenant), some in rows.items():
            headers = {"content-type": "application/x-ndjson", **imported(tenant)}
            answer = server.http.post(f"/api/v1/rows/{name}", content=ndjson(some), headers=headers)
            assert answer.status_code == 200, answer.text
        yield server


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("verb", VERBS)
def test_forms_for_programs(fabric_server: RunningLeadline, leadline_cli: Run, verb: str, output: str) -> None:
    ran = leadline_cli(*VERBS[verb], "--server", fabric_server.url, "--output", output)
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out) if output == "json" else yaml.safe_load(ran.out)
    assert found["schema"] == 1
    if verb == "graph":
        assert found["job"] == "job:bert-1"
        assert {"entity", "kind", "layer", "jobs", "conflict"} <= found["nodes"][0].keys()
    else:
        assert (found["end_ns"] % (10 * S), found["window_ns"], len(found["flows"])) == (0, 10 * S, 2)


@pytest.mark.parametrize("verb", VERBS)
def test_every_key_of_an_answer_is_documented(fabric_server: RunningLeadline, leadline_cli: Run, verb: str) -> None:
    found = json.loads(leadline_cli(*VERBS[verb], "--server", fabric_server.url, "--output", "json").out)
    row = next(line for line in HOWTO.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {verb} |"))
    documented = set(re.findall(r"`(\w+)`", row))
    assert found.keys() <= documented | {"schema", "note"}
    if verb == "graph":
        assert found["nodes"][0].keys() | found["edges"][0].keys() | found["shared"][0].keys() <= documented
    if verb == "path":
        told = found["flows"][0]["paths"][0]
        assert told.keys() | told["hops"][0].keys() | found["possible"].keys() <= documented
    if verb == "flows":
        assert found["links"][0].keys() | found["unowned"].keys() <= documented


def test_a_job_that_is_over_is_told_as_it_was(fabric_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "graph", "old-1", "--server", fabric_server.url)
    assert "job:old-1 ended at" in ran.out
    assert "1 rank" in ran.out.splitlines()[0]


@pytest.mark.parametrize(
    ("verb", "texts"),
    [
        ("graph", ["job bert-1 at", "2 ranks", "bert-1 rank 0 on h1: eth0 to leaf1", "leaf: leaf1-leaf2",
                   "spine: spine1-spine2", "shared with other jobs", "bert-1, resnet-2"]),
        ("path", ["2 flows, asymmetric", "h1/eth0 ~ leaf1/Ethernet1", "99 %", "2.0 GB (1.8 GB to 2.2 GB)",
                  "as equal-cost routing allows"]),
        ("flows", ["2 flows, 2.1 GB", "leaf1 > spine1 > leaf2", "bert-1 2.0 GB, resnet-2 1.0 GB", "0.50",
                   "2 flows (00000000, 00000000) of bert-1, resnet-2", "flows without an owner: 1, 5.0 MB"]),
    ],
)  # fmt: skip
def test_tables_for_people(fabric_server: RunningLeadline, leadline_cli: Run, verb: str, texts: list[str]) -> None:
    ran = leadline_cli(*VERBS[verb], "--server", fabric_server.url)
    assert (ran.code, ran.err) == (0, "")
    assert [text for text in texts if text not in ran.out] == []


@pytest.mark.parametrize("verb", VERBS)
def test_pictures_are_written(fabric_server: RunningLeadline, leadline_cli: Run, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "x.svg"
    ran = leadline_cli(*VERBS[verb], "--svg", str(file), "--server", fabric_server.url)
    assert ran.code == 0
    assert f"drawn into {file}" in ran.err.replace("\n", "")
    words = " ".join(ElementTree.parse(file).getroot().itertext())
    assert "spine1" in words
    if verb == "graph":
        assert "resnet-2" in words  # the job that shares is drawn beside it


def test_what_stands_on_a_switch(fabric_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "graph", "--of", "switch:leaf1", "--server", fabric_server.url)
    assert ran.code == 0
    assert "bert-1 rank 0 on h1" in ran.out
    assert "resnet-2 rank 0 on h2" in ran.out


def test_an_earlier_time_has_what_held_then(fabric_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "graph", "bert-1", "--at", "-30m", "--server", fabric_server.url)
    assert ran.code == 0
    assert "no data about it at that time" in ran.out
    assert "is first seen at" in ran.out


def test_what_is_not_known_is_said(fabric_server: RunningLeadline, leadline_cli: Run) -> None:
    server = ("--server", fabric_server.url)
    assert "no flow of gone-9 was ever sampled" in leadline_cli("show", "flows", "gone-9", *server).out
    nothing = leadline_cli("show", "path", "bert-1/0", "resnet-2/1", *server).out
    assert "the topology allows 2 equally short paths of 4 hops" in nothing
    assert "none with the other" in nothing


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("graph",), "give a JOB, or --of ENTITY"),
        (("graph", "bert-1", "--of", "host:h1"), "give a JOB, or --of ENTITY"),
        (("graph", "--of", "h1"), "an entity id is kind:name"),
        (("graph", "bert-1", "--at", "noon"), "a time is 14:02"),
        (("path", "bert-1/0", "h1"), "a rank is JOB/NUMBER"),
        (("path", "bert-1/0", "bert-1/0"), "two different ranks"),
        (("flows", "bert-1", "--svg", "x.png"), "expected NAME.svg"),
        (("graph", "bert-1", "--cluster", "x" * 65), "cluster: "),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_mistakes_end_with_2_and_a_line(
    fabric_server: RunningLeadline, leadline_cli: Run, args: tuple[str, ...], text: str
) -> None:
    ran = leadline_cli("show", *args, "--server", fabric_server.url)
    assert ran.code == 2
    assert text in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


def test_a_picture_that_cannot_be_written_ends_with_3(
    fabric_server: RunningLeadline, leadline_cli: Run, tmp_path: Path
) -> None:
    ran = leadline_cli(
        "show", "flows", "bert-1", "--svg", str(tmp_path / "no" / "x.svg"), "--server", fabric_server.url
    )
    assert ran.code == 3
    assert "cannot be written" in ran.err.replace("\n", " ")
