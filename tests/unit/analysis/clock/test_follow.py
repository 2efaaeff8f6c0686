"""The analysis `clock` over windows: what befalls hosts is said, and what is said follows from rows alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from evals.clock_parts.shipped import judged, rows_of_traces, table_errors
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.incident import Names, rows_of
from tests.builders.mesh import ALL, BASE, FROM, REAL, edge, row

from leadline.analysis.clock.clock import COLUMNS, LOOK_BACK_NS, clock
from leadline.analysis.spec import Window
from leadline.model.tables.fabric import EDGE_FIT
from leadline.model.units import S
from leadline.simulator.oscillators import NORMAL, Oscillators
from leadline.simulator.probes import Conditions, Lie, Pause, regular_edges, traces

HOUR_NS = 3600 * S
SECONDS = 40
Off = Callable[[str, int], int]  # ns that a host's prober, or clock, is ahead of what the builder says, at a second
Row = dict[str, Any]


def none(_: str, __: int) -> int:
    return 0


def told(
    *, edges: list[tuple[str, str]] = ALL, prober: Off = none, own: Off = none, bias: Off = none,
    torn: Callable[[str, int], bool] = lambda *_: False, unheard: Callable[[str, str, int], bool] = lambda *_: False,
) -> list[Row]:  # fmt: skip
    """Rows of some windows, each edge and host once a second. `bias`: of all lines of a host, as one that lies says."""
    found = []
    for second in range(SECONDS):
        at_ns = FROM + second * S + S // 2
        for one, other in edges:
            ahead = {host: BASE[host] + prober(host, second) for host in (one, other)}
            line = edge(one, other, at_ns, ahead[other] - ahead[one] + bias(other, second) - bias(one, second), 0.0)
            line |= {"probe_ns": at_ns + ahead[one]}
            if torn(one, second) or torn(other, second):
                line |= {"state": "torn", "offset_ns": None, "rate_ppb": None, "noise_ns": None, "bound_ns": None}
            if unheard(one, other, second):
                line |= row(one, other, at_ns) | {"state": "few-points"}
            found.append(line)
        for host in sorted({each for pair in edges for each in pair}):
            found.append(
                row(host, host, at_ns)
                | {"state": "self", "src_port": 0, "probe_ns": at_ns + BASE[host] + prober(host, second)}
            )
    # What a clock shows says `ahead_ns`; `end_ns` comes as the runner gives it, coarsely mapped.
    for each in found:
        at_ns = each["end_ns"] - REAL[each["src"]]
        second = (at_ns - FROM) // S
        each["ahead_ns"] = REAL[each["src"]] + own(each["src"], second) + at_ns - each["probe_ns"]
    return found


def table_of(rows: list[Row]) -> pa.Table:
    return rows_of(EDGE_FIT, rows, Names()).select(COLUMNS)


def windows(table: pa.Table, first: int = 0, last: int = SECONDS // 5) -> dict[str, list[Row]]:
    """What the analysis says of windows, one after another, as the runner would have it judge."""
    out: dict[str, list[Row]] = {"clock_fit": [], "delay": []}
    for number in range(first, last):
        window = Window(FROM + number * 5 * S, FROM + (number + 1) * 5 * S)
        end_N = table["end_ns"]
        given = table.filter(
            pc.and_(pc.greater_equal(end_N, window.from_ns - LOOK_BACK_NS), pc.less(end_N, window.to_ns))
        )
        for name, columns in clock(given, window=window).items():
            out[name] += [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
    return out


def of_host(found: dict[str, list[Row]], host: str) -> list[tuple[int, str, int, int]]:
    """(second, state, offset, bound) of a host."""
    mine = [each for each in found["clock_fit"] if each["host"] == host]
    return [((each["end_ns"] - FROM) // S, each["state"], each["offset_ns"], each["bound_ns"]) for each in mine]


def centre() -> int:
    return sorted(REAL.values())[1]


def test_each_second_has_a_fit() -> None:
    found = of_host(windows(table_of(told())), "h1")
    assert [second for second, *_ in found] == list(range(found[0][0], SECONDS + 1))
    assert {state for _, state, *_ in found} == {"fitted"}
    assert all(abs(offset - (REAL["h1"] - centre())) <= bound for _, _, offset, bound in found)


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS, 5_000_000])
def test_a_clock_that_is_set_is_said_once_and_moves_nobody_else(by_ns: int) -> None:
    found = windows(table_of(told(own=lambda host, second: by_ns if host == "h1" and second >= 22 else 0)))
    mine = of_host(found, "h1")
    assert [second for second, state, *_ in mine if state == "stepped"] == [23]
    shown = REAL | {"h1": REAL["h1"] + by_ns}
    assert mine[-1][2] == pytest.approx(shown["h1"] - sorted(shown.values())[1], abs=mine[-1][3])
    for host in ("h0", "h2", "h3"):
        assert {state for _, state, *_ in of_host(found, host)} <= {"fitted", "re-anchored"}


def kept(bounds: dict[str, int | None], own: Off = none) -> list[Row]:
    """Rows in which hosts' daemons state these bounds."""
    return [each | {"bound_ns": bounds.get(each["src"])} if each["state"] == "self" else each for each in told(own=own)]


