"""`leadline show mesh` and `show clock` against a running server with a made mesh; live in a terminal; pure words."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from tests.senders.running import RunningLeadline, ndjson, wait_for
from tests.unit.cli.conftest import Run
from tests.unit.views.mesh.mesh_rows import S, agents_say, mesh_tables

from leadline.cli.output import console
from leadline.cli.show import clock as show_clock
from leadline.cli.show import mesh as show_mesh
from leadline.cli.show.watching import watch
from leadline.cli.words.mesh import (
    LEVELS,
    Square,
    heat,
    hosts_of,
    places_of,
    slowest_pairs,
    square_of,
    threshold_of,
)
from leadline.model.errors import UsageError, WorldError
from leadline.model.tables import BY_NAME, Type

MESH, CLOCK = ("show", "mesh"), ("show", "clock")
LATE = (*MESH, "--measure", "p99")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("mesh")) as running:
        end_ns = time.time_ns() // S * S
        # 429 while scanners are compiled, once on a machine.
        wait_for("agents", lambda: running.http.post("/v1/metrics", json=agents_say(end_ns)).is_success, 300.0, 1.0)
        for name, rows in mesh_tables(end_ns).items():
            if name == "series":
                continue
            given = BY_NAME[name].given
            sent = [{c.name: _plain(c.type, row[c.name]) for c in given} for row in rows]
            headers = {"content-type": "application/x-ndjson"}
            answer = running.http.post(f"/api/v1/rows/{name}", content=ndjson(sent), headers=headers)
            assert answer.status_code == 200, (name, answer.text)
        yield running


def _plain(kind: Type, value: Any) -> Any:
    return f"{value:032x}" if kind is Type.U128 and value is not None else value


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("nothing")) as running:
        yield running


def test_a_matrix_for_people_with_who_is_slow_and_who_is_dark(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*LATE, "--server", server.url)
    assert (ran.code, ran.err) == (0, "")
    wanted = [
        "one-way delay, 99th percentile, class 0: 6 hosts, 1 slow (from 5 µs), 1 dark, 1 not probed",
        "dark: h5 (rack rack3, pod pod2): no probe from or to it arrives", "not probed (no agent with the mesh on): h6",
        "by rack, the median of its hosts", "on one machine: h1-h2 (p 0.97)", "qp 17", "× nothing arrives",
    ]  # fmt: skip
    assert [text for text in wanted if text not in ran.out] == []
    matrix = [line for line in ran.out.splitlines() if re.match(r"[1-5] h\d", line)]
    assert matrix[0].split()[2:] == ["▂", "▇", "▂", "×"]
    assert matrix[4].split()[2:] == ["×"] * 4
    slow = next(line for line in ran.out.splitlines() if line.startswith("h3 "))
    assert slow.split() == ["h3", "rack2", "pod1", "8", "µs", "3.2", "µs", "200", "ns", "4", "bert-1"]


def test_only_some_hosts_and_another_threshold(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*LATE, "rack1", "--threshold", "1us", "--server", server.url)
    assert "2 hosts, 2 slow (from 1 µs), 0 dark" in ran.out
    assert "h5" not in ran.out
    job = leadline_cli(*LATE, "--job", "bert-1", "--server", server.url)
    assert "2 hosts, 1 slow" in job.out
    folded = leadline_cli(*LATE, "--by", "pod", "--server", server.url)
    assert "by pod: the worst pair of each two" in folded.out
    lost = leadline_cli(*MESH, "--measure", "lost", "--server", server.url)
    assert "probes lost, class 0: 6 hosts, 1 slow (from 1.0 %)" in lost.out.replace("1 %", "1.0 %")
    assert "no host of the mesh has 'nowhere'" in leadline_cli(*LATE, "nowhere", "--server", server.url).out


def test_rows_for_programs(server: RunningLeadline, leadline_cli: Run) -> None:
    found = json.loads(leadline_cli(*LATE, "--server", server.url, "--output", "json").out)
    assert (found["schema"], found["threshold"], found["unit"]) == (1, 5000.0, "ns")
    assert [each["host"] for each in found["hosts"] if each["slow"]] == ["h3"]
    assert {each["state"] for each in found["hosts"]} == {"probed", "dark", "unprobed"}
    assert found["flows"][0]["job"] == "bert-1"
    pairs = list(csv.DictReader(io.StringIO(leadline_cli(*LATE, "--server", server.url, "--output", "csv").out)))
    assert len(pairs) == 20
    one = next(each for each in pairs if (each["src"], each["dst"]) == ("h1", "h3"))
    assert (one["value"], one["bound_ns"], one["src_rack"], one["dst_rack"]) == ("8000", "200", "rack1", "rack2")


def test_unless_asked_it_is_what_waits(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*MESH, "--server", server.url)
    assert "queueing, median, class 0: 6 hosts, 0 slow (from 5 µs), 1 dark, 1 not probed" in ran.out


def test_clocks_for_people_and_programs(server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli(*CLOCK, "--server", server.url)
    assert (ran.code, ran.err) == (0, "")
    wanted = [
        "6 clocks, right within 2.4 µs, 1 lost, 2 islands; 4 not to be trusted", "h5: lost", "h4: on island 2",
        "h3: carried on from an older fit", "-200 ppm", "+900 ns", "2: 1 clock: h4",
    ]  # fmt: skip
    assert [text for text in wanted if text not in ran.out] == []
    found = json.loads(leadline_cli(*CLOCK, "h3", "--server", server.url, "--output", "json").out)
    assert [each["host"] for each in found["clocks"]] == ["h3"]
    rows = list(csv.DictReader(io.StringIO(leadline_cli(*CLOCK, "--server", server.url, "--output", "csv").out)))
    assert {"host", "offset_ns", "bound_ns", "rate_ppb", "state", "doubts"} <= rows[0].keys()
    assert "no clock of a host with 'h99'" in leadline_cli(*CLOCK, "h99", "--server", server.url).out


@pytest.mark.parametrize("verb", [MESH, CLOCK])
def test_without_rows_it_says_what_to_do(empty: RunningLeadline, leadline_cli: Run, verb: tuple[str, ...]) -> None:
    ran = leadline_cli(*verb, "--server", empty.url)
    assert ran.code == 0
    assert f"agent --mesh --server {empty.url}" in ran.out
    rows = leadline_cli(*verb, "--server", empty.url, "--output", "csv")
    assert (rows.code, rows.out.strip()) == (0, "")


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ((*MESH, "--threshold", "soon"), 2, "such as 5us or 800ns, got 'soon'"),
        ((*MESH, "--threshold", "1%"), 2, "such as 5us"),
        ((*MESH, "--measure", "lost", "--threshold", "5us"), 2, "a share such as 1%"),
        ((*MESH, "--at", "noon"), 2, "a time is 14:02"),
        ((*MESH, "--job", "gone-9"), 3, "gone-9"),
        ((*MESH, "--watch"), 2, "--watch draws on a terminal"),
        ((*CLOCK, "--watch", "--output", "csv"), 2, "for --output csv ask once"),
        ((*CLOCK, "--watch", "--every", "0.01"), 2, "0.5"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else None,
)
def test_mistakes_end_with_a_line(
    server: RunningLeadline, leadline_cli: Run, args: tuple[str, ...], code: int, text: str
) -> None:
    ran = leadline_cli(*args, "--server", server.url)
    assert ran.code == code
    assert text in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("verb", [MESH, CLOCK])
def test_live_until_interrupted(server: RunningLeadline, verb: tuple[str, ...]) -> None:
    ours, theirs = pty.openpty()
    # As at a terminal: who runs these tests in the background may have it ignored, and children inherit that.
    usual = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'leadline'; "
    program = f"{usual}from leadline.cli.main import main; main()"
    command = [sys.executable, "-c", program, *verb, "--watch", "--every", "0.5", "--server", server.url]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environ) as process:
        os.close(theirs)
        try:
            seen = _read_until(ours, lambda text: text.count("Ctrl-C ends") >= 2)
            process.send_signal(signal.SIGINT)
            seen += _read_until(ours, lambda _: process.poll() is not None)
            assert process.wait(20) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()
            os.close(ours)
    assert "\x1b[?1049l" in seen, "the screen as it was before"
    left = seen.rpartition("\x1b[?1049l")[2]
    assert "h3" in left, "what was last seen stays"


def _read_until(terminal: int, enough: Any, seconds: float = 60.0) -> str:
    seen, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65_536).decode("utf-8", "replace")
            except OSError:  # the other end is closed
                return seen
        elif enough(seen):
            return seen
        if "Ctrl-C" in seen and enough(seen):
            return seen
    raise AssertionError(f"not seen within {seconds:.0f} s: {seen[-2000:]!r}")


# --- Words ----------------------------------------------------------------------------------------------------------


def drawn(tell: Any, width: int = 80) -> list[str]:
    """What is printed on a terminal of this width, without colours."""
    written = io.StringIO()
    tell(console(into=written, width=width))
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in written.getvalue().splitlines()]


def answers(count: int, racks: int = 0) -> dict[str, Any]:
    """A mesh of so many hosts, each the next one's neighbour; in so many racks, four of them a pod."""
    names = [f"n{at}" for at in range(count)]
    values: list[list[float | None]] = [[None] * count for _ in names]
    for at in range(count):
        for far in (1, 2, 3):
            values[at][(at + far) % count] = 1000.0 * far
    rack_of = [at * racks // count if racks else -1 for at in range(count)]
    tags = [
        {"name": "rack", "values": [f"r{at}" for at in range(racks)], "of": rack_of},
        {"name": "pod", "values": [f"p{at}" for at in range(-(-racks // 4))],
         "of": [each // 4 if each >= 0 else -1 for each in rack_of]},
    ]  # fmt: skip
    whole = {"schema": 1, "at_ns": 20 * S, "from_ns": 10 * S, "measure": "p50", "unit": "ns", "traffic_class": 0,
             "classes": [], "hosts": names, "routers_total": 0, "routers_unplaced": [], "why": ""}  # fmt: skip
    zeros, nothing = [0] * count, [None] * count
    lists = ("inbound_silent", "outbound_silent", "nics_total", "nics_healthy", "nics_unknown", "state")
    board = {
        **whole, "states": ["probed", "dark", "unprobed"], "words": [""] * count, "inbound": [2000.0] * count,
        "outbound": [2000.0] * count, "inbound_bound_ns": [100] * count, "outbound_bound_ns": [100] * count,
        "inbound_peers": [3] * count, "outbound_peers": [3] * count, "heard_ns": nothing, "tags": tags if racks else [],
        "jobs": [], "jobs_of": [[] for _ in names], "machines": [], "machines_unknown": [], "at_address": None,
        **dict.fromkeys(lists, zeros),
    }  # fmt: skip
    mesh = {**whole, "hosts_total": count, "values": values, "silent": [],
            "bounds_ns": [[100] * count for _ in names]}  # fmt: skip
    return {"mesh": mesh, "board": board, "flows": {"flows": [], "flows_total": 0, "why": "none"}}


@pytest.mark.parametrize(("count", "racks", "by"), [
    (5, 0, "host"), (30, 4, "host"), (70, 8, "host"), (120, 12, "rack"), (256, 128, "pod"), (200, 0, "run"),
])  # fmt: skip
def test_a_matrix_fits_80_columns_or_folds(count: int, racks: int, by: str) -> None:
    found = answers(count, racks)
    hosts = hosts_of(found["board"])
    square = square_of(found["mesh"], hosts, 80)
    assert square.by == by
    lines = drawn(lambda out: show_mesh.tell(out, found, 5000.0))
    assert max(len(line) for line in lines) <= 80, "no line is wider than the terminal"
    matrix = heat(square, 5000.0, 80)
    assert max(len(line.plain) for line in matrix) <= 80
    assert len(matrix) == len(square.names) + len(str(len(square.names)))


def test_routers_that_no_inventory_knows_are_told_with_what_to_do() -> None:
    found = answers(5, 0)
    found["mesh"] |= {"routers_total": 6, "routers_unplaced": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]}
    told = "\n".join(drawn(lambda out: show_mesh.tell(out, found, 5000.0)))
    assert "4 of 6 routers that answer traces are in no inventory (10.0.0.1, 10.0.0.2, 10.0.0.3, ...)" in told
    assert "address:A in swport:SWITCH/PORT" in told


def test_a_fold_is_the_worst_of_its_pairs_and_silence_is_seen_first() -> None:
    found = answers(8, 4)
    found["mesh"]["values"][0][2] = 90_000.0
    found["mesh"]["silent"] = [(4, 6)]
    square = square_of(found["mesh"], hosts_of(found["board"]), 9)
    assert (square.by, square.names) == ("rack", ("r0", "r1", "r2", "r3"))
    assert square.values[0][1] == 90_000.0
    assert square.silent == {(2, 3)}
    first, third = (heat(square, 5000.0, 80)[at].plain.split() for at in (1, 3))
    assert first[2:] == [LEVELS[0], LEVELS[7], LEVELS[2], "·"]
    assert third[-1] == "×"


def test_levels_begin_where_the_legend_says() -> None:
    values = (0.0, 2_499.0, 2_500.0, 4_999.0, 5_000.0, 1e9)
    square = Square("rack", tuple("abcdef"), tuple((value,) * 6 for value in values), frozenset())
    assert [line.plain.split()[2] for line in heat(square, 5_000.0, 80)[1:]] == [
        LEVELS[at] for at in (0, 1, 2, 3, 4, 7)
    ]


def test_thresholds() -> None:
    assert threshold_of("", "p99") == 5_000
    assert threshold_of("", "lost") == pytest.approx(0.01)
    assert threshold_of("800ns", "p50") == 800
    assert threshold_of("1.5 ms", "queue") == 1.5e6
    assert threshold_of("0.5%", "lost") == pytest.approx(0.005)
    for text in ("0us", "-1us", "5", "us"):
        with pytest.raises(UsageError):
            threshold_of(text, "p99")


def test_places_and_pairs_the_worst_first() -> None:
    found = answers(8, 4)
    found["board"]["inbound"][5] = 7_000.0
    hosts = hosts_of(found["board"])
    rows = places_of(hosts, 5_000.0, "ns")
    assert (rows[0]["rack"], rows[0]["slow"], rows[0]["pod"]) == ("r2", 1, "p0")
    assert places_of(hosts_of(answers(3)["board"]), 5_000.0, "ns") == []
    assert [each["value"] for each in slowest_pairs(found["mesh"], hosts, 3_000.0)] == [3_000.0] * 8


def test_a_clock_table_fits_80_columns() -> None:
    row = {"tenant": "t", "cluster": "c", "host": "gpu-node-0123", "clock": "x/1", "end_ns": S, "offset_ns": -123_456,
           "bound_ns": 1_234, "rate_ppb": -12_345.6, "noise_ns": 45.6, "island": 1, "state": "carried",
           "doubts": []}  # fmt: skip
    found = {"at_ns": 2 * S, "clocks": [row, {**row, "state": "lost", "host": "n2"}], "islands": 1, "island_sizes": [],
             "why": ""}  # fmt: skip
    lines = drawn(lambda out: show_clock.tell(out, found))
    assert max(len(line) for line in lines) <= 80
    assert any(line.startswith("gpu-node-0123") and "-12.3 ppm" in line for line in lines), lines


def test_watching_goes_on_over_a_server_that_is_away() -> None:
    written = io.StringIO()
    out = Console(file=written, force_terminal=True, width=80, height=20)
    turns: list[float] = []

    def draw(into: Console) -> None:
        if len(turns) == 1:
            raise WorldError("no Leadline answers")
        into.print(f"round {len(turns)}")

    def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 3:
            raise KeyboardInterrupt

    watch(draw, 2.0, out, sleep)
    text = written.getvalue()
    assert "no Leadline answers" in text
    assert text.rpartition("\x1b[?1049l")[2].strip().startswith("round 2")
    assert turns == [2.0, 2.0, 2.0]


def test_help_has_examples(leadline_cli: Run) -> None:
    for verb in (MESH, CLOCK):
        ran = leadline_cli(*verb, "--help")
        assert "Examples" in ran.out
        assert "--watch" in ran.out
