"""The five stages of `cause`: none imports a later one, itself or through others."""

from __future__ import annotations

from bench.house_parts.imports import imports_of_modules

PACKAGE = "leadline.analysis.cause"
STAGES = ("gather", "explain", "score", "choose", "report")


def test_no_stage_knows_a_later_one() -> None:
    edges = imports_of_modules()

    def known(module: str, seen: set[str]) -> set[str]:
        for other in edges.get(module, set()) - seen:
            seen.add(other)
            known(other, seen)
        return seen

    for place, stage in enumerate(STAGES):
        later = {f"{PACKAGE}.{each}" for each in (*STAGES[place + 1 :], "cause")}
        assert known(f"{PACKAGE}.{stage}", set()) & later == set(), stage
    assert {f"{PACKAGE}.{each}" for each in STAGES} <= edges[f"{PACKAGE}.cause"]
