"""Whether the what-if replay finds what was published of operation traces: slowdowns, their cause, and where.

    python -m evals.whatif [--data DIR] [--quick] [--json]

Per trace X of DIR (see `whatif_data`): S, Mw, Ms beside the published ones, root-cause class, top worker, top stage.
Without --data: trace ST, which the tests keep; the others are in ByteDance-Seed/StragglerAnalysis, folder data/.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.whatif_data import Published, Told, read, traces
from leadline.analysis.ledger.operations.cause import Cause, Finding, finding
from leadline.analysis.ledger.operations.trace import Left, read_trace
from leadline.analysis.ledger.operations.whatif import WhatIf, what_if

SMALL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "straggler_whatif"
HOW_TO_GET = "traces are in the public repository ByteDance-Seed/StragglerAnalysis, folder data/ (Apache-2.0)"
WITHIN = 0.05  # of a published value
NEAR_ZERO = 0.4  # below it 5 % is less than 0.02, which is as near as a share of the slowdown need be told
WITHIN_NEAR_ZERO = 0.02


@dataclass(frozen=True, slots=True)
class Judged:
    """One trace. `answers` and `found` are None if no step of it is whole."""

    told: Told
    left: Left
    answers: WhatIf | None
    found: Finding | None
    cpu_s: float

    @property
    def class_right(self) -> bool | None:
        """Whether the cause is the published one; None if none was published."""
        wanted = self.told.published.cause
        return None if wanted is None else self.found is not None and self.found.cause is wanted

    @property
    def place_right(self) -> bool | None:
        """Whether worker and stage on top are the published ones; None if none were published."""
        published = self.told.published
        if published.stage is None or published.dp_rank is None:
            return None
        if self.answers is None or self.found is None:
            return False
        dp_rank, stage = self.answers.top_worker
        if self.found.cause is Cause.STAGE:
            return self.found.stage == published.stage
        return (dp_rank, stage) == (published.dp_rank, published.stage)


def judged(told: Told) -> Judged:
    """The answers on one trace."""
    began = time.process_time()
    trace, left = read_trace(told.operation)
    answers = what_if(trace) if trace is not None else None
    found = finding(answers) if answers is not None else None
    if answers is not None:
        _ = (answers.top_worker, answers.mended_by_workers, answers.mended_by_last_stage, answers.by_kind)
    return Judged(told, left, answers, found, time.process_time() - began)


def error(found: float | None, published: float | None) -> float | None:
    """Relative error; the absolute one if the published value is near zero; None if either is not there."""
    if found is None or published is None:
        return None
    return abs(found - published) / (abs(published) if abs(published) >= NEAR_ZERO else 1.0)


def figures(all_judged: Sequence[Judged]) -> list[Figure]:
    """Errors of each trace, and shares of traces whose cause and place are right."""
    told = [figure for each in all_judged for figure in _errors(each)]
    told.append(_share("class_right", [each.class_right for each in all_judged]))
    told.append(_share("place_right", [each.place_right for each in all_judged]))
    return told


def _errors(of: Judged) -> list[Figure]:
    answers, published, name = of.answers, of.told.published, of.told.name
    values = (
        ("S", None if answers is None else answers.slowdown, published.slowdown),
        ("Mw", None if answers is None else answers.mended_by_workers, published.by_workers),
        ("Ms", None if answers is None else answers.mended_by_last_stage, published.by_last_stage),
    )
    told = []
    for word, found, wanted in values:
        absolute = wanted is not None and abs(wanted) < NEAR_ZERO
        told.append(
            Figure(
                f"{word}_error_{name}",
                error(found, wanted),
                "absolute" if absolute else "ratio",
                target=WITHIN_NEAR_ZERO if absolute else WITHIN,
                better="lower",
                anchor=None if wanted is None else {"of": f"published {word}", "value": wanted},
                reason=_why_not(found, wanted),
            )
        )
    return told


def _why_not(found: float | None, wanted: float | None) -> str | None:
    if found is None:
        return "no step of the trace is whole"
    return "nothing was published beside it" if wanted is None else None


def _share(name: str, rights: Sequence[bool | None]) -> Figure:
    known = [right for right in rights if right is not None]
    if not known:
        return Figure(name, None, "ratio", target=1.0, reason="nothing was published beside the traces")
    return Figure(name, sum(known) / len(known), "ratio", target=1.0)


def detail(of: Judged) -> dict[str, Any]:
    """What was found in one trace, what was published, and what was left out."""
    out: dict[str, Any] = {"published": _published(of.told.published), "left_out": _left(of)}
    answers, found = of.answers, of.found
    if answers is None or found is None:
        return out
    dp_rank, stage = answers.top_worker
    observed_T = answers.replay.lengths_T(answers.replay.everything_DO, delays=True)
    return {
        "S": _rounded(answers.slowdown),
        "Mw": _rounded(answers.mended_by_workers),
        "Ms": _rounded(answers.mended_by_last_stage),
        "class": found.cause.value,
        "confidence": _rounded(found.confidence),
        "top_worker": {"dp_rank": dp_rank, "stage": stage, "rank": answers.rank((dp_rank, stage))},
        "top_stage": answers.top_stage,
        "link": found.link,
        "share_mended": {cause.value: _rounded(share) for cause, share in found.share.items()},
        "forward_backward_correlation": None if found.together is None else _rounded(found.together),
        "S_by_kind": {name: _rounded(value) for name, value in answers.by_kind.items()},
        "S_by_launch_delays": _rounded(float(observed_T.mean()) / answers.real_ns) if answers.real_ns > 0 else None,
        "step_s": _rounded(float(observed_T.mean()) / 1e9),
        "ideal_step_s": _rounded(answers.ideal_ns / 1e9),
        "steps": len(answers.trace.step_T),
        "operations": int(answers.trace.begin_TDO.size),
        "cpu_s": round(of.cpu_s, 3),
        **out,
    }


def _rounded(value: float) -> float:
    return round(value, 6) if math.isfinite(value) else value


def _published(published: Published) -> dict[str, Any]:
    found = {
        "S": published.slowdown, "Mw": published.by_workers, "Ms": published.by_last_stage,
        "dp_rank": published.dp_rank, "stage": published.stage, "root_cause": published.label,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def _left(of: Judged) -> dict[str, Any]:
    """What of a trace was not used: nothing, if it is whole."""
    left = of.left
    missing = list(left.missing)
    if of.answers is not None:
        for name, seen in (("dp", len(of.answers.trace.dp_rank_D)), ("pp", len(set(of.answers.trace.stage_O)))):
            wanted = of.told.sizes.get(f"{name}_size", seen)
            missing += [f"{wanted - seen} of {wanted} {name} ranks"] if wanted > seen else []
    found = {
        "rows": left.rows, "copies": left.copies, "unknown_kinds": dict(left.unknown_kinds), "steps": left.steps,
        "dp_ranks": left.dp_ranks, "missing": missing, "notes": of.told.notes,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value}


def line(of: Judged) -> str:
    """One trace in a line."""
    if of.answers is None or of.found is None:
        return f"{of.told.name}: nothing can be told: {_left(of)}"
    dp_rank, stage = of.answers.top_worker
    left = _left(of)
    return (
        f"{of.told.name}: S {of.answers.slowdown:.3f}, Mw {of.answers.mended_by_workers:.3f}, "
        f"Ms {of.answers.mended_by_last_stage:.3f}; {of.found.cause.value}; top worker dp {dp_rank} stage {stage} "
        f"(rank {of.answers.rank((dp_rank, stage))}), {of.cpu_s:.1f} s" + (f"; left out: {left}" if left else "")
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help=f"directory of traces; {HOW_TO_GET}")
    parser.add_argument("--quick", action="store_true", help="as without it: all traces take seconds")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    directory = SMALL if given.data is None else given.data
    found = []
    for path in traces(directory):
        try:
            each = judged(read(path))
        except OSError as why:
            print(f"{path}: left out: {why}", file=sys.stderr)
            continue
        found.append(each)
        print(line(each), file=sys.stderr, flush=True)
    if not found:
        print(f"no trace-*.csv.gz in {directory}: {HOW_TO_GET}", file=sys.stderr)
    under: dict[str, Any] = conditions(None, data=str(directory.name), quick=given.quick)
    told = {"traces": {each.told.name: detail(each) for each in found}}
    tell("whatif", {**under, **told} if given.json else under, figures(found), given.json)


if __name__ == "__main__":
    main()
