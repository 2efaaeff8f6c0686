"""Whether the what-if replay finds what was published of operation traces: slowdowns, their cause, and where.

    python -m evals.whatif [--data DIR] [--quick] [--json]

Each trace goes the way of a user's: read as by `leadline import trace`, stored, asked for as by `leadline show whatif`.
Per trace X of DIR (see `whatif_data`): S, Mw, Ms beside the published ones, root-cause class, top worker, top stage.
Without --data: trace ST, which the tests keep; the others are in ByteDance-Seed/StragglerAnalysis, folder data/.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell

from evals.stored import append, asked, empty_store
from evals.whatif_data import Published, Told, read, traces
from leadline.analysis.ledger.operations.cause import Cause
from leadline.model.tables.training import OPERATION
from leadline.store import Store
from leadline.views.whatif.view import what_if_answer
from leadline.wire.traces.trace_file import operation_rows

SMALL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "straggler_whatif"
HOW_TO_GET = "traces are in the public repository ByteDance-Seed/StragglerAnalysis, folder data/ (Apache-2.0)"
END_NS = 1_750_000_000 * 10**9  # where traces are placed in time; any will do
WITHIN = 0.05  # of a published value
NEAR_ZERO = 0.4  # below it 5 % is less than 0.02, which is as near as a share of the slowdown need be told
WITHIN_NEAR_ZERO = 0.02


@dataclass(frozen=True, slots=True)
class Judged:
    """One trace, and what `leadline show whatif` says of it: every value null if no step of it is whole."""

    told: Told
    answer: Mapping[str, Any]
    cpu_s: float

    @property
    def class_right(self) -> bool | None:
        """Whether the cause is the published one; None if none was published."""
        wanted = self.told.published.cause
        return None if wanted is None else self.answer["cause"] == wanted

    @property
    def place_right(self) -> bool | None:
        """Whether worker and stage on top are the published ones; None if none were published."""
        published = self.told.published
        if published.stage is None or published.dp_rank is None:
            return None
        if not self.answer["workers"]:
            return False
        top = self.answer["workers"][0]
        if self.answer["cause"] == Cause.STAGE:
            return bool(self.answer["place"]["stage"] == published.stage)
        return (top["dp_rank"], top["stage"]) == (published.dp_rank, published.stage)


def judged(store: Store, told: Told) -> Judged:
    """What ships says of one trace: its rows are stored as `leadline import trace` does, then asked for."""
    if told.found is not None:
        append(store, OPERATION, operation_rows([told.found], told.name, END_NS))
    began = time.process_time()
    answer = what_if_answer(store, asked(END_NS), told.name)
    return Judged(told, answer, time.process_time() - began)


def all_judged(directory: Path) -> Iterator[Judged]:
    """What is said of each trace of a directory; one that cannot be opened is left out, with a word on stderr."""
    with empty_store() as store:
        for path in traces(directory):
            try:
                yield judged(store, read(path))
            except OSError as why:
                print(f"{path}: left out: {why}", file=sys.stderr)


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
    published, name = of.told.published, of.told.name
    values = (
        ("S", of.answer["slowdown"], published.slowdown),
        ("Mw", of.answer["workers_share"], published.by_workers),
        ("Ms", of.answer["last_stage_share"], published.by_last_stage),
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
    answer = of.answer
    if answer["slowdown"] is None:
        return out
    top = answer["workers"][0]
    return {
        "S": _rounded(answer["slowdown"]),
        "Mw": _rounded(answer["workers_share"]),
        "Ms": _rounded(answer["last_stage_share"]),
        "class": str(answer["cause"]),
        "confidence": _rounded(answer["confidence"]),
        "top_worker": {name: top[name] for name in ("dp_rank", "stage", "rank")},
        "top_stage": int(answer["by_stage"][0]["name"].removeprefix("stage ")),
        "link": answer["place"]["link"],
        "share_mended": {str(each["cause"]): _rounded(each["share"]) for each in answer["causes"]},
        "forward_backward_correlation": None if answer["correlation"] is None else _rounded(answer["correlation"]),
        "S_by_kind": {each["name"]: _rounded(each["slowdown"]) for each in answer["by_kind"]},
        "S_by_launch_delays": _rounded(answer["observed_s"] / answer["step_s"]) if answer["step_s"] > 0 else None,
        "step_s": _rounded(answer["observed_s"]),
        "ideal_step_s": _rounded(answer["ideal_s"]),
        "steps": answer["steps"],
        "operations": answer["operations"],
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
    left, missing = of.answer["left_out"], list(of.answer["left_out"]["missing"])
    if of.answer["slowdown"] is not None:
        for name, seen in (("dp", of.answer["replicas"]), ("pp", of.answer["stages"])):
            wanted = of.told.sizes.get(f"{name}_size", seen)
            missing += [f"{wanted - seen} of {wanted} {name} ranks"] if wanted > seen else []
    found = {**left, "missing": missing, "notes": of.told.notes}
    return {name: value for name, value in found.items() if value}


def line(of: Judged) -> str:
    """One trace in a line."""
    answer, left = of.answer, _left(of)
    if answer["slowdown"] is None:
        return f"{of.told.name}: nothing can be told: {left}"
    top = answer["workers"][0]
    return (
        f"{of.told.name}: S {answer['slowdown']:.3f}, Mw {answer['workers_share']:.3f}, "
        f"Ms {answer['last_stage_share']:.3f}; {answer['cause']}; top worker dp {top['dp_rank']} stage {top['stage']} "
        f"(rank {top['rank']}), {of.cpu_s:.1f} s" + (f"; left out: {left}" if left else "")
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
    for each in all_judged(directory):
        found.append(each)
        print(line(each), file=sys.stderr, flush=True)
    if not found:
        print(f"no trace-*.csv.gz in {directory}: {HOW_TO_GET}", file=sys.stderr)
    under: dict[str, Any] = conditions(None, data=str(directory.name), quick=given.quick)
    told = {"traces": {each.told.name: detail(each) for each in found}}
    tell("whatif", {**under, **told} if given.json else under, figures(found), given.json)


if __name__ == "__main__":
    main()
