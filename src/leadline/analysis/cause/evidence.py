"""Evidence: rows of anomalies, events, failures, conflicts, broken expectations, suspects, each with when it began.

A row is a piece of evidence (`Piece`), what rules look at in it is its `Face`. Pieces that an incident was told with
earlier are kept from its own rows, because what began it lies behind the look-back once it has lasted for long.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.cause.traffic import Others
from leadline.model.hardware_codes import xid_words
from leadline.model.incidents import repeated
from leadline.model.metric_words import in_words, metric_words
from leadline.model.units import S

# Probability from which on a suspect of `localise` proves something; below it, flows that suffer for other reasons look
# the same. Raised from 0.6 after sound links had been named. Source: recordings (docs/log.md, 2026-11-23).
SUSPECT_SURE = 0.8
PROBED = frozenset(("edge_fit", "delay"))  # tables of the probe mesh
ENDS = {"link-down": "link-up"}  # events that tell of a state, and what tells that it is over
# Of an open symptom of `burning`: no window (of a minute) has told it for so long, so it is over since; three of them
# and a grace. Source: definition.
STALE_NS = 60 * S


class Face(NamedTuple):
    """What rules look at: the same for many rows, so that each is matched once."""

    table: str
    what: str
    direction: str = ""
    witness: str = ""
    code: str = ""
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One row that may speak for a cause."""

    face: Face
    entity: str
    time_ns: int  # onset, cluster time
    end_ns: int | None
    bound_ns: int | None  # how wrong `time_ns` may be by its clock; None: unknown
    score: float  # of an anomaly: robust standard deviations; of traffic: Mbit/s of others; else 0
    text: str
    earliest_ns: int | None = None  # the onset lies between this and `time_ns`: the last sample that was as it should
    times: int = 1  # how often the same happened to the component; the piece is the most telling of them
    last_ns: int | None = None  # when it happened last, of several

    @property
    def words(self) -> str:
        """Its text, with how often it happened: `link-down: eth0 is down (5 times in 28 s)`."""
        return repeated(self.text, self.times, self.time_ns, self.last_ns)

    @property
    def order(self) -> tuple[Any, ...]:
        """A total order, whatever order rows came in."""
        end_ns = -1 if self.end_ns is None else self.end_ns
        return (self.time_ns, self.entity, self.face, end_ns, -1 if self.bound_ns is None else self.bound_ns, self.text)

    def as_row(self) -> dict[str, object]:
        """As `cause.evidence` tells it."""
        face = {name: value for name, value in self.face._asdict().items() if value and name not in ("table", "what")}
        own = {"table": self.face.table, "entity": self.entity, "what": self.face.what, "time_ns": self.time_ns}
        times = {"until_ns": self.end_ns, "bound_ns": self.bound_ns, "earliest_ns": self.earliest_ns}
        often = {"times": self.times, "last_ns": self.last_ns} if self.times > 1 else {}
        return {**own, **times, **often, "score": round(self.score, 2), **face, "text": self.text}


def pieces_of(
    anomaly: pa.Table,
    event: pa.Table,
    failure: pa.Table,
    conflict: pa.Table,
    sle_loss: pa.Table,
    suspect: pa.Table,
    now_ns: int,
    speaks_of: Callable[[str, str], bool],
    quoted: frozenset[str],
) -> list[Piece]:
    """All evidence of a window, in a fixed order, each once. `speaks_of`: whether any rule looks at it.

    `quoted`: tenants whose messages may be repeated to all who suffer. Of others' rows only the kind is told.
    """
    ends = _ends(event)
    anomaly, event, failure, conflict, sle_loss = (
        _of_rules(rows, name, what, speaks_of)
        for rows, name, what in (
            (anomaly, "anomaly", "metric"),
            (event, "event", "kind"),
            (failure, "failure", "kind"),
            (conflict, "conflict", "kind"),
            (sle_loss, "sle_loss", "metric"),
        )
    )
    found = {
        *_anomalies(anomaly.to_pylist(), now_ns),
        *_events(event.to_pylist(), ends, quoted),
        *_failures(failure.to_pylist(), quoted),
        *_conflicts(conflict.to_pylist()),
        *_losses(sle_loss.to_pylist()),
        *_suspects(suspect.to_pylist(), now_ns),
    }
    return sorted(found, key=lambda piece: piece.order)


