"""Where the time of a job went: categories, owners, what is not known, goodput, ETTR, MTTF, money.

The seconds were concluded by the analysis `ledger`; here they are added up. They are multiples of 2**-20 s, so that
sums of them are exact: categories, owners and the timeline add up to the total to the last bit (of GPU-seconds as long
as there are at most 2**33 of them).
Definitions: docs/analyses/goodput.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leadline.model.accounts import Category, FailureClass
from leadline.model.ids import kind_of
from leadline.store import Store
from leadline.views.asked import Asked, plain_job, time_text
from leadline.views.ledger.books import SPAN_NS, SUMS, Books, Span
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.reliability import best_interval_h, expected_ettr, mttf
from leadline.views.lost import losses_of
from leadline.views.rows import SCHEMA_VERSION

HOUR_S = 3600.0
NOT_JUDGED = "windows not analysed"
SPANS_MAX = 100  # of them that are told one by one
OWNERS_MAX = 200
TAKERS_MAX = 8  # whose lost seconds are told over time
FAILURES_MAX = 100
NO_PRICE = "no price is set: give ledger.gpu_hour_price in leadline.yaml (and ledger.currency), to see losses in money"

# What training is: of these the part that is not lost is productive. Waiting for input or for others is not.
PRODUCTIVE = (Category.COMPUTE, Category.COMMUNICATION)
# Time in which a job ran, fast or slow.
_RUNNING = (Category.COMPUTE, Category.INPUT, Category.COMMUNICATION, Category.STRAGGLER)


def ledger_answer(
    store: Store, asked: Asked, job: str, from_ns: int | None = None, config: LedgerConfig | None = None
) -> dict[str, Any]:
    """What `/api/v1/ledger` says of a job from `from_ns` to `asked.at_ns`.

    Without `from_ns`: the last 24 hours; and where no time at all was asked for and the job is over, those before its
    end. Sums are exact. Windows that nobody judged, between the first and the last sign of the job, are `missing`:
    they count as held and not as productive.
    """
    config = config or LedgerConfig()
    books = Books(store, asked, plain_job(job))
    answer = _empty(plain_job(job), config)
    note = ""
    if asked.latest and from_ns is None:
        last_ns = books.last_ns()
        if last_ns is not None and last_ns <= asked.at_ns - SPAN_NS:
            books = Books(store, replace(asked, at_ns=last_ns), plain_job(job))
            note = f"nothing in the last 24 hours: this is up to its last window, {time_text(last_ns)}"
    span = books.span(from_ns)
    if span is None:
        return answer | {"why": books.why_none()}
    rows = books.sums(span)
    gaps = books.gaps(span)
    total = {name: sum(row[name] for row in rows) for name in SUMS}
    gpus = total["gpu_seconds"] / total["seconds"] if total["seconds"] else 0.0
    missing = _missing(gaps, span, gpus)
    failures = books.failures(span)
    owners = _owners(rows, total, config)
    lost = losses_of(store, books.asked, (span.from_ns, books.asked.at_ns))
    estimated = sum(part for key, part in lost.jobs.items() if (key[0], key[2]) == (books.tenant, plain_job(job)))
    timeline, takers = books.timeline(span, gaps, _takers(owners))
    return answer | {
        "from_ns": span.from_ns, "to_ns": span.to_ns, "window_ns": span.window_ns, "gpus": gpus,
        "total": {**total, "missing_seconds": missing["seconds"], "missing_gpu_seconds": missing["gpu_seconds"]},
        "categories": _categories(rows, total), "owners": owners,
        "hosts": books.hosts(span, _ranks(owners)), "estimated_gpu_seconds": estimated,
        "unknown": _unknown(rows, missing), "missing": missing, "depths": _depths(rows),
        "timeline": timeline, "takers": takers,
        "goodput": goodput(rows, missing["gpu_seconds"]),
        "ettr": _ettr(rows, missing["seconds"], failures, books.checkpoints(span)),
        "mttf": _mttf(failures, total["seconds"] + missing["seconds"]),
        "cost": _cost(total, missing["gpu_seconds"], config), "failures": failures[:FAILURES_MAX],
        "note": "; ".join(each for each in (note, books.note) if each),
    }  # fmt: skip


def _empty(job: str, config: LedgerConfig) -> dict[str, Any]:
    """An answer in which nothing is known."""
    return {
        "schema": SCHEMA_VERSION, "job": job, "from_ns": None, "to_ns": None, "window_ns": None, "gpus": None,
        "total": None, "estimated_gpu_seconds": 0.0, "categories": [], "owners": [], "hosts": {}, "unknown": [],
        "missing": None, "depths": {},
        "timeline": [], "takers": [], "goodput": None, "ettr": None, "mttf": None, "cost": _cost(None, 0.0, config),
        "failures": [], "why": "", "note": "",
    }  # fmt: skip


# --- sums ---------------------------------------------------------------------------------------------------------


def _missing(gaps: Sequence[tuple[int, int]], span: Span, gpus: float) -> dict[str, Any]:
    """What nobody judged, with the GPUs that the job held on average."""
    whole_ns = sum(to_ns - from_ns for from_ns, to_ns in gaps)
    told = [{"from_ns": from_ns, "to_ns": to_ns} for from_ns, to_ns in gaps[:SPANS_MAX]]
    return {"windows": whole_ns // span.window_ns, "seconds": whole_ns / 10**9, "gpu_seconds": whole_ns / 10**9 * gpus,
            "spans": told, "why": NOT_JUDGED if gaps else ""}  # fmt: skip


def _summed(rows: Iterable[Mapping[str, Any]], total: Mapping[str, float]) -> dict[str, Any]:
    """Sums of rows; `share` is of the job's GPU time, `confidence` the mean over it."""
    found: dict[str, Any] = dict.fromkeys(SUMS, 0.0)
    sure = 0.0
    for row in rows:
        for name in SUMS:
            found[name] += row[name]
        sure += float(row["sure"])
    found["share"] = found["gpu_seconds"] / total["gpu_seconds"] if total["gpu_seconds"] else 0.0
    found["confidence"] = min(1.0, sure / found["gpu_seconds"]) if found["gpu_seconds"] else 0.0
    return found


