"""Words for the ledger and for failures: GPU time, spans of time, money, shares, bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.model.ids import kind_of
from leadline.model.units import gpu_time

CATEGORY_WORDS: Mapping[str, str] = {
    "compute": "compute", "input": "waiting for input", "communication": "communication",
    "straggler": "waiting for a straggler", "checkpoint": "checkpoint", "restart": "start and restart", "idle": "idle",
    "unknown": "unknown", "missing": "not analysed",
}  # fmt: skip
COMM_CHARS = 20  # of a communicator: its number is long, and its begin tells it apart
_EIGHTHS = " ▏▎▍▌▋▊▉█"


ESTIMATE_TOLD = 0.05  # of a loss: less of it is no news


def so_far(lost: float | None, estimated: float) -> str:
    """`so far, 3.2 GPU-s of it estimated`, where the ledger has not judged a good part of a loss; else empty."""
    if not lost or estimated < ESTIMATE_TOLD * lost:
        return ""
    if estimated > (1 - ESTIMATE_TOLD) * lost:
        return "so far, estimated"
    return f"so far, {gpu_time(estimated)} of it estimated"


def gpu_hours(gpu_seconds: float) -> str:
    """`0.25 GPU-h`: always hours, for figures that are held against each other."""
    hours = gpu_seconds / 3600
    if hours >= 1000:
        return f"{hours:,.0f} GPU-h"
    return "under 0.01 GPU-h" if 0 < hours < 0.01 else f"{hours:.2f} GPU-h" if hours < 10 else f"{hours:.0f} GPU-h"


def span(seconds: float | None) -> str:
    """`12.5 s`, `3 min 20 s`, `5 h 12 min`, `2 d 3 h`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for large, small, words in ((86400, 3600, ("d", "h")), (3600, 60, ("h", "min")), (60, 1, ("min", "s"))):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {words[0]}" + (f" {rest} {words[1]}" if rest else "")
    return f"{whole} s"


def hours(value: float | None) -> str:
    """Hours as a person reads them: `23 s`, `1 h 48 min`; `-` for None."""
    return span(None if value is None else value * 3600)


def money(amount: float | None, currency: str) -> str:
    """`12.40 EUR`; below 1 with a tenth of a cent; `-` where no price is set."""
    if amount is None:
        return "-"
    if amount == 0 or amount >= 1:
        return f"{amount:,.2f} {currency}"
    return f"{amount:.3f} {currency}" if amount >= 0.0005 else f"<0.001 {currency}"


def share(ratio: float | None) -> str:
    """`81.2 %`; `-` where it is not known."""
    return "-" if ratio is None else f"{100 * ratio:.1f} %"


def bar(ratio: float, width: int = 30) -> str:
    """A bar of `width` characters for 1, in eighths of a character; a share above 0 shows at least one."""
    eighths = max(round(min(max(ratio, 0.0), 1.0) * width * 8), 1 if ratio > 0 else 0)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def owner_words(owner: Mapping[str, Any]) -> str:
    """An owner without the kind of its ranks: `bert-1/0 > bert-1/1`; communicators by their first digits."""
    name: str = owner["owner"] or "job:"
    if kind_of(name) == "job":
        return "(the job)"
    if kind_of(name) == "comm" and len(name) > COMM_CHARS:
        return f"{name[:COMM_CHARS]}…"
    return " > ".join(part.removeprefix("rank:") for part in name.split(">"))