def _of_rules(rows: pa.Table, table: str, what: str, speaks_of: Callable[[str, str], bool]) -> pa.Table:
    """Rows whose metric or kind some rule looks at: few of thousands on a bad day."""
    plain = rows[what].cast(pa.string())
    told = [name for name in pc.unique(plain).to_pylist() if name and speaks_of(table, name)]
    return rows.filter(pc.is_in(plain, pa.array(told, pa.string())))


def _anomalies(rows: Iterable[Mapping[str, Any]], now_ns: int) -> Iterable[Piece]:
    for row in rows:
        end_ns = row["end_ns"]
        if end_ns is None and row["seen_ns"] < now_ns - STALE_NS:
            end_ns = row["seen_ns"]
        face = Face("anomaly", row["metric"] or "", row["direction"] or "", row["witness"] or "")
        text = metric_words(face.what, row["seen"], row["expected"], face.witness)
        score, earliest_ns = _finite(row["score"]), row["earliest_ns"]
        yield Piece(face, row["entity"] or "", row["start_ns"], end_ns, row["bound_ns"], score, text, earliest_ns)


def _ends(event: pa.Table) -> dict[tuple[str, str], list[int]]:
    """When what events told of was over, by entity and kind of the event that began it, in order."""
    found: dict[tuple[str, str], list[int]] = {}
    for kind, end in ENDS.items():
        rows = event.filter(pc.equal(event["kind"].cast(pa.string()), end))
        for entity, time_ns in zip(rows["entity"].to_pylist(), rows["time_ns"].to_pylist(), strict=True):
            found.setdefault((entity or "", kind), []).append(time_ns)
    return {whose: sorted(times) for whose, times in found.items()}


def _events(
    rows: Iterable[Mapping[str, Any]], ends: Mapping[tuple[str, str], Sequence[int]], quoted: frozenset[str]
) -> Iterable[Piece]:
    for row in rows:
        face = Face("event", row["kind"] or "", code=row["code"] or "", severity=row["severity"] or "")
        entity = row["entity"] or (f"host:{row['host']}" if row.get("host") else "")
        message = " ".join((row["message"] or "").split())[:160] if row["tenant"] in quoted else ""
        text = _event_words(face) + (f": {message}" if message else "")
        time_ns = row["time_ns"]
        end_ns = _end_ns(time_ns, ends.get((row["entity"] or "", face.what), ())) if face.what in ENDS else time_ns
        yield Piece(face, entity, time_ns, end_ns, row["bound_ns"], 0.0, text)


def _event_words(face: Face) -> str:
    """The kind and code of an event: a code that its vendor names, by that name."""
    if face.what == "xid" and face.code:
        return xid_words(face.code)
    if face.what == "rank-failed" and face.code:
        return "uncaught exception"  # its class, which is the code, begins the message
    return f"{face.what} {face.code}" if face.code else face.what


def _end_ns(time_ns: int, ends: Sequence[int]) -> int | None:
    """The first end after a time; None: it lasts."""
    place = bisect_right(ends, time_ns)
    return ends[place] if place < len(ends) else None


def _failures(rows: Iterable[Mapping[str, Any]], quoted: frozenset[str]) -> Iterable[Piece]:
    for row in rows:
        said = row["evidence"] if row["tenant"] in quoted else ""
        text = " ".join((said or row["kind"] or "").split())[:160]
        yield Piece(
            Face("failure", row["kind"] or ""), row["entity"] or "", row["start_ns"], row["end_ns"], None, 0.0, text
        )


