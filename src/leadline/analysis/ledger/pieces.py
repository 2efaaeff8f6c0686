"""Spans of the path with whose they are by number, before owners have names."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from leadline.analysis.columns import Floats, Ints

JOB, RANK, COMM = 0, 1, 2  # what `number_K` counts: nothing, ranks, communicators


@dataclass(frozen=True, slots=True)
class Pieces:
    """K spans. Arrays (K,): begin and end, ns; place in `segments.CATEGORIES`; whose; ns lost of it; how sure."""

    begin_K: Ints
    end_K: Ints
    category_K: Ints
    whose_K: Ints
    number_K: Ints
    lost_K: Floats
    sure_K: Floats

    def __len__(self) -> int:
        return len(self.begin_K)

    @staticmethod
    def none() -> Pieces:
        """No span at all."""
        ints, floats = np.zeros(0, np.int64), np.zeros(0)
        return Pieces(ints, ints, ints, ints, ints, floats, floats)

    @staticmethod
    def one(begin: int, end: int, category: int, whose: int, number: int, lost_ns: float, sure: float) -> Pieces:
        """A single span; none if it is empty."""
        if end <= begin:
            return Pieces.none()
        begin_1, end_1, category_1, whose_1, number_1 = np.array([[begin], [end], [category], [whose], [number]])
        return Pieces(begin_1, end_1, category_1, whose_1, number_1, np.array([lost_ns]), np.array([sure]))

    @staticmethod
    def joined(parts: list[Pieces]) -> Pieces:
        """All of them, in the order given."""
        if not parts:
            return Pieces.none()
        return Pieces(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Pieces)))

    def take(self, place: Ints) -> Pieces:
        """Those at the given places, or where a mask says so."""
        return Pieces(*(getattr(self, each.name)[place] for each in fields(Pieces)))
