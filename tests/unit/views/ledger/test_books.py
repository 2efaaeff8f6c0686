"""Spans of a job that nobody judged, from rows in a store: at the begin, in the middle, at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.views.ledger.ledger_rows import BEGIN, ROWS, WINDOW
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal
from leadline.views.asked import Asked
from leadline.views.ledger.books import Books, Span


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [  # in windows from BEGIN: rows are of 0, 1, 2 and 4
        (0, 5, [(3, 4)]),
        (-2, 8, [(-2, 0), (3, 4), (5, 8)]),
        (0, 3, []),
        (3, 4, [(3, 4)]),
        (6, 9, [(6, 9)]),
    ],
)
def test_what_nobody_judged_is_told_from_the_first_to_the_last(
    tmp_path: Path, first: int, last: int, wanted: list[tuple[int, int]]
) -> None:
    with filled(tmp_path, ROWS) as store:
        books = Books(store, Asked(Principal(), "default", BEGIN + 5 * WINDOW, latest=True), "bert-1")
        gaps = books.gaps(Span(BEGIN + first * WINDOW, BEGIN + last * WINDOW, WINDOW))
    assert gaps == [(BEGIN + before * WINDOW, BEGIN + after * WINDOW) for before, after in wanted]
