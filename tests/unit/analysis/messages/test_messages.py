"""Messages and edges of hand-made transfers, numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.messages import (
    COMM,
    JOB,
    MS,
    WINDOW,
    Transfer,
    collective_rows,
    ends_table,
    owned,
    ring,
    rows_table,
    with_bounds,
)
from tests.common.analysis_laws import Case, said

from leadline.analysis.messages.ends import RECEIVED_WAITS_NS, SENT_WAITS_NS
from leadline.analysis.messages.messages import messages
from leadline.analysis.spec import Window

US = 1000
Row = dict[str, Any]


def judge(ends: pa.Table, window: Window = WINDOW, **more: pa.Table) -> tuple[list[Row], dict[tuple[int, int], Row]]:
    """Rows of `message`, and those of `edge` by their ranks."""
    tables: Mapping[str, pa.Table] = {"message_end": ends, **more}
    found = said(messages, Case(tables, window))
    edges = {(row["src_rank"], row["dst_rank"]): row for row in found.get("edge", [])}
    for row in edges.values():
        row |= {name: float.fromhex(row[name]) for name in ("held_s", "collectives_s", "bytes")}
    return found.get("message", []), edges


def one(**more: Any) -> Transfer:
    """A message from 0 to 1: posted at 1 s, sent 100 us later; the receive posted 50 us after, through after 1 ms."""
    at = T0 + S
    given: dict[str, Any] = {
        "src": 0, "dst": 1, "send_posted_ns": at, "sent_ns": at + 100 * US, "recv_posted_ns": at + 50 * US,
        "received_ns": at + MS,
    }  # fmt: skip
    return Transfer(**{**given, **more})


def test_both_ends_are_one_message() -> None:
    (row,), edges = judge(ends_table([one()]))
    at = T0 + S
    assert (row["state"], row["bytes"], row["src_rank"], row["dst_rank"]) == ("paired", 1000, 0, 1)
    assert (row["send_posted_ns"], row["sent_ns"]) == (at, at + 100 * US)
    assert (row["recv_posted_ns"], row["received_ns"]) == (at + 50 * US, at + MS)
    edge = edges[0, 1]
    assert (edge["messages"], edge["unpaired"], edge["conflicting"], edge["bytes"]) == (1, 0, 0, 1000.0)
    assert edge["transfer_p50_ns"] == edge["transfer_p99_ns"] == 950 * US  # from both posted
    assert edge["held_s"] == edge["collectives_s"] == pytest.approx(950e-6)  # it stands by itself


@pytest.mark.parametrize(
    ("bounds", "delay", "bound"),
    [
        ({}, None, None),
        ({0: 5 * US}, None, None),
        ({0: 5 * US, 1: 7 * US}, 900 * US, 12 * US),
        ({0: 0, 1: 0}, 900 * US, 0),
    ],
)
def test_a_delay_needs_both_clocks(bounds: dict[int, int | None], delay: int | None, bound: int | None) -> None:
    (row,), edges = judge(with_bounds(ends_table([one()]), bounds))
    assert (row["delay_ns"], row["bound_ns"]) == (delay, bound)
    assert (edges[0, 1]["delay_p50_ns"], edges[0, 1]["bound_ns"]) == (delay, bound)


def test_on_one_clock_a_delay_is_exact() -> None:
    send, recv = one().ends()
    (row,), _ = judge(rows_table("message_end", [send, {**recv, "clock": send["clock"]}]))
    assert (row["delay_ns"], row["bound_ns"]) == (900 * US, 0)


@pytest.mark.parametrize(("early_us", "delay"), [(5, -5 * US), (12, -12 * US), (13, None)])
def test_a_message_that_came_before_it_was_sent_has_no_delay_beyond_the_bound(early_us: int, delay: int | None) -> None:
    early = one(received_ns=T0 + S + (100 - early_us) * US)
    (row,), edges = judge(with_bounds(ends_table([early]), {0: 5 * US, 1: 7 * US}))
    assert (row["state"], row["delay_ns"], row["bound_ns"]) == ("paired", delay, 12 * US)
    assert edges[0, 1]["delay_p50_ns"] == delay


def windows(ends: pa.Table, count: int = 6) -> list[tuple[int, str]]:
    """(number of the window, state) of every message that is told in `count` windows."""
    found = []
    for number in range(count):
        later = replace(WINDOW, from_ns=WINDOW.from_ns + number * 10 * S, to_ns=WINDOW.to_ns + number * 10 * S)
        found += [(number, row["state"]) for row in judge(ends, later)[0]]
    return found


def test_a_message_is_told_once_in_the_window_of_its_later_end() -> None:
    assert windows(ends_table([one(recv_posted_ns=T0, received_ns=T0 + 11 * S)])) == [(1, "paired")]
    assert windows(ends_table([one(received_ns=T0 + 10 * S - 1)])) == [(0, "paired")]
    assert windows(ends_table([one(received_ns=T0 + 10 * S)])) == [(1, "paired")]
    early = one(recv_posted_ns=T0, received_ns=T0 + 9 * S, send_posted_ns=T0, sent_ns=T0 + 12 * S)
    assert windows(ends_table([early])) == [(1, "paired")]  # the send's stamp comes after


def test_an_end_alone_is_told_when_the_other_can_no_longer_come() -> None:
    send, recv = one().ends()
    assert windows(rows_table("message_end", [send])) == [(2, "send-only")]
    assert windows(rows_table("message_end", [recv])) == [(0, "recv-only")]
    _, edges = judge(rows_table("message_end", [recv]))
    assert (edges[0, 1]["unpaired"], edges[0, 1]["messages"], edges[0, 1]["transfer_p50_ns"]) == (1, 0, None)
    sent_ns = T0 + S + 100 * US
    just = one(recv_posted_ns=T0, received_ns=sent_ns + SENT_WAITS_NS)
    assert windows(ends_table([just])) == [(2, "paired")]
    too_late = one(recv_posted_ns=T0, received_ns=sent_ns + SENT_WAITS_NS + 1)
    assert windows(ends_table([too_late])) == [(2, "conflicting")]  # both alone, and one row in one window
    received = one(sent_ns=T0 + S + MS + RECEIVED_WAITS_NS + 1)
    assert sorted(windows(ends_table([received]))) == [(0, "recv-only"), (2, "send-only")]


def test_ends_that_contradict_each_other_are_told_as_that() -> None:
    send, recv = one().ends()
    (row,), edges = judge(rows_table("message_end", [send, {**recv, "bytes": 999}]))
    assert (row["state"], row["bytes"]) == ("conflicting", 999)  # the receiver's
    assert (edges[0, 1]["conflicting"], edges[0, 1]["unpaired"]) == (1, 0)
    (row,), _ = judge(ends_table([one(recv_posted_ns=T0 + 2 * S)]))
    assert row["state"] == "conflicting"  # it ends before it begins


def test_a_step_numbered_twice_is_one_row_that_says_so() -> None:
    again = one(send_posted_ns=T0 + 2 * S, sent_ns=T0 + 2 * S + MS, recv_posted_ns=T0 + 2 * S, received_ns=T0 + 3 * S)
    (row,), edges = judge(ends_table([one(), again]))
    assert (row["state"], row["received_ns"]) == ("conflicting", T0 + S + MS)  # of the first
    assert edges[0, 1]["messages"] == 2
    assert edges[0, 1]["conflicting"] == 1  # the second one


def test_an_end_that_was_sent_twice_is_one_end() -> None:
    rows, edges = judge(ends_table([one()], more=one().ends()))
    assert [row["state"] for row in rows] == ["paired"]
    assert (edges[0, 1]["messages"], edges[0, 1]["conflicting"]) == (1, 0)


def test_an_end_of_no_side_is_left_out() -> None:
    rows, _ = judge(ends_table([one()], more=[{**one().ends()[0], "side": "neither", "seq": 9}]))
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("flows", "told", "known", "candidates"),
    [
        ({}, None, None, 0),
        ({}, 0xF1, 0xF1, 1),
        ({0xA1: (0, 1)}, None, 0xA1, 1),
        ({0xA1: (0, 1), 0xA2: (1, 0)}, None, None, 2),
        ({0xA1: (0, 1), 0xA2: (1, 0)}, 0xF1, 0xF1, 1),  # what an end says counts
        ({0xA1: (0, 2), 0xA2: (1,)}, None, None, 0),
    ],
)
def test_the_flow_is_what_an_end_says_or_both_ranks_own(
    flows: dict[int, tuple[int, ...]], told: int | None, known: int | None, candidates: int
) -> None:
    (row,), edges = judge(ends_table([one(flow=told)]), relation=owned(flows))
    wanted = None if known is None else known.to_bytes(16, "little").hex()
    assert (row["flow"], row["flows"]) == (wanted, candidates)
    assert (edges[0, 1]["flow"], edges[0, 1]["flows"]) == (wanted, candidates)


def test_of_two_sends_that_wait_the_older_is_met() -> None:
    first, recv = one(received_ns=T0 + 3 * S).ends()
    second, _ = one(send_posted_ns=T0 + 2 * S, sent_ns=T0 + 2 * S + US).ends()
    (row,), edges = judge(rows_table("message_end", [second, first, recv]))
    assert (row["state"], row["send_posted_ns"]) == ("paired", first["begin_ns"])
    assert edges[0, 1]["messages"] == 1


def test_a_collective_that_only_messages_tell_begins_when_its_last_rank_posts() -> None:
    late = {"recv_posted_ns": T0 + 2 * S, "received_ns": T0 + 2 * S + 3 * MS}
    back = {"src": 1, "dst": 0, "step": 1, "send_posted_ns": T0 + 2 * S + 3 * MS, "sent_ns": T0 + 2 * S + 4 * MS}
    back |= {"recv_posted_ns": T0 + S, "received_ns": T0 + 2 * S + 5 * MS}
    _, edges = judge(ends_table([one(sent_ns=T0 + 2 * S + MS, **late), one(**back)]))
    assert edges[0, 1]["collectives_s"] == pytest.approx(0.005)


def told_by(relation: pa.Table, tenant: str) -> pa.Table:
    """The same rows, another tenant's."""
    at = relation.schema.get_field_index("tenant")
    names = pa.array([tenant] * len(relation)).dictionary_encode()
    return relation.set_column(at, relation.schema.field(at), names)


