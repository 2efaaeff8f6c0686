"""Messages of two real rings: all paired, and numbers as another way to work them out gives them."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leadline.analysis.messages.messages import messages
from leadline.model.tables import BY_NAME
from leadline.runner.offline import judge_bundle
from leadline.store.bundle import read_bundle
from leadline.views.messages.rings import channel_of

BUNDLE = Path(__file__).parent / "lab_messages" / "rings.leadline"
JOBS = ("tcp-1", "roce-1")
S = 10**9
Row = dict[str, Any]


@cache
def rows(name: str) -> list[Row]:
    with read_bundle(BUNDLE) as bundle:
        return pa.concat_tables(bundle.groups(BY_NAME[name])).to_pylist()


@cache
def verdicts() -> dict[str, list[Row]]:
    return {name: table.to_pylist() for name, table in judge_bundle(BUNDLE, [messages]).items()}


def key(row: Row) -> tuple[Any, ...]:
    src, dst = (row["rank"], row["peer"]) if row["side"] == "send" else (row["peer"], row["rank"])
    return row["comm"], row["channel"], row["seq"], row["step"], src, dst


@cache
def pairs() -> dict[tuple[Any, ...], dict[str, Row]]:
    """Ends by key and side."""
    found: dict[tuple[Any, ...], dict[str, Row]] = defaultdict(dict)
    for row in rows("message_end"):
        assert row["side"] not in found[key(row)]
        found[key(row)][row["side"]] = row
    return found


def of(job: str, name: str) -> list[Row]:
    return [row for row in verdicts()[name] if row["job"] == job]


@pytest.mark.parametrize("job", JOBS)
def test_every_message_is_told_once_with_the_times_of_its_ends(job: str) -> None:
    told = {tuple(row[name] for name in ("comm", "channel", "seq", "step", "src_rank", "dst_rank")): row
            for row in of(job, "message")}  # fmt: skip
    wanted = {each: ends for each, ends in pairs().items() if ends[next(iter(ends))]["job"] == job and len(ends) == 2}
    assert len(told) == len(of(job, "message"))
    assert {each for each, row in told.items() if row["state"] == "paired"} == wanted.keys()
    for each, ends in wanted.items():
        row = told[each]
        assert (row["send_posted_ns"], row["sent_ns"]) == (ends["send"]["begin_ns"], ends["send"]["end_ns"])
        assert (row["recv_posted_ns"], row["received_ns"]) == (ends["recv"]["begin_ns"], ends["recv"]["end_ns"])
        later = max(row["sent_ns"], row["received_ns"])
        assert row["end_ns"] - row["window_ns"] <= later < row["end_ns"]
        assert (row["delay_ns"], row["bound_ns"]) == (None, None)  # no clock has a fit


@pytest.mark.parametrize("job", JOBS)
def test_ends_alone_are_those_of_the_collective_that_was_cut(job: str) -> None:
    lone = [ends for ends in pairs().values() if len(ends) == 1 and next(iter(ends.values()))["job"] == job]
    last = max(row["seq"] for row in rows("collective") if row["job"] == job)
    assert {next(iter(ends.values()))["seq"] for ends in lone} <= {last}
    assert all(row["unpaired"] == row["conflicting"] == 0 for row in of(job, "edge"))  # the bundle ends before


@pytest.mark.parametrize("job", JOBS)
def test_sums_by_edge(job: str) -> None:
    sums: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for each, ends in pairs().items():
        if len(ends) == 2 and ends["send"]["job"] == job:
            later = max(end["end_ns"] for end in ends.values())
            taken = ends["recv"]["end_ns"] - max(end["begin_ns"] for end in ends.values())
            sums[each[4], each[5], (later // (10 * S) + 1) * 10 * S].append(max(taken, 0))
    sizes = {ends["recv"]["bytes"] for ends in pairs().values() if len(ends) == 2 and ends["recv"]["job"] == job}
    assert len(sizes) == 1  # every block of the buffer is alike
    size = sizes.pop()
    edges = {(row["src_rank"], row["dst_rank"], row["end_ns"]): row for row in of(job, "edge")}
    assert edges.keys() == sums.keys()
    for each, taken in sums.items():
        ordered = sorted(taken)
        row = edges[each]
        assert (row["messages"], row["bytes"]) == (len(taken), len(taken) * size)
        assert row["transfer_p50_ns"] == ordered[(len(taken) + 1) // 2 - 1]
        assert row["transfer_p99_ns"] == ordered[-(-len(taken) * 99 // 100) - 1]


def path_of(transfers: list[Row], arrival_ns: int, end_ns: int) -> dict[tuple[int, int], int]:
    """What edges held of one collective, ns: by search over all its ends, moment by moment backwards."""
    held: dict[tuple[int, int], int] = defaultdict(int)
    at = max(transfers, key=lambda each: (each["received"], each["step"], each["channel"], each["src"]))
    now = min(end_ns, at["received"])
    while now > arrival_ns:
        posted = max(at["send_posted"], at["recv_posted"])
        rank = at["src"] if at["send_posted"] >= at["recv_posted"] else at["dst"]
        held[at["src"], at["dst"]] += max(now - max(posted, arrival_ns), 0)
        before = [
            (through, each["step"], number)
            for number, each in enumerate(transfers)
            for who, through in ((each["src"], each["sent"]), (each["dst"], each["received"]))
            if each is not at and who == rank and each["channel"] == at["channel"] and through <= posted
        ]
        if not before:
            break
        now = min(now, max(posted, arrival_ns), max(before)[0])
        at = transfers[max(before)[2]]
    return held


@pytest.mark.parametrize("job", JOBS)
def test_held_times_are_those_of_the_path_followed_by_hand(job: str) -> None:
    calls: dict[int, list[Row]] = defaultdict(list)
    for row in rows("collective"):
        if row["job"] == job:
            calls[row["seq"]].append(row)
    transfers: dict[int, list[Row]] = defaultdict(list)
    for each, ends in pairs().items():
        if len(ends) == 2 and ends["send"]["job"] == job:
            transfers[each[2]].append({
                "channel": each[1], "step": each[3], "src": each[4], "dst": each[5],
                "send_posted": ends["send"]["begin_ns"], "sent": ends["send"]["end_ns"],
                "recv_posted": ends["recv"]["begin_ns"], "received": ends["recv"]["end_ns"],
            })  # fmt: skip
    held: dict[tuple[int, int, int], int] = defaultdict(int)
    whole: dict[int, int] = defaultdict(int)
    for seq, some in calls.items():
        through = [row["finished_ns"] for row in some if row["finished_ns"] is not None]
        if len(through) < 4 or not transfers[seq]:
            continue
        arrival_ns, end_ns = max(row["enqueued_ns"] for row in some), max(through)
        window = (end_ns // (10 * S) + 1) * 10 * S
        whole[window] += end_ns - arrival_ns
        for (src, dst), taken in path_of(transfers[seq], arrival_ns, end_ns).items():
            held[src, dst, window] += taken
    for row in of(job, "edge"):
        assert row["collectives_s"] == pytest.approx(whole[row["end_ns"]] / 1e9)
        assert row["held_s"] == pytest.approx(held[row["src_rank"], row["dst_rank"], row["end_ns"]] / 1e9, abs=1e-9)
    for window, total in whole.items():
        assert sum(row["held_s"] for row in of(job, "edge") if row["end_ns"] == window) <= total / 1e9 + 1e-9


@pytest.mark.parametrize("job", JOBS)
def test_channels_are_the_two_rings_and_flows_are_those_of_the_ends(job: str) -> None:
    links: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in of(job, "message"):
        links[row["channel"]].add((row["src_rank"], row["dst_rank"]))
    assert [channel_of(channel, pairs).order for channel, pairs in sorted(links.items())] == [
        (0, 1, 2, 3),
        (0, 3, 2, 1),
    ]
    assert all(row["flows"] == 1 and row["flow"] is not None for row in of(job, "edge"))
