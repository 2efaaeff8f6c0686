"""A mesh in words and signs: a matrix that fits a terminal, who is slow, who is dark, racks. Pure.

by host if it fits ──> by rack ──> by pod ──> by runs of hosts; a cell is the worst of its pairs
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.text import Text

from leadline.cli.ranges import natural
from leadline.cli.words.flows import percent
from leadline.cli.words.units import duration
from leadline.model.errors import UsageError

THRESHOLD_NS = 5_000.0
THRESHOLD_LOST = 0.01
LEVELS = "▁▂▃▄▅▆▇█"  # the fifth is the threshold
SILENT, UNPROBED, ITSELF = "×", "·", " "
LABEL_MAX = 16
_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
TITLES: Mapping[str, str] = {
    "p50": "one-way delay, median", "p99": "one-way delay, 99th percentile", "min": "one-way delay, smallest",
    "queue_p50": "queueing, median", "queue": "queueing, 99th percentile", "lost": "probes lost",
}  # fmt: skip
Answer = Mapping[str, Any]


def threshold_of(text: str, measure: str) -> float:
    """`5us`, `800ns`, `1ms`; of loss `1%`. Empty: the usual one. Errors: UsageError."""
    if not text:
        return THRESHOLD_LOST if measure == "lost" else THRESHOLD_NS
    pattern = r"([0-9]+(?:\.[0-9]+)?)\s*(%)" if measure == "lost" else r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s)"
    found = re.fullmatch(pattern, text.strip())
    value = float(found[1]) * (0.01 if measure == "lost" else _UNITS[found[2]]) if found else 0.0
    if not value > 0:
        wanted = "a share such as 1%" if measure == "lost" else "a length of time such as 5us or 800ns"
        raise UsageError(f"--threshold: expected {wanted}, got {text[:40]!r}")
    return value


def told(value: float | None, unit: str) -> str:
    """A value with its unit; `-` where it is not known."""
    if value is None:
        return "-"
    return percent(value) if unit == "ratio" else duration(value / 1e9)


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the board. `jobs`: those that run."""

    name: str
    state: str  # probed, dark, unprobed
    words: str
    inbound: float | None
    outbound: float | None
    bound_ns: int | None
    peers: int
    jobs: tuple[str, ...]
    tags: Mapping[str, str]

    @property
    def most(self) -> float | None:
        """The slower of its ways."""
        known = [each for each in (self.inbound, self.outbound) if each is not None]
        return max(known) if known else None

    def slow(self, threshold: float) -> bool:
        """Whether a way of it reaches the threshold."""
        return self.most is not None and self.most >= threshold


def hosts_of(board: Answer, match: str = "", job: str = "") -> list[Host]:
    """Hosts of the board; `match`: only those with it in name, tag or job; `job`: only those that it runs on."""
    found = []
    for at, name in enumerate(board["hosts"]):
        bounds = [board[f"{way}_bound_ns"][at] for way in ("inbound", "outbound") if board[way][at] is not None]
        jobs = tuple(board["jobs"][each]["job"] for each in board["jobs_of"][at] if board["jobs"][each]["running"])
        tags = {tag["name"]: tag["values"][tag["of"][at]] for tag in board["tags"] if tag["of"][at] >= 0}
        one = Host(
            name, board["states"][board["state"][at]], board["words"][at], board["inbound"][at], board["outbound"][at],
            max(bounds) if bounds and None not in bounds else None,
            max(board["inbound_peers"][at], board["outbound_peers"][at]), jobs, tags,
        )  # fmt: skip
        if job and job.removeprefix("job:") not in jobs:
            continue
        if match and not any(match.lower() in text.lower() for text in (name, *tags.values(), *jobs)):
            continue
        found.append(one)
    return found


@dataclass(frozen=True, slots=True)
class Square:
    """A matrix as it is drawn: N names, N x N worst values, pairs of which nothing arrives, pairs that were probed."""

    by: str  # host, rack, pod, run
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    silent: frozenset[tuple[int, int]]


