"""How long things took on the two sides: steps and their phases, collectives, the ledger's accounts, late ranks.

run                                       host
time of a step: of its slowest rank       phases of the steps of its ranks
tokens and samples per second             how long its ranks wait in collectives: who is late waits least
bus bandwidth by collective and size
ledger per step, late ranks
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from leadline.analysis.columns import Floats
from leadline.model.accounts import Category
from leadline.model.tables.accounts import LEDGER
from leadline.views.compare.sides import Reader, Side
from leadline.views.compare.statistics import difference, quantile
from leadline.views.rows import rows_where

STEPS_MAX = 100_000  # the last ones
COLLECTIVES_MAX = 200_000
KINDS_MAX = 12  # of collectives, those with the most bytes
PHASES = ("data", "forward", "backward", "optimizer", "checkpoint")
LATE_MAX = 16

Series = dict[str, Floats]  # in order of time


def times_of(reader: Reader, a: Side, b: Side) -> list[dict[str, Any]]:
    """What differs in time between two sides, and what does not. GPUs tell no times."""
    if "gpu" in (a.kind, b.kind):
        return []
    if a.kind == b.kind == "job":
        steps = (_job_steps(reader, a), _job_steps(reader, b))
        return [
            *_compared("step time, median", "s", "step", steps, 0.5),
            *_compared("step time, 95th percentile", "s", "step", steps, 0.95),
            *_compared("tokens", "tokens/s", "tokens", steps, 0.5),
            *_compared("samples", "samples/s", "samples", steps, 0.5),
            *(each for name in PHASES for each in _compared(f"{name} per step", "s", name, steps, 0.5)),
            *_bandwidths(_collectives(reader, a), _collectives(reader, b)),
        ]
    phases = (_host_steps(reader, a), _host_steps(reader, b))
    waits = (_waits(reader, a), _waits(reader, b))
    return [
        *(each for name in PHASES for each in _compared(f"{name} per step", "s", name, phases, 0.5)),
        *(
            each
            for name in sorted(waits[0].keys() | waits[1].keys())
            for each in _compared(name, "s", name, waits, 0.5)
        ),
    ]


def _compared(what: str, unit: str, name: str, sides: tuple[Series, Series], share: float) -> list[dict[str, Any]]:
    """One line, or none where neither side tells it."""
    a, b = (side.get(name, np.zeros(0)) for side in sides)
    if not len(a) and not len(b):
        return []
    return [{"what": what, "unit": unit, **difference(quantile(a, share), quantile(b, share))}]


# --- steps ---

_MEANS = ", ".join(f"avg({name}_ns) / 1e9 AS {name}" for name in PHASES)
_IN_SPAN = "start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64}"


def _job_steps(reader: Reader, side: Side) -> Series:
    """Of each step of a run: its time, that of its slowest rank; phases, the mean of its ranks; tokens per second."""
    rows = reader.rows(
        "leadline.step",
        f"step, max(end_ns - start_ns) / 1e9 AS took, sum(tokens) AS tokens_n, sum(samples) AS samples_n, {_MEANS}",
        f"job = {{job:String}} AND {_IN_SPAN}",
        f"GROUP BY step ORDER BY step DESC LIMIT {STEPS_MAX}",
        job=side.name, from_ns=side.from_ns, to_ns=side.to_ns,
    )[::-1]  # fmt: skip
    found = _columns(rows, {"step": "took", **{name: name for name in PHASES}})
    took = _column(rows, "took")
    for name in ("tokens", "samples"):
        count = _column(rows, f"{name}_n")
        known = (count > 0) & (took > 0)
        found[name] = count[known] / took[known]
    return found


def _host_steps(reader: Reader, side: Side) -> Series:
    """Phases of the steps of the ranks on some hosts, the mean of each step."""
    rows = reader.rows(
        "leadline.step", f"job, step, {_MEANS}", f"host IN ({{hosts:Array(String)}}) AND {_IN_SPAN}",
        f"GROUP BY job, step ORDER BY job, step DESC LIMIT {STEPS_MAX}",
        hosts=list(side.hosts), from_ns=side.from_ns, to_ns=side.to_ns,
    )[::-1]  # fmt: skip
    return _columns(rows, {name: name for name in PHASES})


def _columns(rows: list[dict[str, Any]], names: Mapping[str, str]) -> Series:
    found = {name: _column(rows, column) for name, column in names.items()}
    return {name: values[np.isfinite(values)] for name, values in found.items()}


def _column(rows: list[dict[str, Any]], name: str) -> Floats:
    return np.array([float("nan") if row[name] is None else float(row[name]) for row in rows], np.float64)


# --- collectives ---

Kind = tuple[str, int, int]  # operation, bytes, ranks


def _collectives(reader: Reader, side: Side) -> dict[Kind, Floats]:
    """Bus bandwidth of each collective, bytes/s, by kind, in order of time.

    A collective's time is the shortest that any rank was in it: of the one that came last, and by one clock only.
    Source: nccl-tests, doc/PERFORMANCE.md, for the factors.
    """
    rows = reader.rows(
        "leadline.collective",
        "toString(op) AS op, bytes, ranks, min(finished_ns - enqueued_ns) AS took_ns, min(enqueued_ns) AS at_ns",
        "job = {job:String} AND enqueued_ns >= {from_ns:Int64} AND enqueued_ns < {to_ns:Int64} "
        "AND finished_ns > enqueued_ns AND bytes > 0",
        f"GROUP BY comm, seq, op, bytes, ranks ORDER BY at_ns DESC LIMIT {COLLECTIVES_MAX}",
        job=side.name, from_ns=side.from_ns, to_ns=side.to_ns,
    )[::-1]  # fmt: skip
    found: dict[Kind, list[float]] = defaultdict(list)
    for row in rows:
        kind = (row["op"], int(row["bytes"]), int(row["ranks"]))
        found[kind].append(bus_bytes(*kind) / (row["took_ns"] / 1e9))
    return {kind: np.array(values) for kind, values in found.items()}


def bus_bytes(op: str, size: int, ranks: int) -> float:
    """Bytes that each link must carry for a collective, whatever the algorithm; `size`: what one rank puts in."""
    n = max(ranks, 1)
    whole = size * n if op in ("all_gather", "gather") else size
    if op == "all_reduce":
        return whole * 2 * (n - 1) / n
    if op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return whole * (n - 1) / n
    return float(whole)


def _bandwidths(a: Mapping[Kind, Floats], b: Mapping[Kind, Floats]) -> list[dict[str, Any]]:
    none = np.zeros(0)
    by_bytes = sorted(a.keys() | b.keys(), key=lambda kind: (-kind[1] * len(a.get(kind, none)), kind))[:KINDS_MAX]
    told = []
    for kind in by_bytes:
        what = f"{kind[0]} {kind[1]} B on {kind[2]}"
        both = ({what: a.get(kind, none) / 1e9}, {what: b.get(kind, none) / 1e9})
        told += _compared(what, "GB/s", what, both, 0.5)
    return told


def _waits(reader: Reader, side: Side) -> Series:
    """Time that ranks on some hosts were in collectives, by kind, in order of time; the commonest kinds."""
    rows = reader.rows(
        "leadline.collective",
        "toString(op) AS op, bytes, ranks, (finished_ns - enqueued_ns) / 1e9 AS in_s",
        "host IN ({hosts:Array(String)}) AND enqueued_ns >= {from_ns:Int64} AND enqueued_ns < {to_ns:Int64} "
        "AND finished_ns > enqueued_ns",
        f"ORDER BY enqueued_ns DESC LIMIT {COLLECTIVES_MAX}",
        hosts=list(side.hosts), from_ns=side.from_ns, to_ns=side.to_ns,
    )[::-1]  # fmt: skip
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[f"in {row['op']} {row['bytes']} B on {row['ranks']}"].append(row["in_s"])
    commonest = sorted(found, key=lambda name: (-len(found[name]), name))[:KINDS_MAX]
    return {name: np.array(found[name]) for name in commonest}


# --- the ledger ---


def ledger_of(reader: Reader, a: Side, b: Side) -> dict[str, Any]:
    """Seconds per step by category and, of late ranks, by rank; shares of windows are held against noise."""
    if a.kind != "job" or b.kind != "job":
        return {"categories": [], "late": [], "missing": ""}
    of_a, of_b = _ledger(reader, a), _ledger(reader, b)
    absent = [name for name, rows in (("A", of_a), ("B", of_b)) if not rows]
    if absent:
        return {"categories": [], "late": [], "missing": f"the ledger has no window of {' or '.join(absent)}"}
    steps_a, steps_b = _steps(reader, a), _steps(reader, b)
    shares_a, shares_b = _shares(of_a), _shares(of_b)
    categories = []
    for name in [each.value for each in Category if each.value in shares_a or each.value in shares_b]:
        told = difference(*(quantile(shares.get(name, np.zeros(ends)), 0.5) for shares, ends in (
            (shares_a, _windows(of_a)), (shares_b, _windows(of_b)))))  # fmt: skip
        categories.append({
            "category": name, "a_s_per_step": _per_step(of_a, steps_a, name),
            "b_s_per_step": _per_step(of_b, steps_b, name), "share": told,
        })  # fmt: skip
    return {"categories": categories, "late": _late(of_a, steps_a, of_b, steps_b), "missing": ""}


def _ledger(reader: Reader, side: Side) -> list[dict[str, Any]]:
    where = " AND ".join(
        [*reader.asked.conditions(), "job = {job:String}", f"end_ns > {side.from_ns}", f"end_ns <= {side.to_ns}"]
    )
    sql = (
        "SELECT toString(category) AS category, ifNull(toString(owner), '') AS owner, end_ns, sum(seconds) AS seconds "
        f"FROM ({rows_where(LEDGER, where)}) GROUP BY category, owner, end_ns"
    )
    return reader.query(sql, job=side.name)


def _steps(reader: Reader, side: Side) -> int:
    rows = reader.rows(
        "leadline.step", "uniqExact(step) AS n", f"job = {{job:String}} AND {_IN_SPAN}",
        job=side.name, from_ns=side.from_ns, to_ns=side.to_ns,
    )  # fmt: skip
    return int(rows[0]["n"])


def _windows(rows: list[dict[str, Any]]) -> int:
    return len({row["end_ns"] for row in rows})


def _shares(rows: list[dict[str, Any]]) -> Series:
    """Share of each window's time by category, windows in order."""
    ends = {end_ns: place for place, end_ns in enumerate(sorted({row["end_ns"] for row in rows}))}
    total = np.zeros(len(ends))
    found: dict[str, Floats] = {}
    for row in sorted(rows, key=lambda row: (row["end_ns"], row["category"], row["owner"])):
        total[ends[row["end_ns"]]] += row["seconds"]
        found.setdefault(row["category"], np.zeros(len(ends)))[ends[row["end_ns"]]] += row["seconds"]
    return {
        name: np.divide(values, total, out=np.zeros_like(values), where=total > 0) for name, values in found.items()
    }


def _per_step(rows: list[dict[str, Any]], steps: int, category: str) -> float | None:
    return sum(row["seconds"] for row in rows if row["category"] == category) / steps if steps else None


def _late(a: list[dict[str, Any]], steps_a: int, b: list[dict[str, Any]], steps_b: int) -> list[dict[str, Any]]:
    """Seconds per step that the job waited for each rank, by its number: names of jobs differ."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, (rows, steps) in enumerate(((a, steps_a), (b, steps_b))):
        for row in rows:
            if row["category"] == Category.STRAGGLER.value and steps:
                found[row["owner"].rpartition("/")[2] or "?"][side] += row["seconds"] / steps
    told = [{"rank": rank, "a_s_per_step": both[0], "b_s_per_step": both[1]} for rank, both in found.items()]
    return sorted(told, key=lambda each: -abs(float(each["b_s_per_step"]) - float(each["a_s_per_step"])))[:LATE_MAX]  # type: ignore[arg-type]
