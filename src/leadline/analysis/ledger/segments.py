"""Spans of a job's wall time with an owner: what every depth of the ledger gives, laid over each other.

operations  |   ####      ####   |     the best depth that says something of an instant wins it
collectives | ########           |
steps       | ################## |
events      |##                 #|
------------+--------------------+---> cluster time
             window                    what is left is unknown, by the name of the input that is missing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.model.accounts import Category, Depth

CATEGORIES: tuple[Category, ...] = tuple(Category)
PLACE_OF: dict[Category, int] = {category: place for place, category in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class Segments:
    """N spans, disjoint, in order of time. Arrays (N,).

    begin_N, end_N: cluster time, ns, begin < end. category_N: place in CATEGORIES. owner_N: place in `owners`, or -1.
    lost_N: ns of the span that the job would not have taken without trouble, 0 <= lost <= end - begin.
    confidence_N: how sure of category and owner, 0 to 1.
    """

    depth: Depth
    begin_N: Ints
    end_N: Ints
    category_N: Ints
    owner_N: Ints
    lost_N: Floats
    confidence_N: Floats
    owners: Sequence[str]

    def __len__(self) -> int:
        return len(self.begin_N)

    @staticmethod
    def none(depth: Depth) -> Segments:
        """No span at all."""
        ints, floats = np.zeros(0, np.int64), np.zeros(0, np.float64)
        return Segments(depth, ints, ints, ints, ints, floats, floats, ())
