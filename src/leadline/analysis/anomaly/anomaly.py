"""Anomalies: metrics outside their own past or their peers, window by window, cluster by cluster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from leadline.analysis.anomaly.kinds import Way, metric_kind
from leadline.analysis.anomaly.peers import Roles, groups_of, ran_on, roles_of, since_of, turns
from leadline.analysis.anomaly.profile_rows import PROFILE_NAMES, Profiles, profile_columns
from leadline.analysis.anomaly.recurring import without_recurring
from leadline.analysis.anomaly.scores import Scored, scored
from leadline.analysis.anomaly.silence import METRIC as SILENT
from leadline.analysis.anomaly.silence import silences
from leadline.analysis.anomaly.spans import Span, known_spans, mask_of, rows_by_name, spans_now
from leadline.analysis.anomaly.streams import Streams, collective_streams, metric_streams, step_streams, with_derived
from leadline.analysis.anomaly.together import METRIC as TOGETHER
from leadline.analysis.anomaly.together import together
from leadline.analysis.columns import Ints
from leadline.analysis.spec import Read, S, Verdicts, Window, analysis
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of, parse_entity_id
from leadline.model.tables.accounts import PROFILE
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import ANOMALY, EVENT

LOOK_BACK_NS = 180 * S
KNOWN_NS = 2 * 3600 * S  # spans so far back are looked at: open ones end after an hour, and what recurs is in them
PROFILE_NS = 300 * S  # a profile that was not told for so long is lost, and begun anew
TOLD_MAX = 64
"""Metrics that are told of one entity in one window: what should never happen first, then what was told before, then
what is furthest out. How many more there are is told as `anomaly.left_out`."""
LEFT_OUT, TOO_MANY = "anomaly.left_out", "reason=too-many-metrics"
_STEP = (
    "tenant", "host", "job", "rank", "start_ns", "end_ns", "data_ns", "forward_ns", "backward_ns", "optimizer_ns",
    "checkpoint_ns", "samples", "tokens",
)  # fmt: skip
_SERIES = ("tenant", "series", "name", "entity", "labels", "type", "host", "first_ns")


@analysis(
    name="anomaly",
    version=1,
    reads=(
        Read(SERIES, columns=_SERIES, valid=True),
        Read(METRIC_SAMPLE, columns=("tenant", "series", "time_ns", "value"), look_back_ns=LOOK_BACK_NS),
        Read(STEP, columns=_STEP, look_back_ns=LOOK_BACK_NS),
        Read(
            COLLECTIVE,
            columns=("tenant", "host", "job", "comm", "rank", "seq", "enqueued_ns"),
            look_back_ns=LOOK_BACK_NS,
        ),
        Read(EVENT, columns=("time_ns", "kind", "code", "entity"), look_back_ns=LOOK_BACK_NS, calls=False),
        Read(RELATION, columns=("child", "parent", "kind", "from_ns", "to_ns"), look_back_ns=LOOK_BACK_NS, valid=True),
        Read(ANOMALY, look_back_ns=KNOWN_NS, valid=True, waits=False, calls=False),
        Read(PROFILE, columns=PROFILE_NAMES, look_back_ns=PROFILE_NS, waits=False, calls=False),
    ),
    writes=(ANOMALY, PROFILE),
    window_s=5,
    grace_s=2,
)
def anomalies(
    series: pa.Table,
    sample: pa.Table,
    step: pa.Table,
    collective: pa.Table,
    event: pa.Table,
    relation: pa.Table,
    anomaly: pa.Table,
    profile: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Which metrics are outside their own past or their peers, since when, and how far.

    Inputs: metric samples, steps and collectives of the window and 180 s before it; spans that earlier windows told;
    profiles of entities, in which earlier windows wrote what is usual of them over hours.
    Returns: one row for each entity, metric, witness and span of which the window has something to say; and the
    profiles whose turn it is, with the bins since they were last written.
    Accuracy: the change lies between `earliest_ns` and `start_ns`, which are one sample apart. False alarms: see
    docs/analyses/anomaly.md for what was measured.
    Source: median and MAD: Leys et al. 2013; tail by peaks over threshold: Siffer et al., KDD'17; peers as witness:
    Deb et al., "Minder" (NSDI'25), section 4.
    """
    looked = looked_at(series, sample, step, collective, event, relation, anomaly, profile, window=window)
    if looked is None:
        return {}
    spans = _spans(looked, window.to_ns)
    learnt = looked.profiles.learnt(looked.streams, looked.scored)
    return {
        "anomaly": _columns([each for each in spans if _is_id(each.entity)], window),
        "profile": profile_columns([each for each in learnt if _is_id(each.entity)], window),
    }


