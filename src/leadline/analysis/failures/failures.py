"""Failures of parts and jobs, from what was told of them: one row each, until the part was back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import codes
from leadline.analysis.failures.book import MERGE_NS, Book, Failure, Happening
from leadline.analysis.failures.heard import heard_of, pairs, silent_hosts
from leadline.analysis.failures.kinds import BACK, DRIVER_LOADED, EXITS, GPU_READY, Exit, exit_meaning, meaning
from leadline.analysis.failures.parts import Parts, parts_of
from leadline.analysis.failures.tenants import Shared, shared
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.accounts import FailureClass
from leadline.model.ids import kind_of
from leadline.model.tables.accounts import FAILURE
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import STEP
from leadline.model.tables.verdicts import ANOMALY, EVENT
from leadline.model.units import S

OPEN_NS = 31 * 86400 * S  # what is not back after a month is told as never back, and looked for no more
SILENT_NS = 60 * S  # a step that takes longer would look like silence
STEPS_NS = 180 * S  # steps so far back show who was there: 1.8 million rows of 10,000 ranks that step each second
PLACES_NS = 120 * S  # where ranks stood that were gone before the window

HEARD_NS = 120 * S  # metrics that came again may be told by their windows so much later
ODD_NS = 3600 * S  # anomalies that last so long are given up: their end says nothing
SPEAKS_AGAIN = ("telemetry.silent", "DCGM_FI_DEV_XID_ERRORS")
"""Anomalies of a GPU whose end says that it is back: metrics come again; its last error is cleared, as a reset does."""

# What is told per event by kinds that are no failures; checkpoints alone may be thousands.
_COLUMNS = (
    "time_ns", "entity_kind", "entity", "kind", "severity", "code", "message", "attributes", "host", "tenant",
)  # fmt: skip
_PLACES = ("tenant", "child", "parent", "kind", "from_ns", "to_ns")


@analysis(
    name="failures",
    version=1,
    reads=(
        Read(EVENT, columns=_COLUMNS, look_back_ns=STEPS_NS),  # a host that told of its end is not silent
        Read(STEP, columns=("job", "rank", "start_ns", "end_ns", "host", "tenant"), look_back_ns=STEPS_NS),
        Read(RELATION, columns=_PLACES, look_back_ns=PLACES_NS, valid=True),
        Read(FAILURE, look_back_ns=OPEN_NS, valid=True),
        Read(ANOMALY, ("entity", "metric", "start_ns", "end_ns"), HEARD_NS, valid=True, waits=False, calls=False),
    ),
    writes=(FAILURE,),
    window_s=60,
)
def failures(
    event: pa.Table, step: pa.Table, relation: pa.Table, failure: pa.Table, anomaly: pa.Table, *, window: Window
) -> Verdicts:
    """What failed, of which class, which job it stopped, and when it was back.

    Inputs: events and steps of the window and before, places of ranks, the failures that earlier windows told;
    anomalies, for GPUs whose metrics come again. Written are the failures that began in the window, those that ended in
    it, and those of which it became known that they stopped a job. Several events of one cause are one failure (see
    `book`).
    Accuracy: begins and ends are as exact as the clocks; across hosts without a clock fit their order is not sure
    within MERGE_NS, and the most telling of what comes together counts as first. docs/analyses/failures.md has what
    was measured.
    Source: merging within 5 s: Cui et al., "Characterizing GPU Resilience" (Delta); classes: Llama 3 (table 5), Acme.
    """
    names = shared(step, relation, window.tenant)
    step, event = names.jobs(step, "job"), names.entities(event, "entity")
    relation = names.entities(names.entities(relation, "child"), "parent")
    failure = names.entities(names.jobs(failure, "job"), "entity")
    parts, heard = parts_of(relation), heard_of(step, event)
    book = Book(parts, heard, _known(failure, window))
    happened = [each for each in _happenings(event) if each.time_ns < window.to_ns]
    exits = _ends(happened, parts, window)
    deaths = sorted(_clusters(exits), key=lambda each: (each[1][0][0].time_ns, each[0]))
    _tell_events(book, happened, deaths, window)
    gave_up: dict[str, dict[str, int]] = defaultdict(dict)
    for job, some in exits.items():
        for each, _ in some:
            gave_up[job][each.host] = each.time_ns
    tenants = _tenants(step)
    for one in silent_hosts(heard, gave_up, _told_ends(happened, parts), window.to_ns, SILENT_NS):
        words = f"no data from {one.host} for {(window.to_ns - one.last_ns) / S:.0f} s, while {one.shown_by}"
        book.silent(one.host, tenants.get(one.job, window.tenant), one.last_ns, one.job, words)
    for gpu, at_ns in _speaking_again(anomaly, window):
        book.gpu_back(gpu, at_ns)
    book.settle(window.to_ns)
    return {"failure": _columns([_plain(each, names) for each in book.changed.values()], window)}


def _tell_events(
    book: Book, happened: list[Happening], deaths: list[tuple[str, list[tuple[Happening, Exit]]]], window: Window
) -> None:
    """Events and deaths in order of time; what may be a cause is known before, as it may come a little late."""
    told = [(each, meaning(each.kind, each.code, each.severity, kind_of(each.entity), each.message))
            for each in happened]  # fmt: skip
    for each, means in told:
        if means is not None and not means.alone:
            book.candidate(each, means)
    queue: list[tuple[int, int, int]] = [
        (each.time_ns, 0, place) for place, (each, _) in enumerate(told) if each.time_ns >= window.from_ns
    ]
    # A death is told MERGE_NS late, so that what failed a little after it by another clock is known.
    queue += [(some[0][0].time_ns + MERGE_NS, 1, place) for place, (_, some) in enumerate(deaths)]
    for _, is_death, place in sorted(queue):
        if is_death:
            book.died(*deaths[place])
            continue
        each, means = told[place]
        if each.kind in BACK:
            book.back(each, BACK[each.kind])
        elif each.kind == GPU_READY:
            book.gpu_back(each.entity, each.time_ns)
        elif each.kind == DRIVER_LOADED:
            book.driver_loaded(each.host, each.time_ns)
        elif means is not None and means.alone and each.entity:  # what befell nothing that is known took nothing out
            book.alone(each, means)


def _speaking_again(anomaly: pa.Table, window: Window) -> list[tuple[str, int]]:
    """GPUs whose metrics came again, or whose last error was cleared, and when; in order of time."""
    entity, metric = codes(anomaly, "entity"), codes(anomaly, "metric")
    of_gpu_N = np.array([*(kind_of(name) == "gpu" for name in entity.names), False], bool)[entity.code_N]
    tells_N = np.array([*(name in SPEAKS_AGAIN for name in metric.names), False], bool)[metric.code_N]
    rows = anomaly.filter(pa.array(of_gpu_N & tells_N)).to_pylist()
    ended = [
        (row["entity"], row["end_ns"])
        for row in rows
        if row["end_ns"] is not None and row["end_ns"] < window.to_ns and row["end_ns"] - row["start_ns"] < ODD_NS
    ]
    return sorted(ended, key=lambda each: (each[1], each[0]))


def _happenings(event: pa.Table) -> list[Happening]:
    """The events that may matter, in order of time. Loops over those only: logs and checkpoints may be thousands."""
    kind = codes(event, "kind")
    severity = codes(event, "severity")
    bad_N = np.array([*(name in ("error", "fatal") for name in severity.names), False], bool)[severity.code_N]
    matters_N = np.array([*(_matters(name) for name in kind.names), False], bool)[kind.code_N]
    rows = event.filter(pa.array(bad_N | matters_N))
    kinds = rows["kind"].to_pylist()
    # Of exits only: to make dicts of all takes most of the time where a log has 100,000 errors a minute.
    exits = np.array([kind in EXITS for kind in kinds], bool)
    reasons = iter(
        [dict(each or ()).get("reason", "") for each in rows["attributes"].filter(pa.array(exits)).to_pylist()]
    )
    told = zip(
        *(rows[name].to_pylist() for name in ("time_ns", "entity")), kinds,
        *(rows[name].to_pylist() for name in ("code", "severity", "message")),
        (next(reasons) if is_exit else "" for is_exit in exits.tolist()),
        *(rows[name].to_pylist() for name in ("host", "tenant")), strict=True,
    )  # fmt: skip
    return sorted(Happening(at_ns, entity, kind, code or "", *more) for at_ns, entity, kind, code, *more in told)


def _matters(kind: str) -> bool:
    return (
        kind in EXITS
        or kind in BACK
        or kind in (GPU_READY, DRIVER_LOADED)
        or kind in ("maintenance", "preemption")
        or meaning(kind, "", "", "", "") is not None
    )


def _ends(happened: list[Happening], parts: Parts, window: Window) -> dict[str, list[tuple[Happening, Exit]]]:
    """Ends with an error within the window, by job. The scheduler's word counts where no rank told of its own end."""
    found: dict[str, list[tuple[Happening, Exit]]] = defaultdict(list)
    for each in happened:
        job = parts.job(each.entity)
        if each.kind not in EXITS or each.time_ns < window.from_ns or not job:
            continue
        means = exit_meaning(each.code, each.severity, each.reason)
        if means is not None:
            found[job].append((each, means))
    for job, some in found.items():
        of_ranks = [each for each in some if each[0].kind == "process-exit"]
        found[job] = of_ranks or some
    return found


