"""Incidents that stay open although nobody suffers any more: a part of their cause is dead until it is reset.

A GPU that fell off its bus stops a job once; the job is started elsewhere, and the GPU still waits for the next one. So
the incident lasts until its failure is over (`analysis/failures` says when a GPU works again), somebody dismisses it,
or a month has gone by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.analysis.cause.evidence import Piece
from leadline.model.hardware_codes import death_of
from leadline.model.units import S

# ns; the failure row of a death begins with it, but another clock may place it a little earlier: so much earlier is the
# same death. Source: judgement.
NEAR_NS = 5 * S
# As far back as `cause` remembers what it named (HISTORY_NS), and a day less than `failures` looks for ends: so it
# never waits for an end that it cannot see. Source: definition.
NEVER_NS = 30 * 86_400 * S


def deaths(pieces: Iterable[Piece]) -> list[Piece]:
    """The evidence after which its component is dead."""
    return [each for each in pieces if each.face.table == "event" and death_of(each.face.what, each.face.code)]


@dataclass(frozen=True, slots=True)
class Out:
    """When parts were out of service: rows of `failure`."""

    rows: Sequence[Mapping[str, Any]]

    def back_ns(self, pieces: Iterable[Piece], now_ns: int) -> int | None:
        """When the last of the parts that died was back, as far as is known now; None: one of them is not.

        Without any death: 0. A death whose failure is not told yet (windows of a minute) is not over.
        """
        found = [self._back_ns(each, now_ns) for each in deaths(pieces)]
        return None if None in found else max((each for each in found if each is not None), default=0)

    def _back_ns(self, death: Piece, now_ns: int) -> int | None:
        if death.time_ns < now_ns - NEVER_NS:
            return death.time_ns + NEVER_NS
        ends = [
            row["end_ns"]
            for row in self.rows
            if row["entity"] == death.entity
            and row["start_ns"] <= death.time_ns + NEAR_NS
            and (row["end_ns"] is None or row["end_ns"] >= death.time_ns)
        ]
        return None if not ends or None in ends else max(ends)

    def end_ns(self, over_ns: int | None, pieces: Iterable[Piece], now_ns: int) -> int | None:
        """When an incident ends whose last symptom was over at `over_ns`: None while it lasts, or a part is dead."""
        if over_ns is None:
            return None
        back_ns = self.back_ns(pieces, now_ns)
        return None if back_ns is None else max(over_ns, back_ns)
