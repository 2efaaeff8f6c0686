"""The outcome as a page of the docs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.house_parts.constants import ROOT, SOURCES, constants

from evals.sensitivity.moving import number_at
from evals.sensitivity.sweep import Change, Outcome

PAGE = ROOT / "docs" / "analyses" / "sensitivity.md"
NAMED, ROWS, NOTHING, CANNOT, NOT_JUDGED = range(5)  # ranks of `Outcome`
SHOWN_MAX = 2  # examples in a cell of a table

HEAD = """<!-- Written by `python -m evals.sensitivity --record`; run that again instead of changing this page. -->

# Which constants decide

Numbers in `analysis/symptoms`, `cause` and `ledger` that verdicts depend on, each halved and doubled in a process of
its own, and recordings judged anew with it. A share or probability of 0.5 and more goes half of the way to 1 instead of
twice as far; whole numbers stay whole. Limits on memory, time and text are left out. What a constant is for and where
its value is from stands beside it in the source; a test demands it (`tests/unit/analysis/test_constants.py`).

Two kinds of change are told apart: what a reader acts on (which symptom of whom there was, which component was named by
which rule), and any difference in a row of a verdict table, as a probability or an amount of lost time.

**A constant that changes nothing here is not superfluous**: these recordings hold few faults, and most rules and limits
wait for others. One that changes what is named was either needed for these recordings or fitted to them; its source
says which, as far as that is on record.
"""

LAST = """Last run: {day}. A run takes seconds of a processor for each constant and factor, so one that was ended leaves
constants that were not judged. Recordings, with the number of constants that were moved on each:
"""


def page_of(outcomes: Sequence[Outcome], paths: Iterable[Path], now_s: float | None = None) -> str:
    """The page, from what was judged of the given recordings."""
    by_rank: dict[int, list[Outcome]] = defaultdict(list)
    for each in sorted(outcomes, key=lambda each: each.key):
        by_rank[each.rank].append(each)
    day = time.strftime("%Y-%m-%d", time.gmtime(now_s))
    parts = [
        HEAD,
        LAST.format(day=day),
        *_judged(outcomes, paths),
        _sources(),
        _summary(by_rank),
        "\n## Changes what is named\n",
        *_table(by_rank[NAMED], "what is named", _named),
        "\n## Changes rows only\n",
        *_table(by_rank[ROWS], "rows that differ, the most of any recording", _rows),
        "\n## Changes nothing on these recordings\n",
        _listed(by_rank[NOTHING]),
        "\n## Could not be moved\n",
        *_reasons(by_rank[CANNOT]),
    ]
    if by_rank[NOT_JUDGED]:
        parts += ["\n## Not judged yet\n", _listed(by_rank[NOT_JUDGED])]
    return "\n".join(parts).rstrip() + "\n"


def _judged(outcomes: Sequence[Outcome], paths: Iterable[Path]) -> list[str]:
    stems = [path.stem for path in paths]
    moved = {stem: sum(any(name == stem for _, name in each.changes) for each in outcomes) for stem in stems}
    return [f"- `{stem}`: {count} of {len(outcomes)}" for stem, count in moved.items() if count]


def _sources() -> str:
    """How many constants there are of each source."""
    of = [each.source for each in constants()]
    lines = [f"| {source} | {of.count(source)} | {means} |" for source, means in SOURCES.items()]
    return "\n".join(["\n| source | constants | it means |", "|---|---|---|", *lines])


def _summary(by_rank: dict[int, list[Outcome]]) -> str:
    words = {
        NAMED: "change what is named", ROWS: "change rows only", NOTHING: "change nothing",
        CANNOT: "could not be moved", NOT_JUDGED: "were not judged yet",
    }  # fmt: skip
    return "\nOf these, " + ", ".join(f"{len(by_rank[rank])} {text}" for rank, text in words.items()) + ".\n"


def _table(outcomes: Sequence[Outcome], what: str, cell: Callable[[Outcome], str]) -> list[str]:
    if not outcomes:
        return ["None."]
    rows = [
        f"| `{each.key}` | `{number_at(each.which.constant.path, each.which.name)}` | {each.which.constant.source} | "
        f"{cell(each)} |"
        for each in outcomes
    ]
    return [f"| constant | value | source | {what} |", "|---|---|---|---|", *rows]


def _named(outcome: Outcome) -> str:
    found = [
        f"{name} x{factor:g}: {_difference(change)}"
        for (factor, name), change in sorted(outcome.changes.items())
        if change.gone or change.new
    ]
    more = f"; and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return "; ".join(found[:SHOWN_MAX]) + more


def _difference(change: Change) -> str:
    texts = [("without", change.gone), ("with", change.new)]
    return ", ".join(f"{word} {' and '.join(f'`{each}`' for each in names)}" for word, names in texts if names)


def _rows(outcome: Outcome) -> str:
    most: dict[str, int] = {}
    for change in outcome.changes.values():
        for table, count in change.rows.items():
            most[table] = max(most.get(table, 0), count)
    factors = sorted({factor for (factor, _), change in outcome.changes.items() if change.rows})
    times = " and ".join(f"x{factor:g}" for factor in factors)
    return f"{times}: " + ", ".join(f"{table} {count}" for table, count in sorted(most.items()))


def _listed(outcomes: Sequence[Outcome]) -> str:
    of: dict[str, list[str]] = defaultdict(list)
    for each in outcomes:
        of[each.which.module.removeprefix("leadline.analysis.")].append(f"`{each.which.name}`")
    return "\n".join(f"- `{module}`: {', '.join(names)}" for module, names in sorted(of.items())) or "None."


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    of: dict[str, list[str]] = defaultdict(list)
    for each in outcomes:
        for reason in sorted({change.cannot for change in each.changes.values()}):
            of[reason].append(f"`{each.key}`")
    return [f"- {reason}: {', '.join(names)}" for reason, names in sorted(of.items())] or ["None."]