def square_of(mesh: Answer, hosts: Sequence[Host], width: int, by: str = "") -> Square:
    """The finest that fits a width: hosts, racks, pods, runs of hosts. `by`: not finer than this."""
    of = {host.name: host for host in hosts}
    names = [name for name in mesh["hosts"] if name.removeprefix("host:") in of]
    folds = [("host", {name: name.removeprefix("host:") for name in names})]
    for tag in ("rack", "ecmp", "pod"):
        groups = {name: of[name.removeprefix("host:")].tags.get(tag, "no data") for name in names}
        if set(groups.values()) != {"no data"}:
            folds.append((tag, groups))
    wanted = [each[0] for each in folds].index(by) if by in [each[0] for each in folds] else 0
    for level, groups in folds[wanted:]:
        rows = set(groups.values())
        if label_width(rows) + len(rows) <= width:
            return _folded(mesh, level, groups)
    length = -(-len(names) // max(1, width - LABEL_MAX - 5))  # a label, and a number of three digits
    runs = {name: f"{names[at - at % length]} to {names[min(len(names), at - at % length + length) - 1]}"
            for at, name in enumerate(names)}  # fmt: skip
    return _folded(mesh, "run", runs)


def _folded(mesh: Answer, by: str, groups: Mapping[str, str]) -> Square:
    names = tuple(dict.fromkeys(sorted(groups.values(), key=natural) if by != "run" else groups.values()))
    place = {name: at for at, name in enumerate(names)}
    of = [place[groups[host]] if host in groups else -1 for host in mesh["hosts"]]
    values: list[list[float | None]] = [[None] * len(names) for _ in names]
    for src, row in enumerate(mesh["values"]):
        for dst, value in enumerate(row):
            if value is not None and of[src] >= 0 and of[dst] >= 0:
                known = values[of[src]][of[dst]]
                values[of[src]][of[dst]] = value if known is None else max(known, value)
    silent = frozenset((of[src], of[dst]) for src, dst in mesh["silent"] if of[src] >= 0 and of[dst] >= 0)
    return Square(by, names, tuple(tuple(row) for row in values), silent)


def label_width(names: Collection[str]) -> int:
    """Columns before the first cell: the number of a row, its name, blanks."""
    return len(str(len(names))) + 1 + _name_width(names) + 1


def _name_width(names: Collection[str]) -> int:
    return min(LABEL_MAX, max((len(name) for name in names), default=0))


def heat(square: Square, threshold: float, width: int) -> list[Text]:
    """The matrix: a head with the numbers of the columns, a line for each row. Never wider than `width`."""
    count = len(square.names)
    digits = len(str(count))
    name_room, label = _name_width(square.names), label_width(square.names)
    wide = 2 if label + 2 * count <= width else 1
    lines = []
    for place in range(digits):
        numbers = "".join(f"{number:>{digits}}"[place].ljust(wide) for number in range(1, count + 1))
        lines.append(Text(" " * label + numbers.rstrip(), style="dim"))
    for row, name in enumerate(square.names):
        shown = name if len(name) <= name_room else f"{name[: name_room - 1]}…"
        line = Text(f"{row + 1:>{digits}} ", style="dim").append(f"{shown:<{name_room}} ", style="default not dim")
        for column in range(count):
            sign, style = cell(square, row, column, threshold)
            line.append(sign.ljust(wide), style=style)
        line.rstrip()
        lines.append(line)
    return lines


def cell(square: Square, row: int, column: int, threshold: float) -> tuple[str, str]:
    """The sign of a pair and its style. What does not arrive is seen before what is slow."""
    if (row, column) in square.silent:
        return SILENT, "bold red not dim"
    value = square.values[row][column]
    if value is None:
        return (ITSELF, "") if row == column and square.by == "host" else (UNPROBED, "dim")
    level = min(len(LEVELS) - 1, int(4 * value / threshold))
    return LEVELS[level], "bold red not dim" if level >= 4 else "yellow not dim" if level >= 2 else "green not dim"


def legend(threshold: float, unit: str) -> str:
    """What the signs mean."""
    half, whole = told(threshold / 2, unit), told(threshold, unit)
    ok, watch, bad = LEVELS[:2], LEVELS[2:4], f"{LEVELS[4]}-{LEVELS[7]}"
    arrives = f"{SILENT} nothing arrives  {UNPROBED} not probed"
    return f"{ok} below {half}  {watch} from {half}  {bad} from {whole}  {arrives}"


def slowest_pairs(mesh: Answer, hosts: Sequence[Host], threshold: float) -> list[dict[str, Any]]:
    """Pairs that reach the threshold, the slowest first."""
    return sorted((each for each in pairs_of(mesh, hosts) if (each["value"] or 0.0) >= threshold),
                  key=lambda each: -each["value"])  # fmt: skip


def pairs_of(mesh: Answer, hosts: Sequence[Host]) -> list[dict[str, Any]]:
    """Every probed pair as a row for programs."""
    of = {host.name: host for host in hosts}
    silent = {(src, dst) for src, dst in mesh["silent"]}
    names = [name.removeprefix("host:") for name in mesh["hosts"]]
    return [
        {"src": names[src], "dst": names[dst], "value": value, "unit": mesh["unit"],
         "bound_ns": mesh["bounds_ns"][src][dst], "arrives": (src, dst) not in silent,
         "src_rack": of[names[src]].tags.get("rack"), "dst_rack": of[names[dst]].tags.get("rack"),
         "src_pod": of[names[src]].tags.get("pod"), "dst_pod": of[names[dst]].tags.get("pod")}
        for src, row in enumerate(mesh["values"]) for dst, value in enumerate(row)
        if (value is not None or (src, dst) in silent) and names[src] in of and names[dst] in of
    ]  # fmt: skip


def places_of(hosts: Sequence[Host], threshold: float, unit: str) -> list[dict[str, Any]]:
    """A row for each rack (with its pod), or pod where no racks are known; what has most slow and dark hosts first."""
    tag = next((name for name in ("rack", "ecmp", "pod") if any(name in host.tags for host in hosts)), "")
    if not tag:
        return []
    groups: dict[tuple[str, str], list[Host]] = defaultdict(list)
    for host in hosts:
        groups[host.tags.get(tag, "no data"), host.tags.get("pod", "-") if tag != "pod" else "-"].append(host)
    rows = []
    for (name, pod), some in groups.items():
        ways = {
            way: [value for host in some if (value := getattr(host, way)) is not None]
            for way in ("inbound", "outbound")
        }
        rows.append({
            ("ECMP group" if tag == "ecmp" else tag): name, **({} if tag == "pod" else {"pod": pod}),
            "hosts": len(some), "slow": sum(host.slow(threshold) for host in some),
            "dark": sum(host.state == "dark" for host in some),
            "not probed": sum(host.state == "unprobed" for host in some),
            **{way: told(median(values) if values else None, unit) for way, values in ways.items()},
        })  # fmt: skip
    first = next(iter(rows[0]))
    return sorted(rows, key=lambda row: (-row["slow"] - row["dark"], natural(str(row[first]))))