def test_flows_of_another_tenants_job_of_the_same_name_are_not_its_own() -> None:
    mine, others = told_by(owned({0xF1: (0, 1)}), WINDOW.tenant), told_by(owned({0xF2: (0, 1)}), "other")
    (row,), _ = judge(ends_table([one()]), relation=pa.concat_tables([mine, others]))
    assert (row["flow"], row["flows"]) == ((0xF1).to_bytes(16, "little").hex(), 1)
    (row,), _ = judge(ends_table([one()]), relation=others)  # a provider's word for what the job's tenant does not say
    assert row["flows"] == 1


def test_ends_that_name_two_flows_leave_two() -> None:
    send, recv = one(flow=0xF1).ends()
    (row,), edges = judge(rows_table("message_end", [send, {**recv, "flow": 0xF2}]))
    assert (row["flow"], row["flows"], edges[0, 1]["flows"]) == (None, 2, 2)


def ring_tables(transfers: list[Transfer], arrivals: list[int]) -> tuple[pa.Table, dict[str, pa.Table]]:
    return ends_table(transfers), {"collective": rows_table("collective", collective_rows(transfers, arrivals))}


def test_the_slow_edge_of_a_ring_is_what_everybody_waited_for() -> None:
    """Six steps of 5 ms over 1 > 2, the others 1 ms: the path of 30 ms runs over 1 > 2 alone but for its fill."""
    ends, more = ring_tables(ring(4, 0, T0 + S, 6, slow=(1,)), [T0 + S] * 4)
    _, edges = judge(ends, **more)
    whole = edges[1, 2]["collectives_s"]
    held = {pair: edge["held_s"] for pair, edge in edges.items()}
    assert sum(held.values()) == pytest.approx(whole) == pytest.approx(0.030)  # nobody computes between steps
    assert held[1, 2] >= 0.025


