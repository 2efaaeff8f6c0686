"""Laws of messages: each is told once and holds its own ends; edges hold no more than there is; order is nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.fabrics import T0, S
from tests.builders.messages import MS, WINDOW, Row, Transfer, collective_rows, rows_table
from tests.common.analysis_laws import Case, assert_same, moved, said, shuffled

from leadline.analysis.messages.ends import LONGEST_NS, RECEIVED_WAITS_NS, SENT_WAITS_NS
from leadline.analysis.messages.messages import messages
from leadline.model.tables import BY_NAME

LAWS = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
WINDOWS = 6  # judged: from the one before the first posts to the one after the last waits

short = st.integers(0, 9 * S)


@st.composite
def transfers(draw: st.DrawFn, spread_ns: int = 20 * S) -> Transfer:
    """A message of few ranks, so that keys meet; its ends may be seconds apart, or of clocks that disagree."""
    at = T0 + draw(st.integers(0, spread_ns))
    send, recv = at + draw(st.integers(-MS, MS)), at + draw(st.integers(-MS, MS))
    return Transfer(
        src=draw(st.integers(0, 3)), dst=draw(st.integers(0, 3)), send_posted_ns=send, sent_ns=send + draw(short),
        recv_posted_ns=recv, received_ns=recv + draw(short), seq=draw(st.integers(0, 3)), step=draw(st.integers(0, 2)),
        channel=draw(st.integers(0, 1)), size=draw(st.sampled_from([0, 1, 1000])),
    )  # fmt: skip


def key(row: Row) -> tuple[int, ...]:
    src, dst = (row["rank"], row["peer"]) if row["side"] == "send" else (row["peer"], row["rank"])
    return row["seq"], row["step"], row["channel"], src, dst


def told(ends: Sequence[Row], **more: pa.Table) -> list[tuple[list[Row], list[Row]]]:
    """Rows of `message` and `edge` of all windows in which these ends could be told."""
    table = rows_table("message_end", ends)
    found = []
    for number in range(WINDOWS):
        window = replace(WINDOW, from_ns=T0 + 10 * S * (number - 1), to_ns=T0 + 10 * S * number)
        rows = said(messages, Case({"message_end": table, **more}, window))
        found.append((rows.get("message", []), rows.get("edge", [])))
    return found


@LAWS
@given(st.lists(transfers(), max_size=12, unique_by=lambda each: key(each.ends()[0])), st.data())
def test_each_message_is_told_once_whatever_ends_are_missing(some: list[Transfer], data: st.DataObject) -> None:
    ends = [end for each in some for end in each.ends() if data.draw(st.booleans()) or data.draw(st.booleans())]
    by_key: dict[tuple[int, ...], dict[str, Row]] = {}
    for end in ends:
        by_key.setdefault(key(end), {})[end["side"]] = end
    rows = [row for some_rows, _ in told(ends) for row in some_rows]
    found = {(row["seq"], row["step"], row["channel"], row["src_rank"], row["dst_rank"]): row for row in rows}
    pairs = {each for each, both in by_key.items() if len(both) == 2 and meets(both["send"], both["recv"])}
    assert {each for each, row in found.items() if row["state"] == "paired"} == pairs
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        each = (row["seq"], row["step"], row["channel"], row["src_rank"], row["dst_rank"])
        for side, begin, end in (("send", "send_posted_ns", "sent_ns"), ("recv", "recv_posted_ns", "received_ns")):
            if row[begin] is not None:
                assert (row[begin], row[end]) == (by_key[each][side]["begin_ns"], by_key[each][side]["end_ns"])
                seen[(*each, side)] += 1
    assert set(seen.values()) <= {1}
    assert set(seen) == {(*each, side) for each, both in by_key.items() for side in both} - hidden(by_key, found)


def hidden(by_key: dict[tuple[int, ...], dict[str, Row]], found: dict[tuple[int, ...], Row]) -> set[tuple[Any, ...]]:
    """Ends that stand in no row: both of a key were alone and fell into one window, whose row has the first of them."""
    odd = {each for each, row in found.items() if row["state"] == "conflicting" and len(by_key[each]) == 2}
    return {
        (*each, side) for each in odd for side in by_key[each]
        if found[each]["sent_ns" if side == "send" else "received_ns"] is None
    }  # fmt: skip


def meets(send: Row, recv: Row) -> bool:
    """Whether two ends of one key are one message."""
    later = recv["end_ns"] - send["end_ns"]
    lengths = [each["end_ns"] - each["begin_ns"] for each in (send, recv)]
    return -RECEIVED_WAITS_NS <= later <= SENT_WAITS_NS and max(lengths) <= LONGEST_NS


@LAWS
@given(st.lists(transfers(), max_size=20))
def test_every_end_is_counted_once_even_where_steps_are_numbered_twice(some: list[Transfer]) -> None:
    ends = [end for each in some for end in each.ends()]
    alike = {(key(end), end["side"], end["begin_ns"], end["end_ns"], end["bytes"]) for end in ends}
    edges = [row for _, rows in told(ends) for row in rows]
    both = sum(row["messages"] for row in edges)
    alone = sum(row["unpaired"] for row in edges)
    conflicting = sum(row["conflicting"] for row in edges)
    assert 2 * both + alone <= len(alike) <= 2 * both + alone + conflicting


@LAWS
@given(st.lists(transfers(2 * S), min_size=1, max_size=20), st.integers(0, 2 * S), st.booleans())
def test_edges_hold_no_more_than_the_collectives_took(some: list[Transfer], arrival: int, told_of: bool) -> None:
    ends = [end for each in some for end in each.ends()]
    rows = []
    for seq in sorted({each.seq for each in some}) if told_of else ():
        mine = [replace(each, src=rank, dst=rank) for rank in range(4) for each in some if each.seq == seq]
        rows += collective_rows(mine, [T0 + arrival] * 4)
    for _, edges in told(ends, collective=rows_table("collective", rows)):
        held = [float.fromhex(row["held_s"]) for row in edges]
        wholes = {float.fromhex(row["collectives_s"]) for row in edges}
        assert len(wholes) <= 1  # one communicator
        assert all(each >= 0 for each in held)
        assert sum(held) <= sum(wholes) + 1e-9


@LAWS
@given(st.lists(transfers(), max_size=15), st.integers(0, 2**31), st.integers(-5, 5))
def test_neither_order_nor_time_matters(some: list[Transfer], seed: int, later: int) -> None:
    table = rows_table("message_end", [end for each in some for end in each.ends()])
    by_ns = later * 10 * S
    there = moved(BY_NAME["message_end"], shuffled(table, np.random.default_rng(seed)), by_ns)
    assert there is not None
    window = replace(WINDOW, from_ns=WINDOW.from_ns + 10 * S, to_ns=WINDOW.to_ns + 10 * S)
    late = replace(window, from_ns=window.from_ns + by_ns, to_ns=window.to_ns + by_ns)
    rows = said(messages, Case({"message_end": there}, late))
    times = ("end_ns", "send_posted_ns", "sent_ns", "recv_posted_ns", "received_ns")
    back = {
        name: [
            {**row, **{column: row[column] - by_ns for column in times if row.get(column) is not None}} for row in each
        ]
        for name, each in rows.items()
    }
    assert_same(back, said(messages, Case({"message_end": table}, window)), "messages depend on order or time")
