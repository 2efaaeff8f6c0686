"""The analysis `cause`: from what hurts to the component, with the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.cause.components import components_of
from leadline.analysis.cause.context import Book, Context
from leadline.analysis.cause.dead import Out, deaths
from leadline.analysis.cause.evidence import Piece, pieces_of, pieces_of_others
from leadline.analysis.cause.feedback import AllFeedback
from leadline.analysis.cause.incidents import Known, known_of, troubles_of
from leadline.analysis.cause.reach import Ground
from leadline.analysis.cause.rows import Telling
from leadline.analysis.cause.rules import RULES
from leadline.analysis.cause.suppression import OF_KIND
from leadline.analysis.cause.symptoms import SymptomRow, groups_of, symptoms_of
from leadline.analysis.cause.traffic import traffic_of
from leadline.analysis.columns import Bools, ints
from leadline.analysis.graph.topology import Topology
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.ids import kind_of, name_of
from leadline.model.tables.accounts import FAILURE, SLE_LOSS
from leadline.model.tables.fabric import CONFLICT, RELATION, SUSPECT
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.paths import FLOW_PATH, FLOW_VOLUME
from leadline.model.tables.spec import Table
from leadline.model.tables.verdicts import ANOMALY, CAUSE, EVENT, INCIDENT, MARK, SYMPTOM
from leadline.model.units import S

DAY_NS = 86_400 * S  # ns of a day, as 86,400 s. Source: definition.
# How far back one window looks, by what it looks at, since evidence comes later or lasts longer than a symptom. Source:
# judgement.
OVER_NS = 60 * S  # a symptom that is over is looked at for so long: its evidence may come later than it
OPEN_NS = 120 * S  # an open incident that a window told so lately is a reason to judge the next one
EVIDENCE_NS = 600 * S  # evidence so far before the window; older is remembered in the incident's own rows
EVENTS_NS = 1800 * S  # orders (maintenance, drain) are events; those given earlier stand in `failure`
FLOWS_NS = 60 * S  # paths and volumes: some windows of ten seconds before the symptom, to compare with
MEASURED_NS = 2 * 3600 * S  # a host with a sample within two hours has metrics: a shorter gap is no missing input
HISTORY_NS = 30 * DAY_NS  # how faults come back: a month has several of what happens weekly


def _beside(
    table: Table, columns: tuple[str, ...] = (), look_back_ns: int = EVIDENCE_NS, *, valid: bool = False
) -> Read:
    """What helps to judge: no reason to judge a window, and nothing to wait for."""
    return Read(table, columns, look_back_ns, valid, waits=False, calls=False)


_ANOMALY = (
    "entity", "metric", "start_ns", "earliest_ns", "end_ns", "bound_ns", "score", "direction", "witness", "expected",
    "seen", "seen_ns",
)  # fmt: skip
TOLD_AT_START = ("software-version", "run-info", "recompilation", "communicator-init")
# What a job tells of itself within so long after its start is what it is made of, and no change: by then a model is
# loaded and compiled. Source: judgement.
START_NS = 60 * S
# Ranks of a job do not begin at the same moment: what is told so much earlier still counts as told at the start.
# Source: judgement.
TOLD_BEFORE_NS = 5 * S
_BOOK = Book(RULES)
_EVENT = ("tenant", "time_ns", "entity", "kind", "severity", "code", "message", "attributes", "host")
_FLOW_VOLUME = ("tenant", "flow", "link", "job", "end_ns", "window_ns", "bytes")
_FLOW_PATH = ("flow", "job", "src_rank", "dst_rank", "src", "dst", "end_ns")
_SUSPECT = ("entity", "kind", "probability", "start_ns", "end_ns", "evidence", "seen_ns")
_SLE_LOSS = ("entity", "culprit", "metric", "classifier", "seconds", "end_ns", "window_ns")
_CAUSE = ("tenant", "incident", "position", "entity", "rule", "chosen", "start_ns", "evidence", "seen_ns")


@analysis(
    name="cause",
    version=1,
    reads=(
        Read(SYMPTOM, look_back_ns=OVER_NS, valid=True, waits=False),
        _beside(ANOMALY, _ANOMALY, valid=True),
        _beside(EVENT, _EVENT, EVENTS_NS),
        _beside(RELATION, ("child", "parent", "kind", "from_ns", "to_ns"), valid=True),
        _beside(FLOW_PATH, _FLOW_PATH, FLOWS_NS),
        _beside(FLOW_VOLUME, _FLOW_VOLUME, FLOWS_NS),
        _beside(CONFLICT, ("entity", "kind", "start_ns", "end_ns", "text"), valid=True),
        _beside(FAILURE, ("tenant", "entity", "kind", "start_ns", "end_ns", "evidence"), valid=True),
        _beside(SLE_LOSS, _SLE_LOSS),
        _beside(MARK, look_back_ns=400 * DAY_NS),
        _beside(INCIDENT, valid=True),
        _beside(CAUSE, _CAUSE, HISTORY_NS),
        _beside(SERIES, ("entity", "host", "last_ns"), valid=True),
        _beside(SUSPECT, _SUSPECT, valid=True),
        Read(INCIDENT, ("incident", "job", "end_ns"), OPEN_NS, valid=True, waits=False),
    ),
    writes=(INCIDENT, CAUSE),
    window_s=2,
    grace_s=1,
)
def cause(
    symptom: pa.Table,
    anomaly: pa.Table,
    event: pa.Table,
    relation: pa.Table,
    flow_path: pa.Table,
    flow_volume: pa.Table,
    conflict: pa.Table,
    failure: pa.Table,
    sle_loss: pa.Table,
    mark: pa.Table,
    incident: pa.Table,
    cause: pa.Table,
    series: pa.Table,
    suspect: pa.Table,
    lasting: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Why it hurts: incidents with ranked causes, their evidence, and what to do.

    Inputs: symptoms that last or were over within a minute; what may speak for a cause; what earlier windows told.
    Accuracy: docs/analyses/cause.md. Without a component that is likely enough the verdict is `unknown`, with the
    missing input named.
    Source: candidates by dependency as in Groot (Wang et al., ASE 2021); the score is naive Bayes (`score`).
    """
    symptoms = symptoms_of(symptom.to_pylist(), window.to_ns, OVER_NS + window.window_ns)
    if not symptoms and not _is_one_open(lasting):
        return {}
    known = known_of(incident.to_pylist(), cause.to_pylist())
    out = Out(failure.to_pylist())
    feedback = AllFeedback(mark.to_pylist(), _orders(event, failure), window.provider)
    if not symptoms:  # a part is dead, or nobody watches what was open
        return _columns([], known, window, _waiting([], known, out, feedback, window))
    evidence = anomaly, event, failure, conflict, sle_loss, suspect
    context = context_of(symptoms, known, evidence, relation, flow_path, flow_volume, series, window)
    groups = [known.with_past(group) for group in known.rejoined(groups_of(symptoms, window.to_ns))]
    troubles = troubles_of(groups, context, feedback, window.to_ns)
    rows = [Telling(each, known, context, feedback, window, out) for each in troubles]
    return _columns(rows, known, window, _waiting(rows, known, out, feedback, window))


