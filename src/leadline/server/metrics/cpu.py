"""What each part of the server costs: CPU time of its threads by their names, and of the processes that it started."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

# Our threads by the beginning of their names; the rest of ours is `other`.
_PARTS = {
    "MainThread": "connections", "decode": "decode", "lane": "store", "otlp-grpc": "decode", "sflow": "decode",
    "runner": "runner", "asyncio": "answers", "AnyIO": "answers", "graph": "answers", "search": "answers",
}  # fmt: skip
# Threads of the embedded engine by the beginning of what it calls them for the task at hand.
_ENGINE = {"Merge": "engine merges", "BgSch": "engine upkeep", "BgDist": "engine upkeep", "BgBuf": "engine upkeep"}
_Key = tuple[int, float]  # a process and when it began; a thread


class CpuTime:
    """CPU seconds by part since the start. What a thread did is counted for what it is called when it is looked at:
    the engine names its threads anew for each task, so its parts are as good as the looks are frequent. What a process
    or thread did after the last look at it is lost with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[_Key, float] = {}
        self._total: defaultdict[str, float] = defaultdict(float)

    def now(self) -> dict[str, float]:
        """By part, seconds. Cheap: a file or two for each thread, and the processes below this one."""
        with self._lock:
            seen = {}
            for key, part, cpu_s in _looked_at():
                before_s = self._seen.get(key, 0.0)
                # Less than before: another thread, which has the number of one that ended.
                self._total[part] += cpu_s - before_s if cpu_s >= before_s else cpu_s
                seen[key] = cpu_s
            self._seen = seen
            return dict(self._total)


def _looked_at() -> Iterator[tuple[_Key, str, float]]:
    ours = {each.native_id: each.name for each in threading.enumerate()}
    process = psutil.Process()
    for thread in process.threads():
        known = ours.get(thread.id)
        part = part_of(known) if known else _part_of_engine(thread.id)
        yield (thread.id, 0.0), part, thread.user_time + thread.system_time
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            used = child.cpu_times()
            yield (child.pid, child.create_time()), "analyses", used.user + used.system


def part_of(thread: str) -> str:
    """The part that a thread of ours works for, by its name."""
    return next((part for begin, part in _PARTS.items() if thread.startswith(begin)), "other")


def _part_of_engine(thread: int) -> str:
    name = ""
    with suppress(OSError):
        name = Path(f"/proc/self/task/{thread}/comm").read_text()
    return next((part for begin, part in _ENGINE.items() if name.startswith(begin)), "engine queries")
