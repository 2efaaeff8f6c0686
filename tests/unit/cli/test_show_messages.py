"""`leadline show messages` against a running server with what the analysis says of hand-made transfers; its picture."""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.builders.fabrics import S
from tests.builders.messages import JOB, WINDOW, ring_job
from tests.common.analysis_laws import judged, moved
from tests.senders.running import RunningLeadline, ndjson
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_pictures import NASTY, SVG, box_of, points

from leadline.analysis.messages.messages import messages
from leadline.analysis.spec import Window
from leadline.cli.picture.messages import messages_picture
from leadline.cli.show.messages import collisions_words
from leadline.cli.words.messages import delay_words, order_words, span_words
from leadline.model.tables import BY_NAME, Type
from leadline.runner.worker import finished

PAGE = Path(__file__).parents[3] / "docs" / "analyses" / "messages.md"
SHOW = ("show", "messages", JOB)


def verdicts(window: Window) -> Mapping[str, pa.Table]:
    """What the analysis says of the ring job, at another time."""
    by_ns = window.to_ns - WINDOW.to_ns
    tables = {name: moved(BY_NAME[name], rows, by_ns) for name, rows in ring_job().items()}
    return finished(messages, window, judged(messages, tables, window)).tables


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    end_ns = time.time_ns() // (10 * S) * 10 * S
    with RunningLeadline(tmp_path_factory.mktemp("messages")) as running:
        for name, rows in verdicts(Window(end_ns - 10 * S, end_ns, job=JOB)).items():
            given = BY_NAME[name].given
            sent = [{c.name: _plain(c.type, row[c.name]) for c in given} for row in rows.to_pylist()]
            headers = {"content-type": "application/x-ndjson"}
            answer = running.http.post(f"/api/v1/rows/{name}", content=ndjson(sent), headers=headers)
            assert answer.status_code == 200, answer.text
        yield running


def _plain(kind: Type, value: Any) -> Any:
    return f"{int.from_bytes(value, 'little'):032x}" if kind is Type.U128 and value is not None else value


def test_a_table_for_people(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*SHOW, "--server", server.url)
    assert (ran.code, ran.err) == (0, "")
    wanted = [
        f"messages of {JOB}, 10 s to", "49 messages", "channel 0, ring 0 > 1 > 2 > 3 > 0", "36 ms in collectives",
        "2 > 3", "clocks not fitted", "one of 2 flows", "000000", "1 end without the other", "with contradicting ends",
    ]  # fmt: skip
    assert [text for text in wanted if text not in ran.out] == []
    lines = [line for line in ran.out.splitlines() if re.match(r"\d > \d", line)]
    assert [line[:5] for line in lines] == ["0 > 1", "1 > 2", "2 > 3", "3 > 0"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_forms_for_programs(server: RunningLeadline, leadline_cli: Run, output: str) -> None:
    ran = leadline_cli(*SHOW, "--server", server.url, "--output", output)
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out) if output == "json" else yaml.safe_load(ran.out)
    assert (found["schema"], found["job"], found["window_ns"]) == (1, JOB, 10 * S)
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    comm = found["communicators"][0]
    keys = found.keys() | comm.keys() | comm["edges"][0].keys() | comm["channels"][0].keys()
    assert keys - documented - {"schema", "note"} == set()


def test_windows_are_added_up(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*SHOW, "--window", "60s", "--server", server.url)
    assert (ran.code, ran.err) == (0, "")
    assert "60 s to" in ran.out


def test_a_picture_is_written(server: RunningLeadline, leadline_cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    ran = leadline_cli(*SHOW, "--svg", str(file), "--server", server.url)
    assert ran.code == 0
    root = ElementTree.parse(file).getroot()
    assert "ring 0 > 1 > 2 > 3 > 0" in " ".join(root.itertext())
    widths = {
        (group.attrib["data-src"], group.attrib["data-dst"]): float(
            next(group.iter(f"{SVG}path")).attrib["stroke-width"]
        )
        for group in root.iter(f"{SVG}g")
        if "data-src" in group.attrib
    }
    assert max(widths, key=lambda pair: widths[pair]) == ("2", "3")  # what was waited for most is widest


def test_a_job_without_messages_is_told_why(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "messages", "gone-9", "--server", server.url)
    assert ran.code == 3  # nobody knows of such a job
    assert "no message of gone-9 was ever analysed" in ran.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("--window", "soon"), 2, "such as 60s or 5m, got 'soon'"),
        (("--at", "noon"), 2, "a time is 14:02"),
        (("--svg", "x.png"), 2, "expected NAME.svg"),
        (("--svg", "/no/such/folder/x.svg"), 3, "cannot be written"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_mistakes_end_with_a_line(
    server: RunningLeadline, leadline_cli: Run, args: tuple[str, ...], code: int, text: str
) -> None:
    ran = leadline_cli(*SHOW, *args, "--server", server.url)
    assert ran.code == code
    assert text in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


# --- Words and pictures ---------------------------------------------------------------------------------------------


def edge(src: int, dst: int, held_s: float = 0.1, **more: Any) -> dict[str, Any]:
    return {
        "src_rank": src, "dst_rank": dst, "channels": [0], "messages": 9, "unpaired": 1, "conflicting": 0, "bytes": 9e6,
        "held_s": held_s, "share": held_s, "transfer_p50_ns": 10**6, "transfer_p99_ns": 10**7, "delay_p50_ns": None,
        "delay_p99_ns": None, "bound_ns": None, "backwards": 0, "flow": None, "flows": 2, **more,
    }  # fmt: skip


def answer(ranks: int, comms: int = 1, job: str = "ring-1", ring: bool = True) -> dict[str, Any]:
    edges = [edge(rank, (rank + 1) % ranks, 0.9 if rank == 1 else 0.0) for rank in range(ranks)]
    if ranks > 1:
        edges += [edge((rank + 1) % ranks, rank, 0.1) for rank in range(ranks)]
    order = list(range(ranks)) if ring else []
    channel = {"channel": 0, "shape": "ring" if ring else "other", "order": order, "edges": ranks, "around_ns": None}
    comm = {
        "comm": f"{job}/0x9c", "ranks": ranks, "collectives_s": 1.0, "held_s": 1.0, "messages": 9, "unpaired": 1,
        "conflicting": 0, "bytes": 9e6, "channels": [channel], "channels_total": 1, "edges": edges,
        "edges_total": len(edges),
    }  # fmt: skip
    return {"job": job, "end_ns": 1, "window_ns": 10 * S, "communicators": [comm] * comms,
            "communicators_total": comms, "why": "", "note": ""}  # fmt: skip


NONE = {**answer(2, 0), "why": NASTY * 20}
PICTURES = {
    "four ranks": answer(4), "two": answer(2), "one": answer(1), "many": answer(600), "no ring": answer(8, ring=False),
    "many communicators": answer(8, 40), "nasty names": answer(4, job=NASTY * 9), "nothing": NONE,
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_whole_and_readable(name: str) -> None:
    svg = messages_picture(PICTURES[name], "2026-11-22 10:00:00Z")
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    corners = [point for element in root.iter() for point in points(element)]
    assert [(x, y) for x, y in corners if not (-0.6 <= x <= width + 0.6 and -0.6 <= y <= height + 0.6)] == []
    labels = [(*box_of(text), text.text) for text in root.iter(f"{SVG}text")]
    over = [
        (a[4], b[4])
        for number, a in enumerate(labels)
        for b in labels[:number]
        if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
    ]
    assert over == []
    assert len(svg) < 200_000


def test_words() -> None:
    assert [span_words(each) for each in (None, 0, 350, 35_000, 1_234_567, 4.1e9)] == [
        "-", "0 ns", "350 ns", "35 us", "1.23 ms", "4.1 s",
    ]  # fmt: skip
    fitted = edge(0, 1, delay_p50_ns=35_000, delay_p99_ns=90_000, bound_ns=2_000)
    assert delay_words(fitted) == "35 us, p99 90 us ± 2 us"
    assert delay_words({**fitted, "bound_ns": 0}) == "35 us, p99 90 us"
    assert delay_words({**fitted, "bound_ns": 40_000}) == "less than clocks are known to: ± 40 us"
    assert delay_words(edge(0, 1, backwards=3)) == "clocks contradict"
    assert delay_words(edge(0, 1)) == "clocks not fitted"
    chain = {"channel": 1, "shape": "chain", "order": [2, 1, 0], "edges": 2}
    assert order_words(chain) == "chain 2 > 1 > 0"
    assert order_words({**chain, "shape": "other", "order": []}) == "2 edges, neither ring nor chain"
    closed = {**chain, "shape": "ring", "around_ns": 105_000}
    assert order_words(closed).endswith(", 105 us around")
    long = order_words({"channel": 0, "shape": "ring", "order": list(range(100)), "edges": 100})
    assert long.startswith("ring 0 > 1 > ")
    assert long.endswith("29 > ... 70 more ... > 0")


def test_flows_that_collide_are_named_in_words() -> None:
    edge = {"src_rank": 1, "dst_rank": 2, "collision": None}
    collision = {"flow": "b1" + "0" * 30, "link": "link:leaf1/Ethernet1~spine1/Ethernet1", "flows": ["c2" + "0" * 30],
                 "jobs": ["bert-1", "other-1"]}  # fmt: skip
    (line,) = collisions_words([edge, {**edge, "collision": collision}])
    assert line.startswith("1 > 2: its flow b1000000 collides with c2000000 on leaf1/Ethernet1 ~ spine1/Ethernet1")
    assert line.endswith("while a link beside it has room; jobs: bert-1, other-1")
    assert collisions_words([{**edge, "collision": {**collision, "jobs": []}}])[0].endswith("jobs: nobody known")
