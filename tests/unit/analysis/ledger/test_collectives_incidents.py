"""The ledger from collectives on recorded incidents of the lab: who is blamed while the fault lasts."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builders.collectives import empty

from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.segments import CATEGORIES
from leadline.analysis.ledger.served import served
from leadline.analysis.spec import S, Window
from leadline.lab import incidents
from leadline.model.tables import BY_NAME
from leadline.store.bundle import read_bundle

WHERE = Path(next(iter(incidents.__path__)))


@cache
def blamed(name: str, fault: int) -> dict[tuple[str, str], tuple[float, float]]:
    """(seconds, lost seconds) by category and owner while a fault of an incident lasted."""
    with read_bundle(WHERE / f"{name}.leadline") as bundle:
        collective, step = (pa.concat_tables(list(bundle.groups(BY_NAME[table]))) for table in ("collective", "step"))
    truth = json.loads((WHERE / f"{name}.truth.json").read_text())["faults"][fault]
    begin, end = truth["onset_ns"], truth["end_ns"]
    calm = collective.filter(pc.less(collective["enqueued_ns"], begin))
    lengths = served(calm)
    baseline = pa.table(
        {
            "what": [what for what, _ in lengths],
            "count": pa.array([len(length) for _, length in lengths], pa.uint64()),
            "low_s": [float(np.quantile(length, 0.25, method="lower")) / S for _, length in lengths],
            "median_s": [float(np.median(length)) / S for _, length in lengths],
        }
    )
    window = Window(begin, end, job="bert-1")
    found, missing = from_collectives(collective, step, empty("edge"), baseline, window=window)
    assert not missing
    sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for place in range(len(found)):
        whole = int(found.end_N[place] - found.begin_N[place])
        inside = min(int(found.end_N[place]), end) - max(int(found.begin_N[place]), begin)
        if inside > 0:
            one = sums[str(CATEGORIES[found.category_N[place]]), found.owners[found.owner_N[place]]]
            one[0] += inside / S
            one[1] += found.lost_N[place] * inside / whole / S
    assert sum(one[0] for one in sums.values()) == pytest.approx((end - begin) / S, rel=0.02)
    return {key: (one[0], one[1]) for key, one in sums.items()}


def most_lost(found: dict[tuple[str, str], tuple[float, float]]) -> tuple[str, str]:
    """Category and owner with the most lost seconds."""
    return max(found, key=lambda key: found[key][1])


@pytest.mark.parametrize(
    ("name", "fault", "category", "owner", "lost_s_min"),
    [
        ("demo", 0, "communication", "comm:bert-1/", 8.0),  # a link flaps: 13 s of 30
        ("demo", 1, "straggler", "rank:bert-1/5", 12.0),  # a slow worker: 19 s of 40
        ("slow-loader", 0, "input", "rank:bert-1/7", 6.0),  # 8.5 s of 40
        ("gpu-throttle", 0, "straggler", "rank:bert-1/4", 12.0),  # 18 s of 40
        ("neighbour-congestion", 0, "communication", "comm:bert-1/", 7.0),  # 15 s of 40
    ],
)
def test_most_of_what_is_lost_is_the_faults(
    name: str, fault: int, category: str, owner: str, lost_s_min: float
) -> None:
    found = blamed(name, fault)
    worst = most_lost(found)
    assert worst[0] == category
    assert worst[1].startswith(owner)
    assert found[worst][1] > lost_s_min


def test_no_other_rank_is_blamed_for_a_slow_worker() -> None:
    others = [
        lost for (category, owner), (_, lost) in blamed("demo", 1).items()
        if category == "straggler" and owner != "rank:bert-1/5"
    ]  # fmt: skip
    assert sum(others) < 1.0
