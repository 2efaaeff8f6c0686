"""What each part of the server costs: CPU time of its threads by their names, and of the processes that it started."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Our threads by the beginning of their names; the rest of ours is `other`.
_PARTS = {
    "MainThread": "connections", "decode": "decode", "lane": "store", "otlp-grpc": "decode", "sflow": "decode",
    "runner": "runner", "asyncio": "answers", "AnyIO": "answers", "graph": "answers", "search": "answers",
}  # fmt: skip
# Threads of the embedded engine by the beginning of what it calls them for the task at hand.
_ENGINE = {"Merge": "engine merges", "BgSch": "engine upkeep", "BgDist": "engine upkeep", "BgBuf": "engine upkeep"}
_Key = tuple[int, int]  # process or thread, and when it began


class CpuTime:
    """CPU seconds by part since the start. What a thread did is counted for what it is called when it is looked at:
    the engine names its threads anew for each task, so its parts are as good as the looks are frequent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[_Key, float] = {}
        self._total: defaultdict[str, float] = defaultdict(float)

    def now(self) -> dict[str, float]:
        """By part, seconds. Cheap: one file for each thread and process."""
        with self._lock:
            seen = {}
            for key, part, cpu_s in _looked_at():
                seen[key] = cpu_s
                self._total[part] += cpu_s - self._seen.get(key, 0.0)
            self._seen = seen
            return dict(self._total)


def _looked_at() -> Iterator[tuple[_Key, str, float]]:
    ours = {each.native_id: each.name for each in threading.enumerate()}
    for path in Path("/proc/self/task").iterdir():
        if (found := _stat(path / "stat")) is not None:
            name, began, cpu_s = found
            known = ours.get(int(path.name))
            yield (int(path.name), began), part_of(known) if known else _part_of_engine(name), cpu_s
    for pid in _children(os.getpid()):
        if (found := _stat(Path(f"/proc/{pid}/stat"))) is not None:
            yield (pid, found[1]), "analyses", found[2]


def part_of(thread: str) -> str:
    """The part that a thread of ours works for, by its name."""
    return next((part for begin, part in _PARTS.items() if thread.startswith(begin)), "other")


def _part_of_engine(name: str) -> str:
    return next((part for begin, part in _ENGINE.items() if name.startswith(begin)), "engine queries")


def _children(pid: int) -> Iterator[int]:
    """All processes below one: those that analyse have one between."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            found = [int(each) for each in (task / "children").read_text().split()]
        except OSError:
            continue
        for child in found:
            yield child
            yield from _children(child)


def _stat(path: Path) -> tuple[str, int, float] | None:
    """Name, begin (ticks since the boot) and CPU seconds; None if it has ended."""
    try:
        text = path.read_text()
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return head.partition("(")[2], int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS
