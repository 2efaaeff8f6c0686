"""How long collectives, input and compute of a job take without trouble, from table `usual`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Floats, ints
from leadline.analysis.ledger.usual import usual_ns

KINDS_MAX = 256  # of collectives that are looked up for one window; a job has tens
NOISE_RATIO = 0.1  # time beyond usual that is no loss: healthy steps vary by 5 to 8 %


@dataclass(frozen=True, slots=True)
class Expected:
    """What is usual; NaN and 0 where nobody knows."""

    usual: pa.Table
    input_ns: float  # of a step; NaN: unknown
    compute_lost_share: float  # of the time that ranks compute now, what they usually do not

    def collectives_ns(self, what: Sequence[str]) -> Floats:
        """Usual length of each kind of collective, ns; NaN where it is not known."""
        asked = sorted(set(what))[:KINDS_MAX]
        if not self.usual.num_rows or not asked:
            return np.full(len(what), np.nan)
        mine = self.usual.filter(pc.is_in(self.usual["what"].cast(pa.string()), pa.array(asked)))
        known = {each: usual_ns(mine, each) for each in asked} if mine.num_rows else {}
        found = (known.get(each) for each in what)
        return np.array([np.nan if each is None else float(each) for each in found])


def expected(usual: pa.Table, step: pa.Table) -> Expected:
    """What `usual` says, and how the steps' own work (forward pass and optimiser, in which nobody waits) compares."""
    input_ns, compute_ns = (usual_ns(usual, what) if usual.num_rows else None for what in ("input", "compute"))
    return Expected(usual, np.nan if input_ns is None else float(input_ns), _lost_share(step, compute_ns))


def _lost_share(step: pa.Table, usual_compute_ns: int | None) -> float:
    if usual_compute_ns is None or not step.num_rows:
        return 0.0
    forward_S, optimizer_S = ints(step, "forward_ns"), ints(step, "optimizer_ns", null=0)
    told_S = forward_S >= 0
    if not told_S.any():
        return 0.0
    now_ns = float(np.median((forward_S + optimizer_S)[told_S]))
    return 1 - usual_compute_ns / now_ns if now_ns > (1 + NOISE_RATIO) * max(usual_compute_ns, 1) else 0.0
