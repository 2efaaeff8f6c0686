"""Many names in few words: `h1-h8, h10` for nine hosts, `3 hosts, 1 switch`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby

_NUMBER = re.compile(r"\d+")


_MANY = {
    "gpu": "GPUs", "port": "NIC ports", "switch": "switches", "storage": "storage systems", "address": "addresses",
    "process": "processes", "qp": "queue pairs", "comm": "communicators", "swport": "switch ports",
}  # fmt: skip
_ONE = {"gpu": "GPU", "port": "NIC port", "storage": "storage system", "qp": "queue pair", "comm": "communicator",
        "swport": "switch port"}  # fmt: skip


def counted(counts: Mapping[str, int]) -> str:
    """Numbers of things by kind: `16 GPUs, 1 host`."""
    return ", ".join(
        f"{count:,} {_ONE.get(kind, kind) if count == 1 else _MANY.get(kind, f'{kind}s')}"
        for kind, count in counts.items()
    )


@lru_cache(1 << 18)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Key of the order that people expect: `h2` before `h10`."""
    return tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part
    )


def ranges(names: Iterable[str], most: int = 0) -> str:
    """Names in natural order, runs of numbers as `first-last`; with `most`, so many words and how many more there are.

    A run counts in the last number of a name: `h1/eth0` and `h1/eth1` are `h1/eth0-eth1`.
    """
    words = [_word(run) for run in _runs(sorted(set(names), key=natural))]
    if most and len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return ", ".join(words)


def _runs(names: list[str]) -> list[list[str]]:
    parts = [_parts(name) for name in names]
    runs = []
    # Numbers that follow each other less their place are the same: the usual way to find runs.
    for _, run in groupby(enumerate(parts), key=lambda each: (each[1][0], each[1][2], _step(each[0], each[1][1]))):
        runs.append(["".join(part) for _, part in run])
    return runs


def _step(place: int, digits: str) -> tuple[int, int]:
    """What is the same within a run: number less place; `01` and `1` are no run, nor are names without a number."""
    if not digits:
        return (place, -1)
    return (int(digits) - place, len(digits) if digits.startswith("0") and len(digits) > 1 else 0)


def _parts(name: str) -> tuple[str, str, str]:
    """Before the last number, the number, after it."""
    numbers = list(_NUMBER.finditer(name))
    if not numbers:
        return name, "", ""
    last = numbers[-1]
    return name[: last.start()], last[0], name[last.end() :]


def _word(run: list[str]) -> str:
    if len(run) == 1:
        return run[0]
    begin = re.split(r"[/:]", run[0])
    return f"{run[0]}-{_tail(run[-1], len(begin))}"


def _tail(name: str, parts: int) -> str:
    """The last part of a path-like name: of `bert-1/7` the 7, of `h8` all."""
    return name if parts == 1 else re.split(r"[/:]", name)[-1]
