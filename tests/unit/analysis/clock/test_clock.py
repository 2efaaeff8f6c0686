"""The analysis `clock`: rows of edges to offsets of clocks and delays."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.mesh import ALL, FROM, REAL, WAY_NS, WINDOW, edge, rows

from leadline.analysis.clock.clock import COLUMNS, clock
from leadline.model.tables.fabric import EDGE_FIT
from leadline.model.units import S


def judged(told: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    table = rows_of(EDGE_FIT, told, Names())
    verdicts = clock(table.select([name for name in COLUMNS if name in table.column_names]), window=WINDOW)
    return {
        name: [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
        for name, columns in verdicts.items()
    }


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


def test_an_edge_that_both_ends_tell_is_told_once_by_the_one_that_heard_more() -> None:
    told = rows(ALL)
    turned = [row | {"there_sent": 10, "back_sent": 10} for row in rows([("h1", "h0")]) if row["state"] != "self"]
    found = judged([*told, *turned])["delay"]
    assert len(found) == len({(each["src"], each["dst"]) for each in found}) == 2 * len(ALL)
    assert {each["count"] for each in found} == {396}
    more = [row | {"there_sent": 1000, "back_sent": 1000} for row in turned]
    counts = {(each["src"], each["dst"]): each["count"] for each in judged([*told, *more])["delay"]}
    assert {counts.pop(pair) for pair in (("h0", "h1"), ("h1", "h0"))} == {3996}
    assert set(counts.values()) == {396}


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
