"""Gather: all that is known when causes are looked for, from the tables of a window. The first stage of `cause`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.cause.components import components_of
from leadline.analysis.cause.context import Book, Context
from leadline.analysis.cause.dead import Out
from leadline.analysis.cause.evidence import Piece, pieces_of, pieces_of_others
from leadline.analysis.cause.feedback import AllFeedback
from leadline.analysis.cause.known import Known, known_of
from leadline.analysis.cause.reach import Ground
from leadline.analysis.cause.rules import RULES
from leadline.analysis.cause.suppression import OF_KIND
from leadline.analysis.cause.symptoms import SymptomRow, groups_of
from leadline.analysis.cause.traffic import traffic_of
from leadline.analysis.columns import Bools, ints
from leadline.analysis.graph.topology import Topology
from leadline.analysis.spec import Window
from leadline.model.ids import kind_of, name_of
from leadline.model.units import S

# A host with a sample within two hours has metrics: a shorter gap is no missing input. Source: judgement.
MEASURED_NS = 2 * 3600 * S
TOLD_AT_START = ("software-version", "run-info", "recompilation", "communicator-init")
# What a job tells of itself within so long after its start is what it is made of, and no change: by then a model is
# loaded and compiled. Source: judgement.
START_NS = 60 * S
# Ranks of a job do not begin at the same moment: what is told so much earlier still counts as told at the start.
# Source: judgement.
TOLD_BEFORE_NS = 5 * S
_BOOK = Book(RULES)


class Beside(NamedTuple):
    """The tables in which causes are looked for, as `cause` reads them."""

    anomaly: pa.Table
    event: pa.Table
    failure: pa.Table
    conflict: pa.Table
    sle_loss: pa.Table
    suspect: pa.Table
    relation: pa.Table
    flow_path: pa.Table
    flow_volume: pa.Table
    series: pa.Table

    def none(self) -> Beside:
        """The same without rows."""
        return Beside(*(table.slice(0, 0) for table in self))


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that is known in a window."""

    groups: tuple[tuple[SymptomRow, ...], ...]  # symptoms that plainly are of one incident
    known: Known  # what earlier windows reported
    feedback: AllFeedback
    out: Out
    context: Context
    window: Window


def gather(
    symptoms: Sequence[SymptomRow], incident: pa.Table, cause: pa.Table, mark: pa.Table, beside: Beside, window: Window
) -> Gathered:
    """What is known of the symptoms of a window."""
    known = known_of(incident.to_pylist(), cause.to_pylist())
    feedback = AllFeedback(mark.to_pylist(), _orders(beside.event, beside.failure), window.provider)
    out = Out(beside.failure.to_pylist())
    # Without symptoms a part is dead, or nobody watches what was open: nothing is explained.
    context = context_of(symptoms, known, beside if symptoms else beside.none(), window)
    groups = known.rejoined(groups_of(symptoms, window.to_ns))
    return Gathered(tuple(known.with_past(group) for group in groups), known, feedback, out, context, window)


def context_of(symptoms: Sequence[SymptomRow], known: Known, beside: Beside, window: Window) -> Context:
    """What stands on what, and the evidence."""
    measured = _measured(beside.series, window)
    ground = Ground(components_of(beside.relation), traffic_of(beside.flow_path, beside.flow_volume), measured)
    tenants = {each.tenant for each in symptoms}
    quoted = frozenset({window.provider} | (tenants if len(tenants) == 1 else set()))
    pieces = pieces_of(
        beside.anomaly, _changes(_telling(beside.event), ground.topology), beside.failure, beside.conflict,
        beside.sle_loss, beside.suspect, window.to_ns, _BOOK.speaks_of, quoted,
    )  # fmt: skip
    names = _is_only_tenant(symptoms, beside.flow_volume)
    return Context(
        ground, _all_pieces(pieces, symptoms, known, ground, names), _BOOK, window.to_ns, _before(symptoms, known),
        ground.traffic.jobs() if names else frozenset(),
    )  # fmt: skip


def _measured(series: pa.Table, window: Window) -> frozenset[str]:
    """Hosts that metrics are told of; when one was told last is brought up to date once an hour."""
    recent_N = ints(series, "last_ns") > window.to_ns - MEASURED_NS
    named = {f"host:{name}" for name in _used(series["host"], recent_N)}
    return frozenset(named | {name for name in _used(series["entity"], recent_N) if kind_of(name) == "host"})


