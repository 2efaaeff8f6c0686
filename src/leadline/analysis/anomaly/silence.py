"""Who is not heard any more, while others of its role are: a GPU that is lost, an agent or exporter that hangs.

Told as the metric `telemetry.silent` of the entity: `seen` is for how many seconds nothing came, `expected` how many
are usual between its samples. Processes and ranks come and go with their jobs, so of them silence says nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.anomaly.spans import NORMAL_AFTER_NS, Span
from leadline.analysis.anomaly.streams import Streams
from leadline.analysis.columns import Ints
from leadline.analysis.spec import S
from leadline.model.ids import kind_of

METRIC = "telemetry.silent"
KINDS = ("host", "gpu", "port", "swport", "switch", "nvlink", "xcvr")
MISSED = 2.5  # samples in a row
SILENT_MIN_NS = 12 * S  # scrapes that take long, deliveries that come in one go
SAMPLES_MIN = 3
SCORE = 5.0  # when silence begins to count; more with each doubling


def silences(streams: Streams, role_E: Ints, known: list[Span], to_ns: int) -> list[Span]:
    """Spans of entities of which nothing is heard. role_E: a number for each entity, the same for peers.

    known: spans that earlier windows told; of them the silent ones are gone on with, or ended by the first sample.
    """
    entities = len(streams.entities.keys)
    last_E, apart_E = _heard(streams, entities)
    age_E = np.where(last_E > 0, to_ns - last_E, 0)
    silent_E = (apart_E > 0) & (age_E > np.maximum(MISSED * apart_E, SILENT_MIN_NS))
    heard_E = (apart_E > 0) & ~silent_E
    roles = int(role_E.max(initial=-1)) + 1
    most_E = (np.bincount(role_E[heard_E], minlength=roles) >= np.bincount(role_E[silent_E], minlength=roles))[role_E]
    open_of = {span.key: span for span in known if span.metric == METRIC and span.end_ns is None}
    found = []
    for place in np.flatnonzero(silent_E & most_E).tolist():
        tenant, entity = streams.entities.keys[place]
        if kind_of(entity) not in KINDS:
            continue
        last_ns, apart_ns, age_ns = int(last_E[place]), float(apart_E[place]), int(age_E[place])
        score = SCORE + float(np.log2(max(age_ns / max(MISSED * apart_ns, SILENT_MIN_NS), 1.0)))
        now = Span(tenant, entity, METRIC, None, "peers", last_ns + int(apart_ns), last_ns, None, None, score, "high",
                   apart_ns / S, age_ns / S, to_ns, score)  # fmt: skip
        old = open_of.pop(now.key, None)
        found.append(now if old is None else replace(old, score=score, seen=now.seen, weight=score))
    number = {key: place for place, key in enumerate(streams.entities.keys)}
    for span in open_of.values():
        found.append(_ended(span, number, last_E, to_ns))
    return sorted(found, key=lambda each: each.key)


def _ended(span: Span, number: dict[tuple[str, str], int], last_E: Ints, to_ns: int) -> Span:
    """A silent span of an entity that speaks again, or of which the last sample is out of sight."""
    place = number.get((span.tenant, span.entity))
    last_ns = int(last_E[place]) if place is not None else 0
    if last_ns > span.start_ns:
        return replace(span, end_ns=last_ns)
    if to_ns - span.start_ns < NORMAL_AFTER_NS:
        return replace(span, seen=(to_ns - span.earliest_ns) / S, weight=span.score)
    return replace(span, end_ns=to_ns)


def _heard(streams: Streams, entities: int) -> tuple[Ints, Ints]:
    """Of each entity the time of its newest sample, and the usual time between samples of its densest stream, ns; 0
    where it has too few."""
    begin_R, time_N = streams.samples.begin_R, streams.samples.time_N
    count_R = np.diff(begin_R)
    last_E, apart_E = np.zeros(entities, np.int64), np.full(entities, 2**62, np.int64)
    np.maximum.at(last_E, streams.entity_R, time_N[begin_R[1:] - 1])
    many = np.flatnonzero(count_R >= SAMPLES_MIN)
    apart = (time_N[begin_R[many + 1] - 1] - time_N[begin_R[many]]) // (count_R[many] - 1)
    np.minimum.at(apart_E, streams.entity_R[many], apart)
    return last_E, np.where(apart_E < 2**62, apart_E, 0)
