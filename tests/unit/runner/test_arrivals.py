"""What rows that come speak of: their times, and what an edge that is told again does not change."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.incident import Names, rows_of

from leadline.analysis.spec import Read
from leadline.model.tables import BY_NAME
from leadline.model.units import S
from leadline.runner.arrivals import WAITED_NS_MAX, Edges, Lateness, times_of, united

RELATION = BY_NAME["relation"]
READ = Read(RELATION, valid=True)


def edge(child: str, since: int, until: int | None = None) -> dict[str, object]:
    return {"child": child, "parent": "host:h1", "kind": "in", "from_ns": since, "to_ns": until, "source": "test"}


def told(*rows: dict[str, object], tenant: str = "acme") -> dict[str, object]:
    return {"rows": rows_of(RELATION, list(rows), Names(tenant=tenant))}


def test_times_come_from_rows_and_from_arrays() -> None:
    assert times_of(RELATION, told(edge("a", 5), edge("b", 7))).tolist() == [5, 7]
    assert times_of(BY_NAME["metric_sample"], {"time_ns": np.array([3, 4])}).tolist() == [3, 4]
    volume = rows_of(BY_NAME["flow_volume"], [{"link": "l", "end_ns": 20, "window_ns": 10}], Names())
    assert times_of(BY_NAME["flow_volume"], {"rows": volume}).tolist() == [19], "of the window that ends there"


def test_an_edge_is_news_once() -> None:
    edges = Edges()
    assert edges.spans(READ, told(edge("a", 10)), 100) == [(10, 100)]
    assert edges.spans(READ, told(edge("a", 10)), 110) == []
    assert edges.spans(READ, told(edge("a", 10), tenant="other"), 110) == [(10, 110)]
    assert edges.spans(READ, told(edge("a", 10, 90)), 120) == [(90, 120)], "up to its end nothing changes"
    assert edges.spans(READ, told(edge("b", 10, 20), edge("c", 30, 40)), 120) == [(10, 20), (30, 40)]


def test_what_is_remembered_is_bounded() -> None:
    edges = Edges(most=2)
    for child in "abc":
        edges.spans(READ, told(edge(child, 10)), 100)
    assert edges.spans(READ, told(edge("c", 10)), 100) == []
    assert edges.spans(READ, told(edge("a", 10)), 100) == [(10, 100)], "forgotten, so it is news again"


def test_rows_that_are_no_table_tell_no_spans() -> None:
    assert Edges().spans(READ, {"from_ns": pa.array([1])}, 5) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda each: (each[0], sum(each)))))
def test_united_spans_hold_the_same_times_and_do_not_overlap(spans: list[tuple[int, int]]) -> None:
    found = united(spans)
    assert {at for begin, end in spans for at in range(begin, end + 1)} == {
        at for begin, end in found for at in range(begin, end + 1)
    }
    assert all(before[1] < after[0] for before, after in pairwise(found))


def test_samples_are_as_late_as_the_latest_of_the_last_minute() -> None:
    late = Lateness()
    assert late.usual_ns(0) == 0
    for at_s, late_s in ((5, 1), (8, 4), (20, 5), (25, 2)):
        late.hear((at_s - late_s) * S, at_s * S)
    assert late.usual_ns(30 * S) == 5 * S
    assert late.usual_ns(79 * S) == 5 * S
    assert late.usual_ns(80 * S) == 0


def test_what_comes_after_an_outage_or_ahead_of_the_clock_is_not_waited_for() -> None:
    late = Lateness()
    late.hear(0, WAITED_NS_MAX + 1)
    late.hear(9 * S, 8 * S)
    assert late.usual_ns(8 * S) == 0