@dataclass(frozen=True, slots=True)
class Looked:
    """What a window sees, before it is decided what of it is told."""

    streams: Streams
    scored: Scored
    role_E: Ints
    known: list[Span]  # that earlier windows told
    profiles: Profiles


def looked_at(*tables: pa.Table, window: Window) -> Looked | None:
    """How odd every metric is in a window; None where nothing is or was told. `tables`: those of `anomalies`."""
    series, sample, step, collective, event, relation, anomaly, profile = tables
    from_ns, to_ns = window.from_ns - LOOK_BACK_NS, window.to_ns
    streams = metric_streams(series, sample, from_ns, to_ns)
    derived = step_streams(step, streams.entities, from_ns, to_ns)
    derived += collective_streams(collective, streams.entities, from_ns, to_ns)
    streams = with_derived(streams, derived)
    known = known_spans(anomaly, to_ns - KNOWN_NS, to_ns)
    if not len(streams) and not known:
        return None
    roles = Roles.of(relation, ran_on(step, collective))
    since_R = since_of(streams, roles, turns(step, collective, event, from_ns))
    profiles = Profiles.of(profile, [roles.jobs(entity) for _, entity in streams.entities.keys], to_ns)
    role_E = roles_of(streams, roles)
    mask = mask_of(known, rows_by_name(streams), to_ns) if known else None
    found = scored(streams, groups_of(streams, role_E), since_R, mask, to_ns, to_ns - from_ns)
    return Looked(streams, found, role_E, known, profiles)


def _spans(looked: Looked, to_ns: int) -> list[Span]:
    """What one window says."""
    streams, found, known = looked.streams, looked.scored, looked.known
    alone = spans_now(streams, found, [each for each in known if each.metric not in _OWN], to_ns)
    spans = without_recurring(alone, known, to_ns)
    spans += together(streams, found, alone, known, looked.profiles, to_ns)
    spans += silences(streams, looked.role_E, known, to_ns)
    return _capped(spans, to_ns)


_OWN = (SILENT, TOGETHER, LEFT_OUT)  # metrics that are no stream's


def _capped(spans: list[Span], to_ns: int) -> list[Span]:
    """At most `TOLD_MAX` metrics of each entity, and one row that counts those that are left out."""
    of: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in spans:
        of[span.tenant, span.entity].append(span)
    found: list[Span] = []
    for (tenant, entity), some in of.items():
        kept = some
        if len(some) > TOLD_MAX:
            kept = sorted(some, key=lambda span: (*_rank(span, to_ns), span.key))[:TOLD_MAX]
            weight = sum(span.weight**2 for span in some if span not in kept) ** 0.5
            kept.append(Span(tenant, entity, LEFT_OUT, TOO_MANY, "past", to_ns, to_ns, to_ns, None,
                             max(weight, 1.0), "high", 0.0, float(len(some) - TOLD_MAX), to_ns, weight))  # fmt: skip
        found += kept
    return found


def _rank(span: Span, to_ns: int) -> tuple[bool, bool, float]:
    kind = metric_kind(span.metric)
    return kind is None or kind.way < Way.RARE, span.reported_ns == to_ns, -span.weight


def _is_id(entity: str) -> bool:
    try:
        parse_entity_id(entity)
    except UsageError:
        return False
    return True


def _columns(spans: list[Span], window: Window) -> dict[str, list[Any]]:
    total: dict[tuple[str, str], float] = defaultdict(float)
    for each in spans:
        total[each.tenant, each.entity] += each.weight**2
    return {
        "tenant": [each.tenant for each in spans],
        "entity_kind": [kind_of(each.entity) for each in spans],
        "entity": [each.entity for each in spans],
        "metric": [each.metric for each in spans],
        "label": [each.label for each in spans],
        "start_ns": [each.start_ns for each in spans],
        "earliest_ns": [each.earliest_ns for each in spans],
        "end_ns": [each.end_ns for each in spans],
        "bound_ns": [each.bound_ns for each in spans],
        "score": [each.score for each in spans],
        "share": [each.weight**2 / (total[each.tenant, each.entity] or 1.0) for each in spans],
        "direction": [each.direction for each in spans],
        "witness": [each.witness for each in spans],
        "expected": [each.expected for each in spans],
        "seen": [each.seen for each in spans],
        "reported_ns": [each.reported_ns for each in spans],
        "seen_ns": [window.to_ns] * len(spans),
    }