def test_waiting_for_a_late_rank_is_not_an_edges() -> None:
    """Rank 3 calls 2 s later: its peer's receive is open for 2 s, and no edge held that."""
    late = T0 + 3 * S
    transfers = [
        Transfer(0, 1, T0 + S, T0 + S + US, late, late + MS, step=1),
        Transfer(1, 0, late, late + US, T0 + S, late + 2 * MS, step=1),
    ]
    ends, more = ring_tables(transfers, [T0 + S, late])
    _, edges = judge(ends, **more)
    assert edges[1, 0]["collectives_s"] == pytest.approx(0.002)
    assert edges[1, 0]["held_s"] == pytest.approx(0.002)
    assert edges[0, 1]["held_s"] == 0.0


def test_work_between_steps_is_no_edges() -> None:
    """0 > 1 takes 1 ms, rank 1 works 3 ms, 1 > 2 takes 2 ms: edges held 3 of 6 ms."""
    at = T0 + S
    transfers = [
        Transfer(0, 1, at, at + US, at, at + MS, step=0),
        Transfer(1, 2, at + 4 * MS, at + 4 * MS + US, at, at + 6 * MS, step=1),
    ]
    ends, more = ring_tables(transfers, [at] * 3)
    _, edges = judge(ends, **more)
    assert edges[0, 1]["collectives_s"] == pytest.approx(0.006)
    assert (edges[0, 1]["held_s"], edges[1, 2]["held_s"]) == (pytest.approx(0.001), pytest.approx(0.002))


