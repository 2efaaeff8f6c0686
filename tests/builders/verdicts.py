"""Rows of verdicts and of the runs that say which of them count, with what most tests of that do not care for."""

from __future__ import annotations

from typing import Any


def volume(end: int, revision: int, link: str, **more: Any) -> dict[str, Any]:
    """A row of `flow_volume` of a window of ten."""
    return {
        "link": link, "flow": 1, "end_ns": end, "window_ns": 10, "analysis": "path", "version": 1,
        "revision": revision, **more,
    }  # fmt: skip


def run(end: int, revision: int, analysis: str = "path", **more: Any) -> dict[str, Any]:
    """A row of `analysis_run`: a window was judged."""
    return {
        "analysis": analysis, "end_ns": end, "window_ns": 10, "version": 1, "revision": revision, "state": "done",
        **more,
    }  # fmt: skip


def conflict(seen: int, revision: int, entity: str, **more: Any) -> dict[str, Any]:
    """A row of `conflict` that the window up to `seen` tells."""
    return {
        "entity": entity, "kind": "loop", "start_ns": 1, "end_ns": None, "seen_ns": seen, "analysis": "graph",
        "version": 1, "revision": revision, **more,
    }  # fmt: skip
