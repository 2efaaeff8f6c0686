"""Since when somebody takes time, of those who did not begin it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB

from leadline.analysis.symptoms.lateness import Lateness
from leadline.analysis.symptoms.onsets import began, dated
from leadline.analysis.symptoms.spans import Blame

ENDS = np.arange(1, 31) * 2 * S + T0  # a collective every 2 s for a minute
END_NS = T0 + 60 * S


@pytest.mark.parametrize(
    ("lost", "since_s"),
    [
        ([1.0] * 30, 0),
        ([0.0] * 20 + [1.0] * 10, 40),
        ([0.1] * 20 + [1.0] * 10, 40),
        ([0.0] * 29 + [1.0], 58),
        ([0.4] * 20 + [1.0] * 10, 0),  # it was there before, and grew
        ([1.0] * 20 + [0.0] * 10, 0),
        ([0.0, 0.0] + [1.0] * 28, 0),  # so soon after the begin that it may have begun it
        ([0.0] * 30, 0),
        ([], 0),
    ],
)
def test_since_when(lost: list[float], since_s: int) -> None:
    assert began(ENDS[: len(lost)], np.array(lost), T0, END_NS) == T0 + since_s * S


def test_ranks_by_collectives_and_others_by_the_ledger() -> None:
    late_K = np.where(np.arange(30) < 15, 1, 2)
    late = Lateness({1: 15.0, 2: 15.0}, {}, ENDS, late_K, np.ones(30))
    port = [
        {"owner": "port:h3/eth0", "end_ns": T0 + at * S, "lost_gpu_seconds": 4.0 * (at > 40)}
        for at in range(10, 61, 10)
    ]
    owners = (f"rank:{JOB}/2", f"rank:{JOB}/1", "port:h3/eth0", f"job:{JOB}")
    found = dated([Blame(owner, "", "", 1.0, 0) for owner in owners], late, port, T0, END_NS)
    assert [(each.since_ns - T0) / S for each in found] == [30, 0, 40, 0]
