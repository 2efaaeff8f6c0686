"""Slow ranks of a job in words: `rank 6: slow since step 1811, +38 %`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN = 5


def slow_worker_lines(found: Mapping[str, Any], show_missing: bool = False) -> list[str]:
    """A line for each slow rank, those that became slow first; with `show_missing` also why nobody can be named."""
    workers: Sequence[Mapping[str, Any]] = found["workers"]
    if not workers:
        nobody = f"no rank is slower than the others, by the {found['measure']} of each"
        why = f"unknown: it needs {found['missing']}" if found["missing"] else nobody
        return [why] if show_missing else []
    lines = [_line(each) for each in workers[:SHOWN]]
    if len(workers) > SHOWN:
        lines.append(f"and {len(workers) - SHOWN} more; see --output json")
    return [*lines, f"by the {found['measure']} of each rank"]


def _line(each: Mapping[str, Any]) -> str:
    if each["from_start"]:
        return f"rank {each['rank']}: slow from the start, {each['slowdown']:+.0%}"
    until = "" if each["until_step"] is None else f" until step {each['until_step']}"
    return f"rank {each['rank']}: slow since step {each['since_step']}{until}, {each['slowdown']:+.0%}"