def _categories(rows: Sequence[Mapping[str, Any]], total: Mapping[str, float]) -> list[dict[str, Any]]:
    """Every category that took time, in the order of `Category`."""
    names = [each.value for each in Category]
    extra = sorted({row["category"] for row in rows} - set(names))
    return [
        {"category": name, **_summed(some, total)}
        for name in [*names, *extra]
        if (some := [row for row in rows if row["category"] == name])
    ]


def _owners(
    rows: Sequence[Mapping[str, Any]], total: Mapping[str, float], config: LedgerConfig
) -> list[dict[str, Any]]:
    """Who took time, by category; who costs most first."""
    keys = sorted({(row["category"], row["owner_name"] or "") for row in rows})
    found = []
    for category, owner in keys:
        some = [row for row in rows if (row["category"], row["owner_name"] or "") == (category, owner)]
        one = _summed(some, total)
        since = [row["since_ns"] for row in some if row["since_ns"] is not None]
        until = [row["until_ns"] for row in some if row["until_ns"] is not None]
        found.append(
            {
                "category": category, "owner": owner or None, **one,
                "lost_cost": _price(one["lost_gpu_seconds"], config),
                "lost_since_ns": min(since, default=None), "lost_until_ns": max(until, default=None),
                "depths": {row["depth"]: row["seconds"] for row in some},
            }
        )  # fmt: skip
    found.sort(key=lambda one: (-one["lost_gpu_seconds"], -one["gpu_seconds"], one["category"], one["owner"] or ""))
    return found if len(found) <= OWNERS_MAX else [*found[: OWNERS_MAX - 1], _rest(found[OWNERS_MAX - 1 :])]


