"""Figures and tables of lab runs that were scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Figure

from evals.runs.judged import Judged
from evals.runs.scores import Row, Score, brier, forecasts, reliability, scored
from evals.statistics import quantile, share_of

S = 10**9
OUTCOMES = ("right", "right and more", "part", "wrong", "unknown", "missed")
TOP1, WRONG, VERDICT_S = 0.95, 0.03, 15.0
STALL_WORKER, STALL_CAUSE, STALL_S = 0.98, 0.95, 5.0
NAMED_SHOWN = 3
MAGNITUDES = ("small", "medium", "large")


@dataclass(slots=True)
class Scores:
    """All runs together."""

    dear: list[Score] = field(default_factory=list)  # troubles that have to be found
    cheap: list[Score] = field(default_factory=list)  # that cost next to nothing: nobody has to name them
    false: list[tuple[str, Row]] = field(default_factory=list)  # incidents that meet no trouble, by run
    quiet_s: float = 0.0  # time without a trouble
    seconds: list[float] = field(default_factory=list)  # that judging each run took
    failures: list[str] = field(default_factory=list)  # windows in which an analysis failed

    def add(self, judged: Judged) -> None:
        """Score a run."""
        found, false = scored(judged.run, judged.truth, judged.verdicts)
        for each in found:
            (self.dear if each.trouble.costing else self.cheap).append(each)
        self.false += [(judged.run, row) for row in false]
        troubles = judged.truth.troubles
        watched = judged.truth.to_ns - judged.truth.from_ns - sum(each.end_ns - each.onset_ns for each in troubles)
        self.quiet_s += max(0, watched) / S
        self.seconds.append(judged.seconds)
        self.failures += [f"{judged.run}: {each}" for each in judged.failures]


def figures(scores: Scores) -> list[Figure]:
    """Everything that is told of a set of runs, on troubles that have to be found unless it says otherwise."""
    dear = scores.dear
    said = forecasts(dear)
    told = brier(said)
    return [
        _share("top1", dear, lambda each: each.top1, TOP1),
        _share("top3", dear, lambda each: each.top3),
        _share("set_right", dear, lambda each: each.exact),
        _share("layer_right", dear, lambda each: each.layer_right, none="nothing is named"),
        _share("class_right", dear, lambda each: each.class_right, none="no class is told but unknown"),
        _share("class_unknown_share", dear, _class_unknown, better="lower", none="nothing is named"),
        _share("unknown_share", dear, lambda each: each.outcome == "unknown", better="lower"),
        _share("missed_share", dear, lambda each: each.outcome == "missed", better="lower"),
        _share("wrong_share", dear, lambda each: each.wrong, WRONG, better="lower"),
        Figure("brier", told, "1", better="lower", reason=None if said else "nothing was told"),
        *_times("verdict_s", [each.verdict_s for each in dear if each.named], VERDICT_S),
        *_times("told_s", [each.told_s for each in dear]),
        Figure("false_incidents", float(len(scores.false)), "1", better="lower"),
        _per_hour(scores),
        _share("cheap_wrong_share", scores.cheap, lambda each: each.wrong, better="lower", none="no fault was cheap"),
        *_stalls(dear),
        Figure("failed_windows", float(len(scores.failures)), "1", 0.0, "lower"),
        Figure("faults", float(len(dear)), "1"),
        Figure("cheap_faults", float(len(scores.cheap)), "1"),
    ]  # fmt: skip


def _class_unknown(score: Score) -> bool | None:
    return score.named[0].fault_class == "unknown" if score.named else None


def _share(
    name: str,
    scores: Sequence[Score],
    of: Callable[[Score], bool | None],
    target: float | None = None,
    *,
    better: str = "higher",
    none: str = "no fault cost enough",
) -> Figure:
    known = [each for each in map(of, scores) if each is not None]
    return Figure(name, share_of(known).value, "ratio", target, better, reason=None if known else none)


def _times(name: str, seconds: Sequence[float | None], p95_max: float | None = None) -> list[Figure]:
    known = [each for each in seconds if each is not None]
    none = None if known else "nothing was told"
    return [
        Figure(f"{name}_p50", quantile(known, 0.5), "s", None, "lower", reason=none),
        Figure(f"{name}_p95", quantile(known, 0.95), "s", p95_max, "lower", reason=none),
    ]


def _per_hour(scores: Scores) -> Figure:
    hours = scores.quiet_s / 3600
    value = len(scores.false) / hours if hours else None
    return Figure("false_incidents_per_hour", value, "1/h", None, "lower", reason=None if hours else "no quiet time")


def _stalls(dear: Sequence[Score]) -> list[Figure]:
    """Of what stood still by one of the eight causes."""
    stalls = [each for each in dear if each.stall is not None]
    none = "nothing stood still"

    def right_worker(each: Score) -> bool | None:
        return each.worker if each.symptom_s is not None else False

    def right_cause(each: Score) -> bool:
        return each.top1 and bool(each.layer_right)

    late = [each.symptom_s for each in stalls]
    return [
        _share("stall_worker_right", stalls, right_worker, STALL_WORKER, none=none),
        _share("stall_cause_right", stalls, right_cause, STALL_CAUSE, none=none),
        *[each for each in _times("stall_s", late, STALL_S) if each.figure.endswith("p95")],
        Figure("stalls", float(len(stalls)), "1"),
    ]


def parts_of(scores: Scores) -> dict[str, list[Score]]:
    """The troubles that have to be found, by what is asked of them apart."""
    dear = scores.dear
    found = {word: [each for each in dear if each.trouble.magnitude == word] for word in MAGNITUDES}
    found["two"] = [each for each in dear if len(each.wanted) > 1]
    found["decoys"] = [each for each in dear if each.decoys]
    return {name: those for name, those in found.items() if those}


def part_figures(scores: Scores) -> list[Figure]:
    """Top-1 and wrong by magnitude, with two at once, with decoys."""
    out = []
    for name, those in parts_of(scores).items():
        out.append(_share(f"top1_{name}", those, lambda each: each.top1))
        out.append(_share(f"wrong_share_{name}", those, lambda each: each.wrong, better="lower"))
    return out


def named(figures: Sequence[Figure], suffix: str, names: Sequence[str]) -> list[Figure]:
    """Some of the figures under names of their own, without targets: of another condition."""
    return [
        Figure(f"{each.figure}_{suffix}", each.value, each.unit, None, each.better, reason=each.reason)
        for each in figures
        if each.figure in names
    ]


# --- tables -------------------------------------------------------------------------------------------------------


def as_row(score: Score) -> dict[str, Any]:
    """One trouble, for the table and for JSON."""
    return {
        "run": score.run,
        "fault": score.trouble.name,
        "magnitude": score.trouble.magnitude,
        "share": round(max(each.share for each in score.trouble.faults), 3),
        "outcome": score.outcome,
        "top3": score.top3,
        "stall": score.stall,
        "worker": score.worker,
        "told_s": _rounded(score.told_s),
        "verdict_s": _rounded(score.verdict_s),
        "symptom_s": _rounded(score.symptom_s),
        "layer_right": score.layer_right,
        "class_right": score.class_right,
        "missing": list(score.missing),
        "broken": sorted({part for each in score.trouble.faults for part in each.components}),
        "named": [
            f"{'' if each.chosen else '('}{each.entity} {each.rule} {each.layer} {each.probability:.2f}"
            f"{'' if each.chosen else ')'}{'' if score.right(each) else ' WRONG' if each.chosen else ''}"
            for each in score.listed[:NAMED_SHOWN]
        ],
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def print_rows(rows: Sequence[Mapping[str, Any]], wrong_only: bool) -> None:
    """A line for each trouble, below it what was named and what was broken."""
    print(f"  {'run':40} {'fault':28} {'share':>5} {'outcome':14} {'told':>6} {'verdict':>7} {'stall':>6}")
    for row in rows:
        if wrong_only and row["outcome"] == "right":
            continue
        times = (_told(row[name]) for name in ("told_s", "verdict_s", "symptom_s"))
        print("  {:40} {:28} {:5.2f} {:14} {:>6} {:>7} {:>6}".format(
            row["run"][:40], row["fault"][:28], row["share"], row["outcome"], *times
        ))  # fmt: skip
        if row["outcome"] != "right":
            print(f"      broken: {', '.join(row['broken'][:5])}")
            print(f"      named:  {'; '.join(row['named']) or '-'}")
            print(f"      lacks:  {', '.join(row['missing'])}\n" if row["missing"] else "", end="")


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def print_false(false: Sequence[tuple[str, Row]], from_ns: Mapping[str, int]) -> None:
    """A line for each incident that meets nothing."""
    for run, row in false:
        at_s = (row["start_ns"] - from_ns[run]) / S
        print(f"  false: {run}: {row['entity']} {row['symptom']} at second {at_s:.0f}, {row['verdict']}, "
              f"{row['lost_gpu_seconds']:.1f} GPU-s")  # fmt: skip


def print_failures(failures: Sequence[str]) -> None:
    """The first failure of each analysis that failed: a bug of Leadline."""
    for each in {text.partition(", window")[0].rpartition(": ")[2]: text for text in reversed(failures)}.values():
        print(f"  FAILED: {each}")


def print_faults(scores: Sequence[Score]) -> None:
    """A line for each kind of fault: how often each outcome."""
    print(f"  {'fault':36} {'n':>4} " + " ".join(f"{each:>14}" for each in OUTCOMES))
    for name in sorted({each.trouble.name for each in scores}):
        mine = [each for each in scores if each.trouble.name == name]
        counts = [sum(each.outcome == outcome for each in mine) for outcome in OUTCOMES]
        print(f"  {name[:36]:36} {len(mine):>4} " + " ".join(f"{each or '.':>14}" for each in counts))


def print_reliability(scores: Sequence[Score]) -> None:
    """What was said to be likely, and how often it was so."""
    print(f"  {'probability':>12} {'n':>4} {'said':>6} {'was':>6}")
    for each in reliability(forecasts(scores)):
        print(f"  {each.low:5.1f} to {each.high:3.1f} {each.count:>4} {each.said:6.2f} {each.was:6.2f}")
