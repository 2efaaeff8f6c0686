"""How analyses do, for people: the section of `leadline doctor`, and `leadline show analyses`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from leadline.cli.output import STATE_STYLE, ago, table, when

# The colour of each state is that of a check that is as bad.
_AS_BAD_AS = {"ok": "ok", "behind": "warning", "failed": "critical", "idle": "unknown", "clock": "warning"}


SHORT = ("state", "analysis", "checked up to", "lag", "waiting", "failed")


def print_analyses(out: Console, states: Sequence[Mapping[str, Any]], short: bool = False) -> None:
    """Print one row for each analysis, and below it the error of each whose last window failed.

    `short`: without what it read and wrote.
    """
    if not states:
        out.print("no analysis is registered")
        return
    rows = [
        {
            "state": Text(each["state"], style=STATE_STYLE.get(_AS_BAD_AS.get(each["state"], ""), "")),
            "analysis": f"{each['name']} {each['version']}",
            "checked up to": when(each["judged_to_ns"]),
            "lag": ago(each["lag_s"]),
            "windows": each["windows"],
            "waiting": f"{each['waiting']} ({each['past']} past)" if each.get("past") else each["waiting"],
            "failed": each["failures"],
            "revised": each["revisions"],
            "late rows": each["late_rows"],
            "rows in": each["rows_in"],
            "rows out": each["rows_out"],
            "took": took(each["last_took_s"]),
        }
        for each in states
    ]
    columns = [name for name in rows[0] if not short or name in SHORT]
    out.print(table(rows, columns, right=columns[3:]))
    for each in states:
        if each["last_error"]:
            out.print(f"{each['name']}: {each['last_error']}")


def took(seconds: float | None) -> str:
    """How long a window took: `3 ms`, `1.2 s`; `-` for None."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
