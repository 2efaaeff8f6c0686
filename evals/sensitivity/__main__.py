"""Which constants of symptoms, cause and ledger decide: each is halved and doubled, and recordings are judged anew.

    python -m evals.sensitivity [--json] [--only cause.,NAMED_MIN] [--data DIR] [--recordings PARTS] [--seconds S]
                                [--results FILE] [--bounds] [--record]

Judged are the recordings that Leadline ships and those of `tests/golden` (as `bench.house` judges them), or those
with one of PARTS in their names, in that order, and all of DIR. Each constant is moved in a process of its own, at
idle priority, one after the other. What was judged is kept in FILE, so a run that was ended goes on where it was; a
change of the analyses' code starts anew. Constants that only bound memory, time or text are left out without
--bounds. --record writes what is known to docs/analyses/sensitivity.md. Two kinds of change are told: rows of
verdicts that differ in anything, and what a reader acts on, which symptom of whom there was and which component was
named for it by which rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.house_parts.constants import ROOT
from bench.house_parts.verdicts import recordings as shipped

from evals.sensitivity.moving import movables
from evals.sensitivity.page import PAGE, page_of
from evals.sensitivity.sweep import FACTORS, Outcome, Results, sweep
from leadline.model.errors import DataError

RESULTS = ROOT / "build" / "sensitivity.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Move what is asked for, and say which decide. Exit code 0; 2 if nothing fits --only or DIR has no recording."""
    given = _parser().parse_args(arguments)
    which = movables([part for part in given.only.split(",") if part], given.bounds)
    if not which:
        print(f"evals.sensitivity: no constant has a part of {given.only!r} in its name", file=sys.stderr)
        return 2
    try:
        paths = chosen([part for part in given.recordings.split(",") if part], given.data)
    except DataError as error:
        print(f"evals.sensitivity: {error}", file=sys.stderr)
        return 2
    results = Results(given.results)

    def told(what: str) -> None:
        print(f"sensitivity: {what}", file=sys.stderr, flush=True)

    sweep(which, paths, results, told, given.seconds)
    outcomes = results.outcomes(which, paths)
    if given.record:
        PAGE.write_text(page_of(outcomes, paths))
    if given.json:
        print(json.dumps({each.key: each.as_json() for each in outcomes}, indent=1))
    else:
        print("\n".join(lines_of(outcomes)))
    return 0


def chosen(parts: Sequence[str], data: Path | None) -> list[Path]:
    """The shipped recordings with one of the parts in their names, in this order (none: all, the smallest first), and
    those of a folder. Errors: DataError if a part fits none, or the folder has none.
    """
    all_shipped = sorted(shipped(), key=lambda path: (path.stat().st_size, path))
    found = [] if parts else all_shipped
    for part in parts:
        mine = [path for path in all_shipped if part in path.stem]
        if not mine:
            raise DataError("--recordings", f"parts of {', '.join(path.stem for path in all_shipped)}", part)
        found += [path for path in mine if path not in found]
    if data is not None:
        own = sorted(data.rglob("*.leadline"))
        if not own:
            raise DataError(str(data), "recordings, *.leadline", "none")
        found += own
    return found


def lines_of(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each constant, those first that change what is named."""
    return [f"{each.key:<60} {each.words}" for each in sorted(outcomes, key=lambda each: (each.rank, each.key))]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.sensitivity", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--only", default="", help="comma-separated parts of names, as cause. or NAMED_MIN")
    parser.add_argument("--data", type=Path, help="a folder with further recordings, *.leadline")
    parser.add_argument("--recordings", default="", help="comma-separated parts of names of shipped recordings")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin nothing new after so long; 0: no limit")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"default {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--bounds", action="store_true", help="move bounds of memory, time and text, too")
    parser.add_argument("--record", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.epilog = f"Factors: {', '.join(map(str, FACTORS))}."
    return parser


if __name__ == "__main__":
    sys.exit(main())
