"""Random rows of tenant B never change a verdict of tenant A, whatever they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.foreign_rows import (
    BOB,
    PROVIDER,
    Rows,
    S,
    alone,
    forged,
    let,
    recorded,
    relation,
    rows_of,
    verdicts,
    with_more,
)

ROOT = Path(__file__).parents[2]
TWO_JOBS = ROOT / "tests" / "golden" / "lab_two_jobs" / "two_jobs.leadline"
SLOW = ROOT / "tests" / "golden" / "lab_ledger" / "bert-slow.leadline"
SPAN_S = {TWO_JOBS: 20.0, SLOW: 75.0}

Owned = Callable[[Rows, int], Rows]
OWNED: dict[str, Owned] = {
    "all-provider": lambda rows, _: rows,
    "alone": lambda rows, _: alone(rows),
    "let": let,
}


CASES = [(path, owned, holds) for path in SPAN_S for owned in OWNED for holds in (False, True)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].stem}-{case[1]}-{'host' if case[2] else ''}")
def judged(request: pytest.FixtureRequest) -> tuple[Rows, tuple[int, int], dict[str, pa.Table], bool]:
    """Rows, their span, the verdicts on them without anybody else's rows, and whether bob holds a host."""
    path, name, holds = request.param
    rows, from_ns, to_ns = recorded(path, SPAN_S[path])
    owned = OWNED[name](rows, from_ns)
    if holds:  # one that no verdict of others is on
        said = [relation("host:b1", "held-by", f"tenant:{BOB}", from_ns - 60 * S)]
        owned = with_more(owned, {"relation": rows_of("relation", said, PROVIDER)})
    return owned, (from_ns, to_ns), verdicts(owned, (from_ns, to_ns)), holds


@pytest.mark.parametrize("seed", [1, 2])
def test_random_rows_of_another_tenant_change_no_verdict(
    judged: tuple[Rows, tuple[int, int], dict[str, pa.Table], bool], seed: int
) -> None:
    rows, span, wanted, holds = judged
    assert wanted.keys() & {"incident", "flow_volume", "ledger"}, "a recording of which nothing is told tests nothing"
    found = verdicts(with_more(rows, forged(rows, span, seed, host="b1" if holds else "")), span)
    assert found.keys() == wanted.keys(), f"seed {seed}"
    for name in wanted:
        assert found[name].equals(wanted[name]), f"{name}, seed {seed}"
