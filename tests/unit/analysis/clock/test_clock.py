"""The analysis `clock`: rows of edges to offsets of clocks and delays."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.incident import Names, rows_of

from leadline.analysis.clock.clock import COLUMNS, clock
from leadline.analysis.spec import Window
from leadline.model.tables.fabric import EDGE_FIT
from leadline.model.units import S

FROM = 1_790_000_000 * S
WINDOW = Window(FROM, FROM + 5 * S)
REAL = {"h0": 0, "h1": 2_000_000, "h2": -3_000_000, "h3": 500}  # what each host's clock is ahead, ns
BASE = {"h0": 10**9, "h1": -(10**9), "h2": 7, "h3": 0}  # what each prober's clock is ahead
WAY_NS = 2_000  # of each direction


def rows(
    edges: list[tuple[str, str]], rate_ppb: float = 0.0, biased_ns: dict[tuple[str, str], int] | None = None
) -> list[dict[str, Any]]:
    """What agents send in the window: each edge and each host once a second."""
    found = []
    for second in range(1, 5):
        at_ns = FROM + second * S
        for one, other in edges:
            off_ns = BASE[other] - BASE[one] + (biased_ns or {}).get((one, other), 0)
            found.append(edge(one, other, at_ns, off_ns, rate_ppb))
        for host in {each for pair in edges for each in pair}:
            found.append(row(host, host, at_ns) | {"state": "self", "src_port": 0})
    return found


def row(one: str, other: str, at_ns: int) -> dict[str, Any]:
    names = (f"{way}_{what}_ns" for way in ("there", "back") for what in ("min", "p50", "p99", "queue"))
    nothing = dict.fromkeys(names)
    return {
        "tenant": "default", "cluster": "default", "host": one, "clock": f"{one}/1", "src": one, "dst": other,
        "dst_clock": f"{other}/1", "src_port": 8446, "class": 0, "end_ns": at_ns + REAL[one],
        "probe_ns": at_ns + BASE[one], "window_ns": 2 * S, "report_ns": S, "offset_ns": None, "rate_ppb": None,
        "bound_ns": None, "width_ns": None, "noise_ns": None, "probes": 0, "stamp": "kernel", "stall_ns": None,
        "there_sent": 0, "there_lost": 0, "back_sent": 0, "back_lost": 0, **nothing,
    }  # fmt: skip


def edge(one: str, other: str, at_ns: int, offset_ns: int, rate_ppb: float) -> dict[str, Any]:
    told = row(one, other, at_ns) | {"state": "valid", "probes": 200, "offset_ns": offset_ns, "rate_ppb": rate_ppb}
    told |= {"bound_ns": 3000, "width_ns": 2000.0, "noise_ns": 10.0}
    for way in ("there", "back"):
        told |= {f"{way}_min_ns": WAY_NS, f"{way}_p50_ns": WAY_NS + 500, f"{way}_p99_ns": WAY_NS + 9000,
                 f"{way}_queue_ns": 9000, f"{way}_sent": 100, f"{way}_lost": 1}  # fmt: skip
    return told


def judged(told: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    table = rows_of(EDGE_FIT, told, Names())
    verdicts = clock(table.select([name for name in COLUMNS if name in table.column_names]), window=WINDOW)
    return {
        name: [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
        for name, columns in verdicts.items()
    }


ALL = [("h0", "h1"), ("h0", "h2"), ("h1", "h2"), ("h3", "h0"), ("h3", "h1"), ("h2", "h3")]


def test_clocks_are_told_against_their_median_whatever_their_probers_began_with() -> None:
    found = {each["host"]: each for each in judged(rows(ALL))["clock_fit"]}
    assert set(found) == set(REAL)
    centre = sorted(REAL.values())[1]
    for host, each in found.items():
        assert each["offset_ns"] == pytest.approx(REAL[host] - centre, abs=2), host
        assert (each["clock"], each["state"], each["end_ns"]) == (f"{host}/1", "fitted", WINDOW.to_ns)
        assert 100 <= each["bound_ns"] < 200


def test_delays_of_both_ways_are_told_with_their_bound() -> None:
    found = judged(rows(ALL))["delay"]
    assert len(found) == 2 * len(ALL)
    assert {(each["src"], each["dst"]) for each in found} == {*ALL, *((other, one) for one, other in ALL)}
    for each in found:
        assert each["min_ns"] == pytest.approx(WAY_NS, abs=2)
        assert each["p99_ns"] == pytest.approx(WAY_NS + 9000, abs=2)
        assert (each["lost"], each["count"], each["queue_p99_ns"]) == (0.01, 396, 9000)
        assert 200 <= each["bound_ns"] < 400


def test_an_edge_whose_ways_differ_is_told_by_what_its_loops_say() -> None:
    found = judged(rows(ALL, biased_ns={("h0", "h1"): 1000}))
    clocks = {each["host"]: each["offset_ns"] for each in found["clock_fit"]}
    assert clocks["h1"] - clocks["h0"] == pytest.approx(REAL["h1"] - REAL["h0"], abs=510)
    there = next(each for each in found["delay"] if (each["src"], each["dst"]) == ("h0", "h1"))
    back = next(each for each in found["delay"] if (each["src"], each["dst"]) == ("h1", "h0"))
    assert there["min_ns"] - back["min_ns"] > 900


def test_two_meshes_that_do_not_touch_are_two_islands() -> None:
    found = judged(rows([("h0", "h1"), ("h2", "h3")]))["clock_fit"]
    islands = {each["host"]: each["island"] for each in found}
    assert islands["h0"] == islands["h1"] != islands["h2"] == islands["h3"]


def test_a_host_without_a_line_has_no_clock_and_its_loss_is_told_all_the_same() -> None:
    told = rows([("h0", "h1"), ("h0", "h2"), ("h1", "h2")])
    for second in range(1, 5):
        lossy = edge("h3", "h0", FROM + second * S, 0, 0.0)
        lossy |= {"state": "few-points", "offset_ns": None, "rate_ppb": None, "noise_ns": None, "there_lost": 90}
        told.append(lossy)
    found = judged(told)
    assert "h3" not in {each["host"] for each in found["clock_fit"]}
    there = next(each for each in found["delay"] if each["src"] == "h3")
    assert (there["lost"], there["bound_ns"]) == (0.9, None)


def test_nothing_told_is_nothing_judged() -> None:
    assert judged([]) == {}
