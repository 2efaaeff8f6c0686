"""The analysis `cause`: from symptoms to the component, with the evidence. One way, five stages:

tables ─ gather ─> what is known ─ explain ─> what could be why ─ score ─> how likely it is ─┐
                                   └ of symptoms that are one incident                      │
            rows <─ report ─ incidents <─ choose: what is named; where two name one cause, ─┘
                                          they are one incident, from `explain` on

No stage knows a later one; each takes values and returns values.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from leadline.analysis.cause.choose import Trouble, choose
from leadline.analysis.cause.explain import explain
from leadline.analysis.cause.gather import Beside, gather
from leadline.analysis.cause.incidents import together
from leadline.analysis.cause.report import report
from leadline.analysis.cause.score import score
from leadline.analysis.cause.symptoms import SymptomRow, symptoms_of
from leadline.analysis.colocation.edges import COLUMNS as MACHINE_COLUMNS
from leadline.analysis.colocation.edges import with_machines
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables.accounts import FAILURE, SLE_LOSS
from leadline.model.tables.fabric import COLOCATION, CONFLICT, RELATION, SUSPECT
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
        _beside(COLOCATION, MACHINE_COLUMNS, valid=True),
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
    colocation: pa.Table,
    lasting: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Why symptoms are there: incidents with ranked causes, their evidence, and what to do.

    Inputs: symptoms that last or were over within a minute; what may speak for a cause; what earlier windows told.
    Accuracy: docs/analyses/cause.md. Without a component that is likely enough the verdict is `unknown`, with the
    missing input named.
    Source: candidates by dependency as in Groot (Wang et al., ASE 2021); the score is naive Bayes (`score`).
    """
    symptoms = symptoms_of(symptom.to_pylist(), window.to_ns, OVER_NS + window.window_ns)
    if not symptoms and None not in lasting["end_ns"].to_pylist():
        return {}
    beside = Beside(
        anomaly, event, failure, conflict, sle_loss, suspect, with_machines(relation, colocation), flow_path,
        flow_volume, series,
    )  # fmt: skip
    gathered = gather(symptoms, incident, cause, mark, beside, window)
    context, feedback = gathered.context, gathered.feedback

    def judged(symptoms: Sequence[SymptomRow]) -> Trouble:
        return choose(score(explain(symptoms, context), context), context, feedback)

    return report(together(gathered.groups, judged, context.ground.topology, window.to_ns), gathered)