def test_a_tree_is_followed_as_a_ring() -> None:
    """1 and 2 send up to 0, 2 late in the network; 0 sends down to both, slowly to 1."""
    at = T0 + S
    transfers = [
        Transfer(1, 0, at, at + US, at, at + MS, step=0),
        Transfer(2, 0, at, at + US, at, at + 4 * MS, step=0),
        Transfer(0, 1, at + 4 * MS, at + 4 * MS + US, at + MS, at + 9 * MS, step=1),
        Transfer(0, 2, at + 4 * MS, at + 4 * MS + US, at + MS, at + 5 * MS, step=1),
    ]
    ends, more = ring_tables(transfers, [at] * 3)
    _, edges = judge(ends, **more)
    held = {pair: round(edge["held_s"] * 1e3) for pair, edge in edges.items()}
    assert held == {(1, 0): 0, (2, 0): 4, (0, 1): 5, (0, 2): 0}


def test_a_collective_counts_in_the_window_of_its_last_end_with_all_its_messages() -> None:
    transfers = ring(4, 0, T0 + 10 * S - 12 * MS, 6, slow=(1,))
    ends, more = ring_tables(transfers, [T0 + 10 * S - 12 * MS] * 4)
    assert all(edge["collectives_s"] == 0 for edge in judge(ends, **more)[1].values())
    later = replace(WINDOW, from_ns=WINDOW.to_ns, to_ns=WINDOW.to_ns + 10 * S)
    edges = judge(ends, later, **more)[1]
    assert edges[1, 2]["collectives_s"] == pytest.approx(0.030)
    assert sum(edge["held_s"] for edge in edges.values()) == pytest.approx(0.030)


def test_a_rank_that_never_ended_leaves_its_collective_out() -> None:
    transfers = ring(4, 0, T0 + S, 6)
    rows = [row for row in collective_rows(transfers, [T0 + S] * 4) if row["rank"] or row["state"] == "enqueued"]
    _, edges = judge(ends_table(transfers), collective=rows_table("collective", rows))
    assert {(edge["collectives_s"], edge["held_s"]) for edge in edges.values()} == {(0.0, 0.0)}


def test_steps_without_rows_of_collectives_are_one_too_and_each_window_has_its_part() -> None:
    transfers = ring(4, 0, T0 + 10 * S - 12 * MS, 6, slow=(1,))
    later = replace(WINDOW, from_ns=WINDOW.to_ns, to_ns=WINDOW.to_ns + 10 * S)
    parts = [judge(ends_table(transfers), window)[1][1, 2]["collectives_s"] for window in (WINDOW, later)]
    assert 0 < parts[0] < 0.012
    assert parts[1] == pytest.approx(0.018)


def test_collectives_of_the_torch_hook_have_numbers_of_their_own() -> None:
    transfers = [one(), one(src=2, dst=3)]
    rows = collective_rows([one()], [T0, T0], source="torch-hook")
    _, edges = judge(ends_table(transfers), collective=rows_table("collective", rows))
    assert edges[0, 1]["held_s"] == pytest.approx(950e-6)
    assert edges[0, 1]["collectives_s"] == pytest.approx(1900e-6)  # two messages by themselves


def test_communicators_are_apart() -> None:
    ends = ends_table([one(), one(comm="ring-1/0xff", received_ns=T0 + S + 2 * MS)])
    rows = said(messages, Case({"message_end": ends}, WINDOW))["edge"]
    whole = {row["comm"]: float.fromhex(row["collectives_s"]) for row in rows}
    assert whole == {COMM: pytest.approx(950e-6), "ring-1/0xff": pytest.approx(1950e-6)}
    assert {row["job"] for row in rows} == {JOB}
