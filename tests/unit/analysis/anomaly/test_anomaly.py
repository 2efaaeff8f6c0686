"""What is told as odd, and what is not: whole windows of a small site."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.anomalies import WINDOW, Said, clocks, counted, drops, job_rows, since, tables, wavy
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, event, relations, table
from tests.common.analysis_laws import judged

from leadline.analysis.anomaly.anomaly import anomalies
from leadline.analysis.spec import Window

Row = dict[str, Any]


def told(given: dict[str, pa.Table], window: Window = WINDOW) -> list[Row]:
    """The rows of one window."""
    found = judged(anomalies, given, window).get("anomaly", {})
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def series_of_windows(given: dict[str, pa.Table], count: int, first: Window = WINDOW) -> list[list[Row]]:
    """The rows of windows one after the other, each of which sees what the earlier ones told."""
    found: list[list[Row]] = []
    known: dict[tuple[str, ...], Row] = {}
    for place in range(count):
        by_ns = place * first.window_ns
        window = replace(first, from_ns=first.from_ns + by_ns, to_ns=first.to_ns + by_ns)
        rows = told({**given, "anomaly": table("anomaly", list(known.values()))}, window)
        known |= {(row["entity"], row["metric"], row["witness"], row["start_ns"]): row for row in rows}
        found.append(rows)
    return found


def names(rows: list[Row]) -> set[tuple[str, str, str]]:
    return {(row["entity"], row["metric"], row["witness"]) for row in rows}


def test_a_quiet_site_says_nothing() -> None:
    busy = [Said("node_load1", f"host:h{host}", wavy(4, 2, host), host=f"h{host}") for host in range(8)]
    assert told(tables([*clocks(), *drops(), *busy])) == []


def test_a_clock_that_fell_is_odd_beside_its_past_and_its_peers() -> None:
    rows = told(tables(clocks({3: since(-15, 900.0, 1980.0)})))
    assert names(rows) == {("gpu:GPU-3", "DCGM_FI_DEV_SM_CLOCK", witness) for witness in ("past", "peers")}
    for row in rows:
        assert (row["direction"], row["end_ns"], row["reported_ns"]) == ("low", None, WINDOW.to_ns)
        assert row["seen"] == 900.0
        assert row["expected"] == pytest.approx(1980.0, rel=0.01)
        assert T0 - 20 * S <= row["earliest_ns"] < T0 - 15 * S <= row["start_ns"] <= T0 - 10 * S
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_a_clock_that_rose_is_not_odd() -> None:
    assert told(tables(clocks({3: since(-15, 2400.0, 1980.0)}))) == []


def test_what_all_peers_do_is_odd_about_none_of_them() -> None:
    sent = [
        Said("node_network_transmit_bytes_total", f"port:h{host}/eth0",
             counted(lambda at: 1e8 if at < -20 else 1e5), "counter")
        for host in range(8)
    ]  # fmt: skip
    assert told(tables(sent)) == []


def test_load_needs_three_bins_of_four() -> None:
    def sent(since_s: float) -> list[Said]:
        odd = counted(lambda at: 1e8 if at < since_s else 1e5)
        return [
            Said("node_network_transmit_bytes_total", f"port:h{host}/eth0",
                 odd if host == 5 else counted(lambda at: 1e8), "counter")
            for host in range(8)
        ]  # fmt: skip

    assert told(tables(sent(-5))) == []
    assert {row["entity"] for row in told(tables(sent(-15)))} == {"port:h5/eth0"}


@pytest.mark.parametrize("hosts", [3, 4])
def test_with_few_peers_and_no_past_the_odd_one_is_told(hosts: int) -> None:
    """Two samples each, as in the first seconds of a recording."""
    rows = told(tables(clocks({1: lambda at: 300.0}, hosts), from_s=-5))
    assert names(rows) == {("gpu:GPU-1", "DCGM_FI_DEV_SM_CLOCK", "peers")}


def test_of_two_nobody_can_say_which_is_odd() -> None:
    assert told(tables(clocks({1: lambda at: 300.0}, 2), from_s=-5)) == []


def test_one_oom_kill_is_enough_and_one_retransmission_is_not() -> None:
    def one(name: str) -> list[Said]:
        return [
            Said(name, f"host:h{host}", since(1, 1.0, 0.0) if host == 2 else lambda at: 0.0, "counter")
            for host in range(4)
        ]

    assert names(told(tables(one("container_oom_events_total")))) == {
        ("host:h2", "container_oom_events_total", witness) for witness in ("past", "peers")
    }
    assert told(tables(one("node_netstat_Tcp_RetransSegs"))) == []


def test_throttling_needs_neither_past_nor_peers() -> None:
    alone = [Said("container_cpu_cfs_throttled_seconds_total", "host:h1", lambda at: 0.6 * (at + 100), "counter")]
    rows = told(tables(alone, from_s=-10))
    assert [(row["witness"], row["expected"]) for row in rows] == [("past", 0.0)]
    assert rows[0]["seen"] == pytest.approx(0.6)


def test_resets_gaps_and_stale_markers_are_no_deviations() -> None:
    def rate(at: float) -> float | None:
        if -60 < at < -30:
            return None  # the exporter was away, and began anew
        return float("nan") if at == -29 else 200.0 * (at + 181) if at <= -60 else 200.0 * (at + 31)

    sent = [
        Said("node_network_receive_drop_total", f"port:h{host}/eth0",
             rate if host == 2 else counted(lambda at: 200.0), "counter")
        for host in range(4)
    ]  # fmt: skip
    assert told(tables(sent)) == []


def test_of_several_series_of_a_name_the_oddest_is_told_with_its_label() -> None:
    cpu = [
        Said("node_cpu_seconds_total", f"host:h{host}",
             counted(lambda at, odd=(host == 4 and mode == "iowait"): 3.0 if odd and at >= -20 else 0.05), "counter",
             {"mode": mode, "instance": f"h{host}"}, f"h{host}")
        for host in range(8) for mode in ("iowait", "system")
    ]  # fmt: skip
    rows = told(tables(cpu))
    assert {(row["entity"], row["label"], row["direction"]) for row in rows} == {("host:h4", "mode=iowait", "high")}


def test_what_a_program_says_of_itself_is_told_of_its_host_or_switch() -> None:
    up = [
        Said("up", "service:node", since(-9, 0.0, 1.0) if place == 0 else lambda at: 1.0, labels=label, host=host)
        for place, (label, host) in enumerate(
            [({"switch": "leaf1", "instance": "10.0.0.1:9100"}, "10.0.0.1"),
             *(({"instance": f"h{host}:9100"}, f"h{host}") for host in range(4))]
        )
    ]  # fmt: skip
    assert {row["entity"] for row in told(tables(up))} == {"switch:leaf1"}


def test_a_rank_whose_input_is_slow_and_the_time_since() -> None:
    rows = told(tables([], **job_rows(slow=5, since_s=-12)))
    assert {row["entity"] for row in rows} == {f"rank:{JOB}/5"}
    data = next(row for row in rows if (row["metric"], row["witness"]) == ("step.data_seconds", "past"))
    assert data["seen"] == pytest.approx(0.305, abs=0.01)
    assert T0 - 12 * S <= data["start_ns"] <= T0 - 11 * S
    lateness = next(row for row in rows if row["metric"] == "collective.lateness_seconds")
    assert lateness["seen"] == pytest.approx(0.3, abs=0.01)


def test_the_widest_bound_of_its_clock_is_told_of_a_rank() -> None:
    given = tables([], **job_rows())
    steps = given["step"].append_column("bound_ns", pa.array(np.arange(len(given["step"])) % 8 * 1000))
    rows = told({**given, "step": steps, "collective": table("collective", [])})
    assert {row["bound_ns"] for row in rows} == {5000}


def test_before_a_job_began_is_no_past_and_after_it_ended_as_planned_neither() -> None:
    """A host that idled before its job, and one whose peers' job is over."""
    began_s = -15

    def rows_of(job_rows_: dict[str, list[Row]]) -> list[Row]:
        load = [
            Said("container_memory_usage_bytes", f"host:h{host}",
                 since(began_s, 4e10 + 1e9 * host, 1e9), host=f"h{host}") for host in range(3)
        ]  # fmt: skip
        disk = [Said("node_disk_io_time_seconds_total", "host:h1",
                     counted(lambda at: 0.5 if at >= began_s else 0.0), "counter", host="h1")]  # fmt: skip
        return told(tables([*load, *disk], relation=relations(T0 - 300 * S), **job_rows_))

    some = job_rows(slow=9)
    late = {name: [row for row in rows if row.get("start_ns", row.get("enqueued_ns")) >= T0 + began_s * S]
            for name, rows in some.items()}  # fmt: skip
    assert rows_of(late) == []
    assert "node_disk_io_time_seconds_total" in {row["metric"] for row in rows_of(some)}


