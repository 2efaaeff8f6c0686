"""Scores of paths as figures, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure

from evals.path.scores import MANY_SAMPLES, Bin, Scores, reliability
from evals.statistics import Share, quantile

RECORDED = Path(__file__).with_name("paths_recorded.json")  # what `--keep` kept, for the docs
RIGHT_TARGET, COVERAGE_TARGET = 0.98, 0.95
_HEAD = (
    "condition", "flows", "right", "wrong", "unknown", "over-confident", "Brier", "sprayed told", "moved told",
    "owner right", "volume covered", "width p50",
)  # fmt: skip


def figures(scores: Scores) -> list[Figure]:
    """Of everything that was judged."""
    overconfident = [each for each in reliability(scores.flows) if each.overconfident]
    return [
        _share("path_right_share", scores.right, RIGHT_TARGET, f"no flow had {MANY_SAMPLES} samples"),
        _share("path_unknown_share", scores.unknown, None, "no flow was seen", "lower"),
        _share("path_wrong_share", scores.wrong, None, "no flow was seen", "lower"),
        _number("path_overconfident", float(len(overconfident)), "bins", 0.0, "lower"),
        _number("path_brier", scores.brier, "1", None, "lower", "no path was told"),
        _share("sprayed_told_share", scores.sprayed_told, None, "no sprayed flow had enough samples"),
        _share("moved_told_share", scores.moved_told, None, "no flow with enough samples moved"),
        _share("owner_right_share", scores.owner_right, None, "no owner is known"),
        _share("volume_coverage", scores.covered, COVERAGE_TARGET, "no volume was told"),
        _number(
            "volume_width_ratio_p50", quantile(scores.width_ratios, 0.5), "ratio", None, "lower", "no volume was told"
        ),
    ]


def hostile_figure(scores: Scores) -> Figure:
    """How many are right where switches or the inventory are silent or wrong; in the total too."""
    return _share("path_right_share_hostile", scores.right, None, "no such condition was judged")


def _share(name: str, share: Share, target: float | None, reason: str, better: str = "higher") -> Figure:
    value = None if share.value is None else round(share.value, 5)
    anchor = {"of": "cases, with the 95 % interval", "value": share.count, "interval": _interval(share)}
    return Figure(name, value, "ratio", target, better, anchor, None if share.count else reason)


def _number(
    name: str, value: float | None, unit: str, target: float | None, better: str, reason: str | None = None
) -> Figure:
    rounded = None if value is None else round(value, 5)
    return Figure(name, rounded, unit, target, better, reason=reason if value is None else None)


def as_json(scores: Scores) -> dict[str, Any]:
    """Figures of one condition by name, each with how many cases it is of and its interval."""
    found = {each.figure: {"value": each.value, **_beside(each)} for each in figures(scores)}
    return {"flows": len(scores.flows), "without_truth": scores.without_truth, "figures": found}


def _beside(figure: Figure) -> dict[str, Any]:
    return {} if figure.anchor is None else {"of": figure.anchor["value"], "interval": figure.anchor["interval"]}


def bins_json(scores: Scores) -> list[dict[str, Any]]:
    """The reliability table."""
    return [
        {
            "from": each.low,
            "to": each.high,
            "stated": round(each.stated, 5),
            "right": each.right.value,
            "interval": _interval(each.right),
            "flows": each.right.count,
        }
        for each in reliability(scores.flows)
    ]


def _interval(share: Share) -> list[float]:
    return [round(end, 5) for end in share.interval]


def line(name: str, scores: Scores, seconds: float) -> str:
    """One condition in a line, as it is judged."""
    return f"{name}: right {_told(scores.right)}, volumes {_told(scores.covered)}, {seconds:.1f} s"


def table(judged: Sequence[tuple[str, Scores]]) -> str:
    """All conditions for people."""
    rows: list[Sequence[str]] = [_HEAD]
    rows += [_row(name, scores) for name, scores in judged]
    return aligned(rows)


def _row(name: str, scores: Scores) -> Sequence[str]:
    over = sum(each.overconfident for each in reliability(scores.flows))
    shares = (scores.sprayed_told, scores.moved_told, scores.owner_right, scores.covered)
    return (
        name,
        f"{len(scores.flows):,}",
        *(_told(share) for share in (scores.right, scores.wrong, scores.unknown)),
        str(over),
        _plain(scores.brier, ".4f"),
        *(_told(share) for share in shares),
        _plain(quantile(scores.width_ratios, 0.5), ".0%"),
    )


def reliability_table(scores: Scores) -> str:
    """Stated probability beside the share that is right."""
    rows: list[Sequence[str]] = [("stated from", "to", "mean", "right", "95 % interval", "flows", "")]
    rows += [_bin_row(each) for each in reliability(scores.flows)]
    return aligned(rows)


def _bin_row(each: Bin) -> Sequence[str]:
    low, high = each.right.interval
    note = "OVER-CONFIDENT" if each.overconfident else ""
    return (
        f"{each.low:g}", f"{each.high:g}", f"{each.stated:.4f}", _told(each.right), f"{low:.4f} to {high:.4f}",
        f"{each.right.count:,}", note,
    )  # fmt: skip


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, names to the left and figures to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _told(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.2%}"


def _plain(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