def _conflicts(rows: Iterable[Mapping[str, Any]]) -> Iterable[Piece]:
    for row in rows:
        text = " ".join((row["text"] or row["kind"] or "").split())[:160]
        yield Piece(
            Face("conflict", row["kind"] or ""), row["entity"] or "", row["start_ns"], row["end_ns"], None, 0.0, text
        )


def _losses(rows: Iterable[Mapping[str, Any]]) -> Iterable[Piece]:
    for row in rows:
        start_ns = row["end_ns"] - row["window_ns"]
        entity = row["culprit"] or row["entity"] or ""
        text = f"{in_words(row['classifier'])} for {_number(row['seconds'])} s of {row['window_ns'] / S:g} s"
        yield Piece(Face("sle_loss", row["metric"] or ""), entity, start_ns, row["end_ns"], None, 0.0, text)


def _suspects(rows: Iterable[Mapping[str, Any]], now_ns: int) -> Iterable[Piece]:
    """What localisation names; `loss-perhaps` where it is not sure of the component, `loss-by-probes` where probes
    alone say it: no flow of a job has suffered there."""
    for row in rows:
        told = _told(row["evidence"])
        end_ns = row["end_ns"]
        if end_ns is None and row["seen_ns"] < now_ns - STALE_NS:
            end_ns = row["seen_ns"]
        probability = _finite(row["probability"])
        what = (row["kind"] or "") + ("" if probability >= SUSPECT_SURE else "-perhaps")
        if told and {str(each.get("table", "")) for each in told} <= PROBED:
            what += "-by-probes"
        first = str(told[0].get("text", ""))[:160] if told else ""
        text = f"{first or row['kind'] or ''} (probability {probability:.2f})"
        yield Piece(Face("suspect", what), row["entity"] or "", row["start_ns"], end_ns, None, 0.0, text)


def _told(evidence: str | None) -> list[dict[str, Any]]:
    """The pieces of evidence of a verdict; none where it is not what verdicts have."""
    try:
        rows = json.loads(evidence or "[]")
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def pieces_of_others(found: Iterable[Others], *, names: bool) -> list[Piece]:
    """What others send over links, as evidence: of the job that sends it, else of the link.

    `names`: whether jobs may be named, which may be other tenants'. A flow shows on all its links, and where they are
    full is hard to say from volumes; who sends is not.
    """
    most: dict[str, Piece] = {}
    for others in found:
        named = names and bool(others.jobs)
        who = f"job {others.jobs[0]}" if named else "others"
        entity = f"job:{others.jobs[0]}" if named else others.link
        where = f" on {others.link}" if named else ""
        text = f"traffic of {who}{where}: {others.bps / 1e6:.3g} Mbit/s, {others.share:.0%} of what it carries"
        face = Face("traffic", "job" if named else "others")
        piece = Piece(face, entity, others.since_ns, None, None, others.bps / 1e6, text)
        if entity not in most or most[entity].score < piece.score:
            most[entity] = piece
    return list(most.values())


def remembered(evidence: str) -> list[Piece]:
    """The pieces that an earlier row of `cause` was told with. Nonsense in it is passed over."""
    try:
        rows = json.loads(evidence or "[]")
    except ValueError:
        return []
    found = []
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or type(row.get("time_ns")) is not int:
            continue
        face = Face(*(str(row.get(name, "")) for name in Face._fields))
        until, bound, earliest, score = (row.get(name) for name in ("until_ns", "bound_ns", "earliest_ns", "score"))
        entity, text = (str(row.get(name, "")) for name in ("entity", "text"))
        until_ns, bound_ns, earliest_ns = (each if type(each) is int else None for each in (until, bound, earliest))
        height = _finite(float(score)) if isinstance(score, int | float) else 0.0
        piece = Piece(face, entity, row["time_ns"], until_ns, bound_ns, height, text, earliest_ns)
        often, last = row.get("times"), row.get("last_ns")
        if type(often) is int and often > 1 and type(last) is int:
            piece = replace(piece, times=often, last_ns=last)
        found.append(piece)
    return found


def _finite(value: float | None) -> float:
    return float(value) if value is not None and abs(value) < 1e12 else 0.0


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