def test_a_crash_does_not_make_the_past_be_forgotten() -> None:
    given = job_rows(slow=9)
    ends = [event(T0 + S, rank, "process-exit", "error", "exit/1") for rank in range(8)]
    killed = [
        Said("node_procs_blocked", f"host:h{host}", since(-8, 40.0, 0.0) if host == 1 else lambda at: 0.0)
        for host in range(4)
    ]
    rows = told(tables(killed, relation=relations(T0 - 300 * S), event=ends, **given))
    assert "past" in {row["witness"] for row in rows if row["entity"] == "host:h1"}
    planned = [event(T0 + S, rank, "process-exit", "info", "exit/0") for rank in range(8)]
    rows = told(tables(killed, relation=relations(T0 - 300 * S), event=planned, **given))
    assert "past" not in {row["witness"] for row in rows if row["entity"] == "host:h1"}


def test_a_span_goes_on_with_the_same_key_and_ends_when_it_is_in_again() -> None:
    def clock(at: float) -> float:
        return 900.0 if -15 <= at < 12 else 1980.0

    windows = series_of_windows(tables(clocks({3: clock}), to_s=60), 8)
    starts = {(row["witness"], row["start_ns"]) for rows in windows for row in rows}
    assert len(starts) == 2  # one span of each witness
    ended = [[row["end_ns"] is not None for row in rows] for rows in windows]
    last = max(place for place, rows in enumerate(windows) if rows)
    assert all(ended[last])
    assert not any(windows[last + 1 :])
    ends = {row["end_ns"] for row in windows[last]}
    assert all(T0 + 10 * S <= end_ns <= T0 + 25 * S for end_ns in ends)
    for earlier, later in pairwise(rows for rows in windows if rows):
        assert {row["reported_ns"] for row in later} == {row["reported_ns"] for row in earlier}


