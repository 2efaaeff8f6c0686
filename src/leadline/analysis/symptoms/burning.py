"""Expectations that burn their error budget on entities where no job is known to suffer.

sle (minutes), sle_loss (bad seconds of hours) ──> burn rates over a short and a long window, both too high
symptom, relation ──> entities that ranks of a suffering job stand on: told there already
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import codes, floats, ints
from leadline.analysis.spec import Read, S, Verdicts, Window, analysis
from leadline.analysis.symptoms.spans import Blame, Evidence, Told, columns_of, tenant_of, told_before
from leadline.model.ids import ENTITY_KINDS, EntityId, kind_of, name_of
from leadline.model.incidents import Symptom
from leadline.model.tables.accounts import SLE, SLE_LOSS
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.verdicts import SYMPTOM

MINUTE_NS = 60 * S  # ns of a minute, as 60 s. Source: definition.
HOUR_NS = 3600 * S  # ns of an hour, as 3,600 s. Source: definition.


@dataclass(frozen=True, slots=True)
class Burn:
    """Two windows and how many times too fast the budget must burn in both of them."""

    long_ns: int
    short_ns: int
    rate: float


# Times that the budget burns too fast: 2 % of a month's budget in an hour, 5 % in six; the short window, a twelfth,
# ends it soon after. Source: textbook: Google, The Site Reliability Workbook (2018), chapter 5, table 5-8.
BURNS = (Burn(HOUR_NS, 5 * MINUTE_NS, 14.4), Burn(6 * HOUR_NS, 30 * MINUTE_NS, 6.0))
# Share of a window that must be bad at most, because an objective of 0.9 cannot burn 14.4 times too fast: it would need
# more than the whole window. Source: judgement.
SHARE_MAX = 0.9
# Share of the short window that must be bad at least: an objective of 0.9999 burns from one second on, and single
# seconds are noise. Source: judgement.
SHARE_MIN = 0.5
# minutes of which none is bad, and it is over: the short window of the faster burn, so that nothing in it burns.
# Source: definition.
BACK_MINUTES = 5
EVIDENCE_MAX = 3  # rows of evidence told with a symptom, so that it stays readable. Source: bound.
# ns; symptoms of jobs so long before the window are read, to name those that suffer: as long as windows are judged
# again for late rows. Source: judgement.
SUFFER_NS = 600 * S


@analysis(
    name="burning",
    version=1,
    reads=(
        Read(
            SLE,
            columns=("tenant", "expectation", "layer", "entity", "end_ns", "window_ns", "good_s", "bad_s", "objective"),
            look_back_ns=4 * MINUTE_NS,
        ),
        Read(
            SLE_LOSS,
            columns=(
                "tenant", "expectation", "entity", "end_ns", "window_ns", "classifier", "metric", "culprit", "seconds",
            ),
            look_back_ns=6 * HOUR_NS - MINUTE_NS,
            calls=False,
        ),
        Read(RELATION, columns=("tenant", "child", "parent", "kind", "from_ns", "to_ns"), valid=True,
             look_back_ns=SUFFER_NS, waits=False, calls=False),
        Read(SYMPTOM, valid=True, look_back_ns=6 * HOUR_NS, waits=False, calls=False),
    ),
    writes=(SYMPTOM,),
    window_s=60,
)  # fmt: skip
def burning(sle: pa.Table, sle_loss: pa.Table, relation: pa.Table, symptom: pa.Table, *, window: Window) -> Verdicts:
    """Expectations that burn their budget where no job is known to suffer yet.

    A burn: in an hour and in its last five minutes the budget burns 14.4 times too fast, or in six hours and their last
    half an hour 6 times; and more than half of the short window is bad. Over after five minutes without a bad second.
    Source: multi-window burn rates as in Google, The Site Reliability Workbook (2018), chapter 5.
    """
    bad = _bad(sle_loss, window)
    suffering = _suffering(symptom, relation, window)
    objective = _objectives(sle)
    before = [each for each in told_before(symptom, (Symptom.SLE,), None, window) if each.end_ns is None]
    known = {
        (tenant_of(symptom, each), each.entity, each.evidence[0].what if each.evidence else ""): each for each in before
    }
    rows: list[tuple[str, Told]] = []
    for key in sorted(bad.keys() | known.keys()):
        tenant, entity, _ = key
        told = _goes_on(known[key], bad.get(key), window) if key in known else None
        if told is None and key not in known and (tenant, entity) not in suffering:
            told = _new(key, bad[key], objective, window)
        if told is not None:
            rows.append((tenant, told))
    return {"symptom": _columns(rows, window)}


Key = tuple[str, str, str]  # tenant, entity, expectation


@dataclass(frozen=True, slots=True)
class _Bad:
    """Bad minutes of an expectation: ends in order, ns, and bad seconds of each; what made the newest bad, in words."""

    end_ns: tuple[int, ...]
    seconds: tuple[float, ...]
    why: tuple[tuple[str, str, str], ...]  # classifier, metric, culprit

    def share(self, span_ns: int, window: Window) -> float:
        """Share of the last `span_ns` that was bad."""
        since_ns = window.to_ns - span_ns
        bad_s = sum(s for end, s in zip(self.end_ns, self.seconds, strict=True) if end > since_ns)
        return min(bad_s * S / span_ns, 1.0)


def _bad(loss: pa.Table, window: Window) -> dict[Key, _Bad]:
    """Bad minutes by expectation; hours, which are made of them, are left out."""
    end_N, length_N, seconds_N = ints(loss, "end_ns"), ints(loss, "window_ns"), floats(loss, "seconds")
    keep_N = (length_N == MINUTE_NS) & (end_N > 0) & (end_N <= window.to_ns) & (seconds_N > 0) & (seconds_N <= 60)
    minutes: dict[Key, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    why: dict[Key, set[tuple[int, str, str, str]]] = defaultdict(set)
    rows = loss.filter(pa.array(keep_N)).to_pylist()
    for row in sorted(
        rows, key=lambda row: (row["end_ns"], row["classifier"], row["metric"], row["culprit"], row["seconds"])
    ):
        key = (row["tenant"] or "", row["entity"], row["expectation"])
        if kind_of(key[1]) not in ENTITY_KINDS or not name_of(key[1]):
            continue
        minutes[key][row["end_ns"]] += row["seconds"]
        why[key].add((-row["end_ns"], row["classifier"], row["metric"], row["culprit"]))
    return {
        key: _Bad(tuple(sorted(of)), tuple(min(of[end], 60.0) for end in sorted(of)),
                  tuple(each[1:] for each in sorted(why[key])[:EVIDENCE_MAX]))
        for key, of in minutes.items()
    }  # fmt: skip


def _objectives(sle: pa.Table) -> dict[str, float]:
    """Objective by expectation, the strictest that the minutes tell."""
    name, value_N = codes(sle, "expectation"), floats(sle, "objective")
    found = np.zeros(len(name.names))
    keep_N = (name.code_N >= 0) & (value_N > 0) & (value_N < 1)
    np.maximum.at(found, name.code_N[keep_N], value_N[keep_N])
    return {name.names[place]: float(found[place]) for place in np.flatnonzero(found > 0)}


def _suffering(symptom: pa.Table, relation: pa.Table, window: Window) -> set[tuple[str, str]]:
    """Entities where a job that suffers stands, with each tenant: the job, its ranks, hosts and their parts."""
    jobs = set()
    for row in symptom.to_pylist():
        over = row["end_ns"] is not None and row["end_ns"] < window.from_ns - SUFFER_NS
        if row["job"] and row["symptom"] != Symptom.SLE and row["start_ns"] < window.to_ns and not over:
            jobs.add(row["job"])
    if not jobs:
        return set()
    child = relation["child"].cast(pa.string())
    of_rank = relation.filter(pc.fill_null(pc.starts_with(child, "rank:"), False))
    found = {f"job:{job}" for job in jobs}
    for row in of_rank.select(["child", "parent"]).to_pylist():
        if EntityId.of(row["child"]).holder in jobs:
            found |= {row["child"], row["parent"]}
    tenants = {tenant or "" for tenant in relation["tenant"].to_pylist()} | {window.tenant}
    hosts = {each for each in found if kind_of(each) == "host"}
    for row in relation.filter(
        pc.fill_null(pc.is_in(relation["parent"].cast(pa.string()), pa.array(sorted(hosts), pa.string())), False)
    ).to_pylist():
        found.add(row["child"])
    return {(tenant, entity) for tenant in tenants for entity in found}


def _new(key: Key, bad: _Bad, objectives: dict[str, float], window: Window) -> Told | None:
    """A burn that begins to be told now; None: the budget holds, or the objective is not known."""
    _, entity, expectation = key
    objective = objectives.get(expectation)
    if objective is None or window.to_ns - bad.end_ns[-1] >= BACK_MINUTES * MINUTE_NS:
        return None
    burn = next((each for each in BURNS if _burns(bad, each, 1 - objective, window)), None)
    if burn is None:
        return None
    since_ns = _first_of_run(bad, window)
    job = name_of(entity) if kind_of(entity) == "job" else None
    told = Told(entity, job, Symptom.SLE, since_ns, None, window.to_ns)
    return _row(told, expectation, bad, f"burns its budget more than {burn.rate:g} times too fast", window)


def _burns(bad: _Bad, burn: Burn, budget: float, window: Window) -> bool:
    needed = min(burn.rate * budget, SHARE_MAX)
    short = bad.share(burn.short_ns, window)
    return bad.share(burn.long_ns, window) >= needed and short >= max(needed, SHARE_MIN)


def _first_of_run(bad: _Bad, window: Window) -> int:
    """Begin of the first bad minute after which none was good for as long as it takes to be over."""
    since_ns = bad.end_ns[-1]
    for end_ns in reversed(bad.end_ns):
        if since_ns - end_ns > BACK_MINUTES * MINUTE_NS:
            break
        since_ns = end_ns
    return min(max(since_ns - MINUTE_NS, 1), window.to_ns - 1)


def _goes_on(told: Told, bad: _Bad | None, window: Window) -> Told:
    """A burn that was told: over when nothing was bad for five minutes."""
    name = told.evidence[0].what if told.evidence else ""
    last_ns = max((end for end in bad.end_ns), default=told.start_ns) if bad is not None else told.start_ns
    if window.to_ns - last_ns >= BACK_MINUTES * MINUTE_NS:
        return replace(told, end_ns=max(last_ns, told.start_ns))
    text = told.evidence[0].text.partition(": ")[2].partition("; ")[0] if told.evidence else ""
    return _row(told, name, bad, text, window) if bad is not None else told


def _row(told: Told, expectation: str, bad: _Bad, text: str, window: Window) -> Told:
    """No GPU time is known to be lost: whose would it be."""
    bad_s = sum(s for end, s in zip(bad.end_ns, bad.seconds, strict=True) if end > told.start_ns)
    share = min(bad_s * S / max(window.to_ns - told.start_ns, 1), 1.0)
    said = Evidence("sle", told.entity, expectation, told.start_ns, None,
                    f"{expectation}: {text}; {bad_s:.0f} bad seconds since it began")  # fmt: skip
    causes = [
        Evidence("sle_loss", culprit, metric, bad.end_ns[-1] - MINUTE_NS, None, classifier)
        for classifier, metric, culprit in bad.why
    ]
    owners = dict.fromkeys(culprit for *_, culprit in bad.why if kind_of(culprit) in ENTITY_KINDS)
    blamed = tuple(Blame(owner, expectation, "sle", 0.0, told.start_ns) for owner in owners or [told.entity])
    return replace(told, lost_share=share, blamed=blamed, evidence=(said, *causes))


def _columns(rows: list[tuple[str, Told]], window: Window) -> dict[str, list[object]]:
    """Rows of all tenants. Of several expectations of an entity that began to burn in one minute the first is told."""
    kept = {(tenant, told.entity, told.start_ns): (tenant, told) for tenant, told in reversed(rows)}
    found: dict[str, list[object]] = columns_of([], window)
    found["tenant"] = []
    for key in sorted(kept):
        tenant, told = kept[key]
        for name, values in columns_of([told], window).items():
            found[name] += values
        found["tenant"].append(tenant or window.tenant)
    return found
