"""The diagnosis of a recording: all its windows judged here, without a server, and told as a server would tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.errors import UnknownNameError
from leadline.model.tables import BY_NAME
from leadline.model.units import S
from leadline.store.bundle import Bundle, read_bundle
from leadline.views.incidents.diagnosis import (
    OK,
    SOURCES,
    SYMPTOM_ANALYSES,
    UNKNOWN,
    About,
    Watched,
    WatchedJob,
    diagnosis,
)
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import GPU_LABEL, incidents_of, with_losses
from leadline.views.ledger.config import LedgerConfig
from leadline.views.lost import claims_of, judged_of, losses
from leadline.views.names import Kind, Names, said
from leadline.views.rows import json_rows

VERDICTS = ("incident", "cause", "symptom")


def recorded_diagnosis(
    path: Path, config: LedgerConfig, about: str = "", progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """What `/api/v1/diagnosis` would say of a whole recording; everything in it is concluded again.

    `about`: only of this job, incident or entity. Windows that could not be judged stand in `failed`, a sentence each.
    `progress`: called with the share (0 to 1) of the recording that is analysed.
    Errors: DataError for a file that is no bundle, WorldError if it cannot be read, UnknownNameError.
    """
    from leadline.runner.judging import failures  # here: analyses load kernels, other verbs need none
    from leadline.runner.offline import judge_bundle

    with read_bundle(path) as bundle:
        watched, hosts, at_ns = _watched(bundle), _hosts(bundle), bundle.manifest.to_ns
        indices = _indices(bundle)
    found = judge_bundle(path, progress=progress)
    told = incidents(found, hosts, indices)
    kind, told = chosen(told, about, [each.job for each in watched.jobs]) if about else (About.ALL, told)
    answer = diagnosis(about, told, watched, at_ns, config, recorded=True, kind=kind) | {"about": about or path.name}
    return with_failures(answer, list(failures(found)))


def chosen(told: Sequence[Incident], about: str, jobs: Sequence[str]) -> tuple[About, list[Incident]]:
    """What a name is of in a recording with these jobs, and the incidents about it. Errors: UnknownNameError."""
    if named := [one for one in told if one.incident == about]:
        return About.INCIDENT, named
    job = about.removeprefix("job:")
    if job in jobs:
        return About.JOB, [one for one in told if one.concerns(job)]
    if named := [one for one in told if one.names(about)]:
        return About.ENTITY, named
    entities = sorted({cause.entity for one in told for cause in one.chosen})
    text = said(Names(jobs, [one.incident for one in told], entities), about, Kind.ANY)["text"]
    raise UnknownNameError(f"in this recording {text}")


def with_failures(answer: dict[str, Any], failed: Sequence[str]) -> dict[str, Any]:
    """An answer that says which windows could not be judged: then it is not known that there is no problem."""
    if failed and answer["state"] == OK:
        why = f"{len(failed)} window{'s' if len(failed) > 1 else ''} could not be analysed"
        answer |= {"state": UNKNOWN, "why": why}
    return answer | {"failed": list(failed)}


def looking() -> tuple[str, ...]:
    """The analyses that look for symptoms."""
    from leadline.analysis import ANALYSES  # as above

    return tuple(each.name for each in ANALYSES if each.name in SYMPTOM_ANALYSES)


def incidents(
    found: Mapping[str, pa.Table], hosts: Mapping[str, str], indices: Mapping[str, str] | None = None
) -> list[Incident]:
    """Incidents of verdicts that count, by table name; what lost most first."""
    rows = {name: json_rows(found[name]) if name in found else [] for name in VERDICTS}
    told = incidents_of(rows["incident"], rows["cause"], rows["symptom"], hosts, indices)
    ledger = json_rows(found["ledger"]) if "ledger" in found else []
    told = with_losses(told, losses(claims_of(rows["incident"]), judged_of(ledger)).whole)
    return sorted(told, key=lambda one: (-one.lost_gpu_seconds, one.start_ns, one.incident))


def _rows(bundle: Bundle, name: str, *columns: str) -> pa.Table | None:
    if not any(table.name == name for table in bundle.tables):
        return None
    groups = [rows.select(columns) for rows in bundle.groups(BY_NAME[name])]
    return pa.concat_tables(groups).unify_dictionaries().combine_chunks() if groups else None


def _watched(bundle: Bundle) -> Watched:
    """Jobs with their steps, and the newest row of each source. Judged is what the recording has, to its end."""
    until = {}
    for name, column in SOURCES:
        rows = _rows(bundle, name, column)
        if rows is not None and rows.num_rows:
            until[name] = int(pc.max(rows[column]).as_py())
    judged = dict.fromkeys(looking(), bundle.manifest.to_ns)
    steps = _rows(bundle, "step", "job", "rank", "step", "start_ns", "end_ns")
    return Watched(_jobs(steps) if steps is not None else (), until, judged)


def _jobs(steps: pa.Table) -> tuple[WatchedJob, ...]:
    found = []
    jobs = steps["job"].cast(pa.string())
    for job in sorted(pc.unique(jobs).to_pylist()):
        mine = steps.filter(pc.equal(jobs, job))
        step_N, since_ns, until_ns = mine["step"].to_numpy(), pc.min(mine["start_ns"]), pc.max(mine["end_ns"])
        span_ns, count = until_ns.as_py() - since_ns.as_py(), int(np.ptp(step_N))
        found.append(
            WatchedJob(job, pc.count_distinct(mine["rank"]).as_py(), int(step_N.max()), since_ns.as_py(),
                       until_ns.as_py(), span_ns / S / count if count else None)
        )  # fmt: skip
    return tuple(found)


def _hosts(bundle: Bundle) -> dict[str, str]:
    """The host that ranks, GPUs and processes were on last."""
    rows = _rows(bundle, "relation", "child", "parent", "from_ns")
    if rows is None:
        return {}
    on_hosts = rows.filter(pc.starts_with(rows["parent"].cast(pa.string()), "host:")).sort_by("from_ns")
    return dict(
        zip(
            on_hosts["child"].cast(pa.string()).to_pylist(),
            on_hosts["parent"].cast(pa.string()).to_pylist(),
            strict=True,
        )
    )


def _indices(bundle: Bundle) -> dict[str, str]:
    """The numbers that GPUs have on their hosts, as their exporter labels them."""
    rows = _rows(bundle, "series", "entity", "labels", "last_ns")
    if rows is None:
        return {}
    of_gpus = rows.filter(pc.starts_with(rows["entity"].cast(pa.string()), "gpu:")).sort_by("last_ns")
    names = of_gpus["entity"].cast(pa.string()).to_pylist()
    told = zip(names, (dict(each or ()).get(GPU_LABEL, "") for each in of_gpus["labels"].to_pylist()), strict=True)
    return {name: number for name, number in told if number.isdecimal()}