def _told_ends(happened: list[Happening], parts: Parts) -> dict[tuple[str, str], int]:
    """When hosts told last of an end of a job's rank, whichever way it ended, in this window or before."""
    return {(parts.job(each.entity), each.host): each.time_ns for each in happened if each.kind in EXITS}


def _clusters(
    exits: dict[str, list[tuple[Happening, Exit]]],
) -> Iterator[tuple[str, list[tuple[Happening, Exit]]]]:
    """Ends of one job that came within MERGE_NS of the first of them."""
    for job in sorted(exits):
        some: list[tuple[Happening, Exit]] = []
        for each in exits[job]:
            if some and each[0].time_ns - some[0][0].time_ns > MERGE_NS:
                yield job, some
                some = []
            some.append(each)
        yield job, some


def _known(failure: pa.Table, window: Window) -> Iterator[tuple[Failure, bool]]:
    """Open failures of earlier windows; and those that this window said something of when it was judged before.

    What began in this window is found anew, so its rows are not looked at.
    """
    for row in failure.to_pylist():
        again = row["seen_ns"] == window.to_ns
        if row["start_ns"] >= window.from_ns or row["start_ns"] < window.from_ns - OPEN_NS:
            continue
        if row["end_ns"] is not None and not again:
            continue
        of = row["class"] if row["class"] in set(FailureClass) else FailureClass.UNKNOWN
        yield Failure(row["tenant"], row["entity"], row["kind"], FailureClass(of), row["job"], row["gpus"],
                      row["start_ns"], None, row["evidence"]), again  # fmt: skip