@pytest.mark.parametrize(("bounds", "by"), [
    ({}, None),  # the median of all
    ({"h3": 1_000}, "h3"),
    ({"h3": -5}, None),  # nonsense is no bound
    ({"h3": 1_000, "h0": 8_000_000}, "h3"),  # PTP beside NTP
    ({"h0": 1_500_000, "h1": 1_500_000, "h2": 1_000}, "h0"),  # the smallest bound is wrong: two say so
    ({"h0": 9_000_000, "h1": 4_000_000, "h2": 30_000_000, "h3": 20_000_000}, None),  # NTP everywhere: one kind
])  # fmt: skip
def test_cluster_time_is_that_of_hosts_whose_clocks_are_kept_best(
    bounds: dict[str, int | None], by: str | None
) -> None:
    shown = centre() if by is None else REAL[by]
    for host in BASE:
        _, state, offset, bound = of_host(windows(table_of(kept(bounds)), last=4), host)[-1]
        assert state == "fitted"
        assert offset == pytest.approx(REAL[host] - shown, abs=bound)


def test_a_kept_clock_that_is_an_hour_off_moves_nobody() -> None:
    found = windows(table_of(kept({"h3": 1_000}, lambda host, _: HOUR_NS if host == "h3" else 0)), last=4)
    shown = sorted((REAL | {"h3": REAL["h3"] + HOUR_NS}).values())[1]
    _, _, offset, bound = of_host(found, "h0")[-1]
    assert offset == pytest.approx(REAL["h0"] - shown, abs=bound)


def test_a_prober_that_begins_anew_is_no_step_of_its_hosts_clock() -> None:
    """A host that reboots, too: its prober's clock has nothing to do with the one before."""
    at = 22
    found = windows(table_of(told(
        prober=lambda host, second: 987_654_321 if host == "h1" and second >= at else 0,
        torn=lambda host, second: host == "h1" and at <= second < at + 2,
    )))  # fmt: skip
    mine = of_host(found, "h1")
    for second, state, offset, bound in mine:
        assert state in (("fitted",) if second <= at or second > at + 6 else ("fitted", "lost"))
        if bound < HOUR_NS:
            assert offset == pytest.approx(REAL["h1"] - centre(), abs=bound)
    assert "fitted" in {state for second, state, *_ in mine if second > at + 3}


def test_a_host_that_lies_is_not_to_be_trusted() -> None:
    six = {**{f"h{n}": 0 for n in range(6)}}
    BASE.update({name: BASE.get(name, 0) for name in six})
    REAL.update({name: REAL.get(name, 0) for name in six})
    try:
        edges = [(one, other) for one in six for other in six if one < other]
        # Later send times than true: what goes from it looks early, so bounds cross at all of its edges.
        rows = told(edges=edges, torn=lambda host, second: host == "h1" and second >= 12)
        found = windows(table_of(rows))
    finally:
        for name in ("h4", "h5"):
            del BASE[name], REAL[name]
    mine = of_host(found, "h1")
    assert mine[-1][1] == "lying"
    assert {state for second, state, *_ in mine if second > 20} == {"lying"}
    assert {each["state"] for each in found["clock_fit"] if each["host"] != "h1"} <= {"fitted", "re-anchored"}