def test_a_span_of_what_is_not_heard_any_more_ends() -> None:
    def clock(at: float) -> float | None:
        return None if at > 5 else since(-15, 900.0, 1980.0)(at)

    windows = series_of_windows(tables(clocks({3: clock}, hosts=4), to_s=40), 8)
    assert windows[0]
    ended = [row for rows in windows for row in rows if row["end_ns"] is not None]
    assert {row["entity"] for row in ended} == {"gpu:GPU-3"}


def test_an_open_row_that_no_window_told_for_a_minute_does_not_come_back() -> None:
    row = told(tables(clocks({3: since(-15, 900.0, 1980.0)})))[0]
    old = {**row, "seen_ns": T0 - 120 * S, "reported_ns": T0 - 170 * S, "start_ns": T0 - 175 * S}
    given = tables(clocks(), anomaly=[old])
    assert told(given) == []


def test_a_window_that_is_judged_again_says_the_same() -> None:
    given = tables(clocks({3: since(-15, 900.0, 1980.0)}))
    first = told(given)
    assert told({**given, "anomaly": table("anomaly", first)}) == first


def test_a_gpu_that_is_not_heard_while_others_are_is_silent_until_it_speaks() -> None:
    def clock(at: float) -> float | None:
        return None if -20 < at < 12 else 1980.0

    windows = series_of_windows(tables(clocks({3: clock}), to_s=40), 6)
    first = windows[0][0]
    assert names(windows[0]) == {("gpu:GPU-3", "telemetry.silent", "peers")}
    assert (first["expected"], first["start_ns"] - first["earliest_ns"]) == (pytest.approx(5.0, abs=1.5), 5 * S)
    assert first["seen"] == pytest.approx((WINDOW.to_ns - first["earliest_ns"]) / S)
    ended = [row for rows in windows for row in rows if row["end_ns"] is not None]
    assert [row["start_ns"] for row in ended] == [first["start_ns"]]
    assert ended[0]["end_ns"] > T0 + 12 * S


def test_when_most_are_silent_nobody_is() -> None:
    def clock(at: float) -> float | None:
        return None if at > -30 else 1980.0

    assert told(tables(clocks(dict.fromkeys(range(5), clock), hosts=8))) == []