def _used(column: pa.ChunkedArray, rows_N: Bools) -> set[str]:
    """The texts of some rows: of hundreds of thousands of metrics few are different."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    found: set[str] = set()
    begin = 0
    for chunk in column.chunks:
        code_N = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        used = np.zeros(len(chunk.dictionary) + 1, bool)
        used[code_N[rows_N[begin : begin + len(chunk)]]] = True  # null falls on the last place
        begin += len(chunk)
        found.update(name for name in chunk.dictionary.filter(pa.array(used[:-1])).to_pylist() if name)
    return found


def _telling(event: pa.Table) -> pa.Table:
    """Events without lines of logs below a warning."""
    logs = pc.equal(event["kind"].cast(pa.string()), "log")
    quiet = pc.is_in(event["severity"].cast(pa.string()), pa.array(["", "debug", "info"]))
    return event.filter(pc.invert(pc.and_(logs, quiet)))


def _changes(event: pa.Table, topology: Topology) -> pa.Table:
    """The events without what every job tells of itself when it begins, or begins again.

    What it tells then is a change only if it told something else before.
    """
    kind = event["kind"].cast(pa.string())
    rows_M = np.flatnonzero(pc.is_in(kind, pa.array(TOLD_AT_START)).to_numpy(zero_copy_only=False))
    told = sorted(
        (row["time_ns"], row["entity"] or "", row["kind"], row["message"] or "", place)
        for place, row in zip(rows_M.tolist(), event.take(pa.array(rows_M)).to_pylist(), strict=True)
        if kind_of(row["entity"] or "") in ("rank", "job")
    )
    starts: dict[str, set[int]] = {}
    for time_ns, entity, what, *_ in told:
        if what == "run-info":
            starts.setdefault(_job_of(entity), set()).add(time_ns)
    before: dict[tuple[str, str], str] = {}
    kept = np.ones(event.num_rows, bool)
    for time_ns, entity, what, message, place in told:
        is_same = before.get((entity, what), message) == message
        kept[place] = not (is_same and _at_start(time_ns, _job_of(entity), starts, topology))
        before[entity, what] = message
    return event.filter(pa.array(kept))


def _at_start(time_ns: int, job: str, starts: Mapping[str, Iterable[int]], topology: Topology) -> bool:
    began_ns = topology.began_ns(job)
    known = [*starts.get(job, ()), *([began_ns] if began_ns is not None else [])]
    return any(start - TOLD_BEFORE_NS <= time_ns < start + START_NS for start in known)


def _job_of(entity: str) -> str:
    """The job of `rank:bert/3`, and of itself."""
    name = name_of(entity)
    return f"job:{name.rpartition('/')[0] or name}"


def _is_only_tenant(symptoms: Sequence[SymptomRow], flow_volume: pa.Table) -> bool:
    """Whether all jobs with flows are of the one tenant that suffers: of others' not even the names are told to it."""
    theirs = pc.unique(flow_volume.filter(pc.is_valid(flow_volume["job"]))["tenant"]).to_pylist()
    return len({each.tenant for each in symptoms} | set(theirs)) == 1


def _all_pieces(
    pieces: Sequence[Piece], symptoms: Sequence[SymptomRow], known: Known, ground: Ground, names: bool
) -> list[Piece]:
    """Evidence of now, what earlier windows told these incidents with, and what others send over the jobs' links."""
    found: dict[Piece, None] = dict.fromkeys(pieces)
    here = {(piece.face.table, piece.face.what, piece.entity) for piece in pieces}
    for earlier in known.of(symptoms):
        for piece in known.pieces.get(earlier.incident, ()):
            if (piece.face.table, piece.face.what, piece.entity) not in here:
                found[piece] = None
    for job in sorted({(each.job, each.start_ns) for each in symptoms if each.job}):
        found |= dict.fromkeys(pieces_of_others(ground.traffic.others(f"job:{job[0]}", job[1]), names=names))
    return sorted(found, key=lambda piece: piece.order)


def _before(symptoms: Sequence[SymptomRow], known: Known) -> frozenset[tuple[str, str]]:
    return frozenset(named for each in known.of(symptoms) for named in known.named.get(each.incident, ()))


def _orders(event: pa.Table, failure: pa.Table) -> list[Mapping[str, object]]:
    """What operators and schedulers asked for: by events, and by failures of that kind, which are older orders."""
    wanted = pa.array([*OF_KIND, *(f"{kind}-end" for kind in OF_KIND), "host-ready"])
    rows: list[Mapping[str, object]] = event.filter(pc.is_in(event["kind"].cast(pa.string()), wanted)).to_pylist()
    known = {(row["entity"], row["kind"], row["time_ns"]) for row in rows}
    for row in failure.to_pylist():
        if row["kind"] in OF_KIND and (row["entity"], row["kind"], row["start_ns"]) not in known:
            until = {"until_ns": str(row["end_ns"])} if row["end_ns"] is not None else {}
            told = {"time_ns": row["start_ns"], "entity": row["entity"], "kind": row["kind"]}
            rows.append({**told, "attributes": until, "tenant": row["tenant"]})
    return rows