def test_a_mesh_that_splits_is_two_islands_and_the_larger_is_the_first() -> None:
    edges = [*ALL, ("h0", "h4"), ("h1", "h4")]
    BASE["h4"], REAL["h4"] = 5, 9_000
    try:
        apart = {"h2", "h3"}
        found = windows(table_of(told(
            edges=edges, unheard=lambda one, other, second: second >= 10 and (one in apart) != (other in apart)
        )))  # fmt: skip
    finally:
        del BASE["h4"], REAL["h4"]
    last = {each["host"]: each["island"] for each in found["clock_fit"] if each["end_ns"] == FROM + SECONDS * S}
    assert last == {"h0": 0, "h1": 0, "h4": 0, "h2": 1, "h3": 1}
    first = {each["island"] for each in found["clock_fit"] if each["end_ns"] <= FROM + 10 * S}
    assert first == {0}


def test_a_host_that_falls_silent_is_carried_with_a_growing_bound_and_is_dark() -> None:
    found = windows(table_of(told(unheard=lambda one, other, second: second >= 20 and "h3" in (one, other))))
    mine = of_host(found, "h3")
    carried = [(second, bound) for second, state, _, bound in mine if state == "carried"]
    assert [second for second, _ in carried] == list(range(carried[0][0], SECONDS + 1))
    assert [bound for _, bound in carried] == sorted(bound for _, bound in carried)
    assert carried[-1][1] > 1_000
    dark = [
        each for each in found["delay"] if each["end_ns"] == FROM + SECONDS * S and "h3" in (each["src"], each["dst"])
    ]
    assert len(dark) == 6
    for each in dark:
        assert (each["lost"], each["count"], each["state"]) == (1.0, 0, "dark")
        assert each["min_ns"] is each["p50_ns"] is each["p99_ns"] is each["queue_p99_ns"] is each["bound_ns"] is None


def test_what_is_said_of_a_window_follows_from_its_rows_whoever_judged_before() -> None:
    """A restart, a late row and a replay: judged alone it is the same as after all others."""
    table = table_of(told(own=lambda host, second: HOUR_NS if host == "h1" and second >= 22 else 0))
    every = windows(table)
    for number in (3, 5, 7):
        alone = windows(table, number, number + 1)
        end_ns = FROM + (number + 1) * 5 * S
        for name in ("clock_fit", "delay"):
            assert alone[name] == [each for each in every[name] if end_ns - 5 * S < each["end_ns"] <= end_ns]


@settings(max_examples=8, deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(1, 4))
def test_clocks_that_are_all_shifted_agree_as_before(by_ns: int, scale: int) -> None:
    """Shift: of a prober's clock nothing is seen outside. Scale: clocks that are further apart are said to be."""
    plain = windows(table_of(told()), 5, 6)
    moved = windows(table_of(told(prober=lambda host, _: by_ns if host == "h2" else 0)), 5, 6)
    for one, other in zip(plain["clock_fit"], moved["clock_fit"], strict=True):
        assert abs(one["offset_ns"] - other["offset_ns"]) <= 2
    wide = windows(table_of(told(own=lambda host, _: (scale - 1) * REAL[host])), 5, 6)
    for one, other in zip(plain["clock_fit"], wide["clock_fit"], strict=True):
        assert abs(scale * one["offset_ns"] - other["offset_ns"]) <= 2 * scale


@pytest.mark.parametrize(
    ("how", "lies"),
    [
        (Conditions(pauses=(Pause(1, 15.0, 0.1),)), False),
        (Conditions(lies=(Lie(1, 12.0, 10_000),)), True),
        (Conditions(lies=(Lie(1, 12.0, -10_000),)), False),
    ],
    ids=["pause of 100 ms", "lie of 10 us that crosses bounds", "lie of 10 us that nothing can tell"],
)
def test_bounds_hold_through_faults_with_lines_of_the_probers_own_fit(how: Conditions, lies: bool) -> None:
    seconds, hosts = 25.0, 8
    clocks = Oscillators(hosts, seconds + 2, NORMAL, 5)
    src_E, dst_E = regular_edges(hosts, 10, 5)
    fits = judged(clocks, rows_of_traces(clocks, traces(clocks, src_E, dst_E, seconds, how, 5), seconds, 5), seconds)
    own, pairs = table_errors(fits).covered(5.0)
    assert (own, pairs) >= (0.999, 0.999)
    assert (fits.state_TH[-1, 1] == "lying") is lies
    assert not (np.delete(fits.state_TH[5:], 1, axis=1) == "lying").any()
    if not lies and how.lies:
        assert fits.bound_TH[-1, 1] > 4_000, "half of what its ways are longer may be its clock's offset"