def _tenants(step: pa.Table) -> dict[str, str]:
    """Whose the steps of each job are."""
    job, tenant = codes(step, "job"), codes(step, "tenant")
    job_U, tenant_U, _ = pairs(job.code_N, tenant.code_N)
    both = zip(job_U.tolist(), tenant_U.tolist(), strict=True)
    return {job.names[code]: tenant.names[whose] for code, whose in both if code >= 0 and whose >= 0}


def _plain(failure: Failure, names: Shared) -> Failure:
    """A failure with the names that its tenant knows."""
    job = None if failure.job is None else names.plain(failure.job)
    return replace(failure, entity=names.plain(failure.entity), job=job, evidence=names.plain(failure.evidence))


def _columns(rows: list[Failure], window: Window) -> dict[str, list[object]]:
    return {
        "tenant": [each.tenant for each in rows],
        "entity_kind": [kind_of(each.entity) for each in rows],
        "entity": [each.entity for each in rows],
        "kind": [each.kind for each in rows],
        "class": [each.of.value for each in rows],
        "job": [each.job for each in rows],
        "gpus": [each.gpus for each in rows],
        "start_ns": [each.start_ns for each in rows],
        "end_ns": [each.end_ns for each in rows],
        "seen_ns": [window.to_ns] * len(rows),
        "evidence": [each.evidence for each in rows],
    }