def _is_one_open(incident: pa.Table) -> bool:
    return any(end_ns is None for end_ns in incident["end_ns"].to_pylist())


def _waiting(
    rows: Sequence[Telling], known: Known, out: Out, feedback: AllFeedback, window: Window
) -> list[dict[str, object]]:
    """Open incidents whose symptoms are over, told again while a part is dead; with their end when it is back.

    Those that are open for another reason are told by their symptoms, or nobody watches them.
    """
    told = {each.incident for row in rows for each in known.of(row.trouble.symptoms)}
    found: list[dict[str, object]] = []
    for earlier in known.incidents:
        pieces = known.pieces.get(earlier.incident, [])
        if not earlier.open or earlier.incident in told or not deaths(pieces):
            continue
        over_ns = max((symptom.until_ns(window.to_ns) for symptom in earlier.symptoms), default=earlier.start_ns)
        for row in earlier.rows:
            waived = earlier.incident in feedback.to(row["tenant"]).dismissed
            end_ns = over_ns if waived else out.end_ns(over_ns, pieces, window.to_ns)
            state = "open" if end_ns is None else "over"
            found.append({**row, "state": state, "end_ns": end_ns, "seen_ns": window.to_ns})
    return found


def context_of(
    symptoms: Sequence[SymptomRow],
    known: Known,
    evidence: tuple[pa.Table, ...],
    relation: pa.Table,
    flow_path: pa.Table,
    flow_volume: pa.Table,
    series: pa.Table,
    window: Window,
) -> Context:
    """All that is known of what hurts. evidence: rows of anomaly, event, failure, conflict, sle_loss, suspect."""
    ground = Ground(components_of(relation), traffic_of(flow_path, flow_volume), _measured(series, window))
    tenants = {each.tenant for each in symptoms}
    quoted = frozenset({window.provider} | (tenants if len(tenants) == 1 else set()))
    anomaly, event, failure, conflict, sle_loss, suspect = evidence
    pieces = pieces_of(
        anomaly, _changes(_telling(event), ground.topology), failure, conflict, sle_loss, suspect, window.to_ns,
        _BOOK.speaks_of, quoted,
    )  # fmt: skip
    names = _is_only_tenant(symptoms, flow_volume)
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


def _columns(rows: Sequence[Telling], known: Known, window: Window, waiting: Sequence[dict[str, object]]) -> Verdicts:
    incidents = [row.incident(tenant) for row in rows for tenant in row.tenants]
    causes = [one for row in rows for tenant in row.tenants for one in row.causes(tenant)]
    incidents += [*_absorbed(rows, known, window), *waiting]
    return {
        INCIDENT.name: _turned(incidents, ("tenant", *(each.name for each in INCIDENT.own))),
        CAUSE.name: _turned(causes, ("tenant", *(each.name for each in CAUSE.own))),
    }


def _absorbed(rows: Sequence[Telling], known: Known, window: Window) -> list[dict[str, object]]:
    """Incidents that turned out to be part of an older one: over, so that nobody waits for their end."""
    told = {row.id for row in rows}
    found = []
    for row in rows:
        for earlier in known.of(row.trouble.symptoms)[1:]:
            if earlier.open and earlier.incident not in told:
                told.add(earlier.incident)
                found += [
                    {**each, "state": "over", "end_ns": window.to_ns, "seen_ns": window.to_ns, "missing": None}
                    for each in earlier.rows
                ]
    return found


def _turned(rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> dict[str, list[object]]:
    rows = list(rows)
    return {name: [row[name] for row in rows] for name in names}
