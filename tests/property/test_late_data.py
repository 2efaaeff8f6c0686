"""Whatever the delay, lump size, order and gaps of delivery: once all data has come the verdicts are those of data that
came at once, and before it has come nobody is blamed whom it proves innocent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.builders.late_delivery import Recording, played, recording
from tests.builders.stores import opened_store

ROOT = Path(__file__).parents[2]
TWO_JOBS = ROOT / "tests" / "golden" / "lab_two_jobs" / "two_jobs.leadline"  # both slow, of different causes
OOM_KILL = ROOT / "src" / "leadline" / "lab" / "incidents" / "oom-kill.leadline"  # a crash after 45 s
SECONDS, MORE_S = 56.0, 30.0  # of the recording, and until the last of it has come and was judged


def away(of: Recording, seed: int, seconds: float = SECONDS) -> dict[str, list[tuple[float, float]]]:
    """About half of the hosts deliver nothing in one or two spans of 1 to 60 s; all are there at the end."""
    rng = np.random.default_rng(seed)
    found = {}
    for host in sorted(of.of_host):
        spans = []
        for _ in range(int(rng.integers(0, 3))):
            begin_s = float(rng.uniform(0, seconds))
            spans.append((begin_s, min(begin_s + float(rng.choice([1, 5, 20, 60])), seconds + 10)))
        found[host] = spans
    return found


@pytest.mark.parametrize(("path", "seed"), [(TWO_JOBS, 1), (OOM_KILL, 2)], ids=["two-jobs", "oom-kill"])
def test_late_data_is_judged_as_if_it_had_come_at_once(path: Path, seed: int, tmp_path: Path) -> None:
    of = recording(path, SECONDS)
    runs = []
    for name, spans, drawn in (("at-once", None, None), ("late", away(of, seed), seed)):
        with opened_store(tmp_path / name) as store:
            site = played(store, of, SECONDS + MORE_S, spans, drawn)
            runs.append((site.verdicts(), site.seen))
    (wanted, innocent), (found, meanwhile) = runs
    assert wanted["incident"], "a recording in which nothing is told tests nothing"
    for name in wanted:
        assert found[name] == wanted[name], f"{name}, seed {seed}"
    assert meanwhile <= innocent
