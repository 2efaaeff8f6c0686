"""Telemetry that ends though nobody ended it: which senders are not heard any more, and whose jobs are not seen.

A job whose telemetry ends does not stand still: nobody knows how it is. Senders that fall silent together share what
broke, so they are one symptom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from leadline.analysis.spec import Read, S, Verdicts, Window, analysis
from leadline.analysis.symptoms.spans import (
    EVIDENCE_MAX,
    NEAR_NS,
    Blame,
    Evidence,
    Told,
    columns_of,
    tenant_of,
    told_before,
)
from leadline.model.incidents import Symptom
from leadline.model.tables.fabric import WATERMARK
from leadline.model.tables.verdicts import SYMPTOM

STATES_NS = 10 * S  # The server says how each sender is every 5 s, so the newest of two is taken. Source: definition.
# Senders heard last so near each other fell silent together: each says something every 5 s at least, and the way to the
# server may take as long before it fails. Source: definition.
TOGETHER_NS = 10 * S
# A host that is not heard for a day was taken away: its silence is no symptom any more. Source: judgement.
KNOWN_NS = 24 * 3600 * S
NAMED_MAX = 4  # hosts or jobs that a sentence names, so that it stays readable. Source: bound.
LOST = "lost"


@dataclass(frozen=True, slots=True)
class _Sender:
    tenant: str
    host: str
    name: str
    heard_ns: int
    jobs: tuple[tuple[str, int], ...]  # with their ranks there


@analysis(
    name="telemetry",
    version=1,
    reads=(
        Read(
            WATERMARK,
            columns=("tenant", "cluster", "host", "reported_ns", "sender", "job", "ranks", "state", "heard_ns"),
            look_back_ns=STATES_NS,
            waits=False,
        ),
        Read(SYMPTOM, valid=True, look_back_ns=KNOWN_NS, waits=False, calls=False),
    ),
    writes=(SYMPTOM,),
    window_s=5,
    grace_s=1,
)
def telemetry(watermark: pa.Table, symptom: pa.Table, *, window: Window) -> Verdicts:
    """Senders that are not heard any more, though their hosts or jobs have not ended.

    Told are those that the server has not heard for 15 s (`state` lost in its own rows); those that it heard last
    within 10 s of each other are one symptom, of their host, or of the cluster where they are several. It is over when
    none of them is lost any more. Nothing is told of a time in which the server itself was away.
    Accuracy: a sender that is silent for less than 15 s is never told; one that is silent for longer is told 20 s after
    its last word at the latest, plus the time that judging takes.
    """
    lost = _lost(watermark, window)
    rows: list[tuple[str, Told]] = []
    told_starts: dict[str, list[int]] = {}
    for each in told_before(symptom, (Symptom.TELEMETRY_LOST,), None, window):
        tenant = tenant_of(symptom, each)
        if each.end_ns is None:
            told_starts.setdefault(tenant, []).append(each.start_ns)
            mine = [one for one in lost if one.tenant == tenant and _with(one, each.start_ns)]
            rows.append((tenant, _told(mine, each.start_ns, each, window) if mine else _back(each, window)))
    for tenant in sorted({each.tenant for each in lost}):
        new = [
            each
            for each in lost
            if each.tenant == tenant and not any(_with(each, at) for at in told_starts.get(tenant, ()))
        ]
        rows += [(tenant, _told(group, group[0].heard_ns, None, window)) for group in _together(new)]
    return {"symptom": _columns(rows, window)}


def _lost(watermark: pa.Table, window: Window) -> list[_Sender]:
    """The senders that are lost by the newest word of the server, in the order in which they were heard last."""
    newest: dict[tuple[str, str, str], int] = {}
    jobs: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in watermark.to_pylist():
        key = (row["tenant"] or "", row["host"] or "", row["sender"] or "")
        heard_ns = row["heard_ns"]
        if heard_ns is None or not 0 < heard_ns < NEAR_NS or not key[1] or row["reported_ns"] < newest.get(key, 0):
            continue
        if row["reported_ns"] > newest.get(key, 0):
            newest[key], jobs[key] = row["reported_ns"], {}
        jobs[key][row["job"] or ""] = row
    found = []
    for key, rows in jobs.items():
        heard_ns = min(row["heard_ns"] for row in rows.values())
        if all(row["state"] == LOST for row in rows.values()) and heard_ns < window.to_ns:
            of = tuple((job, max(0, rows[job]["ranks"] or 0)) for job in sorted(rows) if job)
            found.append(_Sender(*key, heard_ns, of))
    return sorted(found, key=lambda each: (each.heard_ns, each.tenant, each.host, each.name))


def _with(sender: _Sender, start_ns: int) -> bool:
    return start_ns <= sender.heard_ns <= start_ns + TOGETHER_NS


def _together(lost: Sequence[_Sender]) -> list[list[_Sender]]:
    groups: list[list[_Sender]] = []
    for each in lost:
        if groups and _with(each, groups[-1][0].heard_ns):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _told(senders: Sequence[_Sender], start_ns: int, known: Told | None, window: Window) -> Told:
    hosts = sorted({each.host for each in senders})
    jobs = sorted({job for each in senders for job, _ in each.jobs})
    entity = (
        known.entity if known is not None else f"host:{hosts[0]}" if len(hosts) == 1 else f"cluster:{window.cluster}"
    )
    evidence = [Evidence("watermark", entity, LOST, start_ns, None, _words(senders, hosts, jobs))]
    evidence += [
        Evidence("watermark", f"host:{each.host}", each.name, each.heard_ns, None, _of_one(each))
        for each in senders
        if len(senders) > 1
    ]
    return Told(
        entity, jobs[0] if len(jobs) == 1 else None, Symptom.TELEMETRY_LOST, start_ns, None,
        known.reported_ns if known is not None else window.to_ns,
        blamed=(Blame(entity, "silent", "watermark", 0.0, start_ns),),
        missing=f"telemetry of {', '.join(f'job {job}' for job in jobs)}" if jobs else None,
        evidence=tuple(evidence[:EVIDENCE_MAX]),
    )  # fmt: skip


def _words(senders: Sequence[_Sender], hosts: Sequence[str], jobs: Sequence[str]) -> str:
    """Who is silent, in words: the sender that they share first."""
    names = sorted({each.name for each in senders})
    who = names[0] if len(names) == 1 else " and ".join(names)
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts ({_some(hosts)})"
    of = f"; not known since then: {_some([f'job {job}' for job in jobs])}" if jobs else ""
    return f"nothing from {who} of {where}{of}"


def _of_one(sender: _Sender) -> str:
    ranks = sum(count for _, count in sender.jobs)
    return f"nothing from {sender.name} of {sender.host}" + (f", where {ranks} ranks run" if ranks else "")


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _back(known: Told, window: Window) -> Told:
    return replace(known, end_ns=max(window.from_ns, known.start_ns))


def _columns(rows: Sequence[tuple[str, Told]], window: Window) -> dict[str, list[Any]]:
    columns = columns_of([told for _, told in rows], window)
    of = {(told.entity, told.start_ns, told.symptom): tenant for tenant, told in rows}
    keys = zip(columns["entity"], columns["start_ns"], columns["symptom"], strict=True)
    return {**columns, "tenant": [of[key] or window.tenant for key in keys]}
