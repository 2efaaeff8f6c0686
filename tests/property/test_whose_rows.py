"""Random rows of tenant B never change a verdict of tenant A, whatever they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


@pytest.mark.parametrize(
    ("path", "owned", "holds"),
    CASES,
    ids=lambda each: each.stem if isinstance(each, Path) else {True: "a-host", False: "no-host"}.get(each, each),
)
def test_random_rows_of_another_tenant_change_no_verdict(path: Path, owned: str, holds: bool) -> None:
    seed = CASES.index((path, owned, holds)) + 1
    recording, from_ns, to_ns = recorded(path, SPAN_S[path])
    rows, span = OWNED[owned](recording, from_ns), (from_ns, to_ns)
    if holds:  # one that no verdict of others is on
        said = [relation("host:b1", "held-by", f"tenant:{BOB}", from_ns - 60 * S)]
        rows = with_more(rows, {"relation": rows_of("relation", said, PROVIDER)})
    wanted = verdicts(rows, span)
    assert wanted.keys() & {"incident", "flow_volume", "ledger"}, "a recording of which nothing is told tests nothing"
    found = verdicts(with_more(rows, forged(rows, span, seed, host="b1" if holds else "")), span)
    assert found.keys() == wanted.keys(), f"seed {seed}"
    for name in wanted:
        assert found[name].equals(wanted[name]), f"{name}, seed {seed}"