def _takers(owners: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Category and owner of those to whom most was lost."""
    lost = [(one["category"], one["owner"]) for one in owners if one["lost_seconds"] > 0 and one["owner"]]
    return [each for each in lost if each[0] != "several"][:TAKERS_MAX]


def _ranks(owners: Iterable[Mapping[str, Any]]) -> set[str]:
    """Ranks that are owners, or ends of edges that are."""
    parts = {part for one in owners for part in (one["owner"] or "").split(">")}
    return {part for part in parts if kind_of(part) == "rank"}


def _rest(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Owners that are not told one by one, as one, so that sums stay whole."""
    found: dict[str, Any] = {"category": "several", "owner": f"{len(some)} more"}
    for name in (*SUMS, "share"):
        found[name] = sum(one[name] for one in some)
    costs = [one["lost_cost"] for one in some if one["lost_cost"] is not None]
    depths: dict[str, float] = {}
    for one in some:
        for depth, seconds in one["depths"].items():
            depths[depth] = depths.get(depth, 0.0) + seconds
    since = [one["lost_since_ns"] for one in some if one["lost_since_ns"] is not None]
    until = [one["lost_until_ns"] for one in some if one["lost_until_ns"] is not None]
    return found | {
        "confidence": min(one["confidence"] for one in some), "lost_cost": sum(costs) if costs else None,
        "lost_since_ns": min(since, default=None), "lost_until_ns": max(until, default=None), "depths": depths,
    }  # fmt: skip


def _unknown(rows: Sequence[Mapping[str, Any]], missing: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is not known, by the input that is missing; the most first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["category"] == Category.UNKNOWN:
            why = row["owner_name"] or "not known"
            one = found.setdefault(why, {"missing": why, "seconds": 0.0, "gpu_seconds": 0.0})
            one["seconds"] += row["seconds"]
            one["gpu_seconds"] += row["gpu_seconds"]
    if missing["windows"]:
        found[NOT_JUDGED] = {
            "missing": NOT_JUDGED,
            "seconds": missing["seconds"],
            "gpu_seconds": missing["gpu_seconds"],
        }
    return sorted(found.values(), key=lambda one: (-one["seconds"], one["missing"]))


def _depths(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by the input they were told from."""
    found: dict[str, float] = {}
    for row in rows:
        found[row["depth"]] = found.get(row["depth"], 0.0) + row["seconds"]
    return dict(sorted(found.items()))


# --- figures ------------------------------------------------------------------------------------------------------


def goodput(rows: Iterable[Mapping[str, Any]], missing_gpu_seconds: float = 0.0) -> dict[str, Any]:
    """Share of held GPU time that was productive: compute and communication, less what is lost of them.

    What is unknown or was not judged counts as held and not as productive; `ratio_max` is what it would be, had all of
    that been productive. Ratios are None where no GPU time was held.
    """
    held = productive = unknown = 0.0
    for row in rows:
        held += row["gpu_seconds"]
        if row["category"] in PRODUCTIVE:
            productive += row["gpu_seconds"] - row["lost_gpu_seconds"]
        unknown += row["gpu_seconds"] if row["category"] == Category.UNKNOWN else 0.0
    held += missing_gpu_seconds
    unknown += missing_gpu_seconds
    return {
        "productive_gpu_seconds": productive, "held_gpu_seconds": held,
        "ratio": productive / held if held else None,
        "ratio_max": min(1.0, (productive + unknown) / held) if held else None,
    }  # fmt: skip


def _ettr(
    rows: Sequence[Mapping[str, Any]], missing_s: float, failures: Sequence[Mapping[str, Any]],
    checkpoints: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Share of wall time in which the job ran, measured; and what rate, checkpoints and restarts let expect."""
    wall = sum(row["seconds"] for row in rows) + missing_s
    running = sum(row["seconds"] for row in rows if row["category"] in _RUNNING)
    unknown = sum(row["seconds"] for row in rows if row["category"] == Category.UNKNOWN) + missing_s
    told = {"running_seconds": running, "wall_seconds": wall, "ratio": running / wall if wall else None,
            "ratio_max": (running + unknown) / wall if wall else None, **checkpoints}  # fmt: skip
    return told | _expected(rows, wall, unplanned(failures), checkpoints)


def _expected(
    rows: Sequence[Mapping[str, Any]], wall: float, count: int, checkpoints: Mapping[str, Any]
) -> dict[str, Any]:
    """The first-order estimate, or what is missing for it."""
    if not wall:
        return {"expected": None, "best_interval_s": None, "expected_missing": "no time was observed"}
    if checkpoints["interval_s"] is None:
        why = "fewer than two checkpoints were seen (steps with checkpoint_ns)"
        return {"expected": None, "best_interval_s": None, "expected_missing": why}
    rate_per_h = count / (wall / HOUR_S)
    restart = sum(row["seconds"] for row in rows if row["category"] == Category.RESTART)
    restart_h = restart / HOUR_S / count if count else 0.0
    write_h = checkpoints["write_s"] / HOUR_S
    work_h = max(checkpoints["interval_s"] / HOUR_S - write_h, 1e-9)
    best = best_interval_h(write_h, 1 / rate_per_h) * HOUR_S if count else None
    return {"expected": expected_ettr(rate_per_h, work_h, write_h, restart_h), "best_interval_s": best,
            "expected_missing": ""}  # fmt: skip


def unplanned(failures: Iterable[Mapping[str, Any]]) -> int:
    """How many failures nobody asked for."""
    return sum(1 for each in failures if each["class"] != FailureClass.OPERATOR)


def _mttf(failures: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    found = mttf(unplanned(failures), seconds / HOUR_S)
    return {"failures": found.failures, "hours": found.hours, "mean_h": found.mean_h, "low_h": found.low_h,
            "high_h": found.high_h, "text": mttf_words(found.failures, found.hours, found.low_h)}  # fmt: skip


def mttf_words(failures: int, hours: float, low_h: float | None) -> str:
    """What can be said where nothing failed; else empty."""
    if failures or low_h is None:
        return ""
    return f"none seen in {hours:.3g} h: above {low_h:.3g} h (95 %)"


def _price(gpu_seconds: float, config: LedgerConfig) -> float | None:
    return None if config.gpu_hour_price is None else gpu_seconds / HOUR_S * config.gpu_hour_price


def _cost(total: Mapping[str, float] | None, missing_gpu_seconds: float, config: LedgerConfig) -> dict[str, Any]:
    """GPU-hours and money: held (missing windows too) and lost."""
    held = total["gpu_seconds"] + missing_gpu_seconds if total else 0.0
    lost = total["lost_gpu_seconds"] if total else 0.0
    return {
        "gpu_hours": held / HOUR_S, "lost_gpu_hours": lost / HOUR_S, "price": config.gpu_hour_price,
        "currency": config.currency, "total": _price(held, config), "lost": _price(lost, config),
        "how": NO_PRICE if config.gpu_hour_price is None else "",
    }  # fmt: skip
