"""Runs of the lab judged as in production, once: verdicts are kept by what was judged and by the source that judged.

NAME.leadline ── 30 % of the telemetry dropped? ── every analysis, window by window ── incident, cause, symptom
                                                               └─ what each window told, and when
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import leadline
from evals.ledger_scores import places_of
from evals.runs.scores import Verdicts
from evals.runs.truth import Truth, read_truth, truth_of, works_of
from leadline.analysis import ANALYSES
from leadline.model.errors import LeadlineError
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.execute import InProcess, Task
from leadline.runner.judging import Judging, failures, rows_that_count
from leadline.runner.plan import concluded, rhythms
from leadline.runner.worker import Outcome
from leadline.store.bundle import read_bundle

FORM = 2  # of what is kept; another form is judged again
KEPT = ("symptom", "incident", "cause")
JSON_COLUMNS = ("blamed",)
SOURCES = ("analysis", "model", "runner")

# Who sends a row, by table: what is missing is missing of a sender, not a row here and there.
SENDERS: Mapping[str, tuple[str, ...]] = {
    "metric_sample": ("series",), "step": ("job", "rank"), "collective": ("job", "rank"),
    "message_end": ("job", "rank"), "operation": ("job", "rank"), "event": ("host", "source"),
    "flow_sample": ("switch",), "probe": ("src",),
    "edge_fit": ("src",), "probe_hop": ("src",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run and its truth file."""

    name: str
    bundle: Path
    truth: Path


@dataclass(frozen=True, slots=True)
class Missing:
    """A share of the senders of telemetry is silent, drawn from a seed."""

    share: float = 0.0
    seed: int = 1


NOTHING_MISSING = Missing()


@dataclass(slots=True)
class Judged:
    """A run with what was concluded of it."""

    run: str
    truth: Truth
    verdicts: Verdicts
    seconds: float  # that judging it took
    failures: Sequence[str] = ()  # windows in which an analysis failed


def runs_in(directory: Path, only: str = "") -> list[Run]:
    """The bundles of a directory that have a truth file beside them. Errors: LeadlineError without any."""
    if not directory.is_dir():
        raise LeadlineError(
            f"--incidents: expected a directory with NAME.leadline and NAME.truth.json, got {directory}"
        )
    found = [
        Run(path.stem, path, truth)
        for path in sorted(directory.rglob("*.leadline"))
        if only in path.stem and (truth := path.with_name(f"{path.stem}.truth.json")).exists()
    ]
    if not found:
        what = f" with {only!r} in their name" if only else ""
        raise LeadlineError(
            f"{directory}: no NAME.leadline{what} with NAME.truth.json beside it; record some: docs/lab/matrix.md"
        )
    return found


def judged(run: Run, cache_in: Path | None = None, missing: Missing = NOTHING_MISSING) -> Judged:
    """A run's truth and verdicts. Errors: LeadlineError for files that cannot be read."""
    entries = read_truth(run.truth)
    with read_bundle(run.bundle) as bundle:
        truth = truth_of(entries, works_of(bundle), bundle.manifest.from_ns, bundle.manifest.to_ns)
    kept = cache_in / f"{_key(run.bundle, missing)}.json" if cache_in else None
    found = _read_kept(kept)
    if found is None:
        found = _judge(run.bundle, missing)
        _keep(kept, found)
    return Judged(run.name, truth, found.verdicts(), found.seconds, found.failures)


@dataclass(slots=True)
class _Found:
    """What is kept of a run that was judged: rows as JSON."""

    rows: dict[str, list[dict[str, Any]]]
    told: list[dict[str, Any]]
    places: dict[str, list[str]]
    seconds: float
    failures: list[str]
    form: int = FORM

    def verdicts(self) -> Verdicts:
        rows = {name: [_open(row) for row in self.rows[name]] for name in KEPT}
        places = {name: set(where) for name, where in self.places.items()}
        return Verdicts(rows["incident"], rows["cause"], rows["symptom"], self.told, places)


def _open(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json.loads(value or "[]") if name in JSON_COLUMNS else value for name, value in row.items()}


def _judge(path: Path, missing: Missing) -> _Found:
    with read_bundle(path) as bundle:
        again = concluded(ANALYSES) | {ANALYSIS_RUN.name}
        tables = {each.name: pa.concat_tables(bundle.groups(each)) for each in bundle.tables if each.name not in again}
        span = bundle.manifest.from_ns, bundle.manifest.to_ns
    tables = {name: dropped(name, rows, missing) for name, rows in tables.items()}
    relations = tables["relation"].select(["child", "kind", "parent"]).to_pylist() if "relation" in tables else []
    listening, began = Listening(), time.monotonic()
    judging = Judging(ANALYSES, span[0], listening)
    judging.add(rows_that_count(tables))
    judging.until(span[1], ended=True)
    told, seconds = judging.told(), time.monotonic() - began
    rows = {name: told[name].to_pylist() if name in told else [] for name in KEPT}
    places = {name: sorted(where) for name, where in places_of(relations).items()}
    return _Found(rows, listening.told(), places, seconds, list(failures(told)))


@dataclass(slots=True)
class Listening:
    """Runs calls in this process and remembers what each window told of incidents, and when that was: its end and the
    grace that a live run waits for rows. So collection is in it as far as the grace covers it."""

    _told: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _inner: InProcess = field(default_factory=InProcess)

    def start(self) -> None:
        """Nothing to make ready."""

    def close(self) -> None:
        """Nothing to end."""

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        future = self._inner.submit(task)
        tables = future.result().tables
        at_ns = task.window.to_ns + grace_ns(task.analysis.name)
        for row in tables["incident"].to_pylist() if "incident" in tables else []:
            self._of(row["incident"], at_ns)
        for row in tables["cause"].to_pylist() if "cause" in tables else []:
            if row["position"] == 1 and row["chosen"]:
                self._of(row["incident"], at_ns)["first"] = row["entity"]
        return future

    def _of(self, incident: str, at_ns: int) -> dict[str, Any]:
        return self._told.setdefault((incident, at_ns), {"incident": incident, "reported_ns": at_ns, "first": None})

    def told(self) -> list[dict[str, Any]]:
        """Of each window: incident, reported_ns, and the entity that it names first, or None."""
        return [self._told[key] for key in sorted(self._told)]


@cache
def _graces() -> dict[str, int]:
    return {each.name: rhythm.grace_ns for each, rhythm in zip(ANALYSES, rhythms(ANALYSES), strict=True)}


def grace_ns(analysis: str) -> int:
    """How long after its end a window of an analysis closes in a live run, those that it waits for included."""
    return _graces().get(analysis, 0)


def dropped(name: str, rows: pa.Table, missing: Missing) -> pa.Table:
    """The rows of a table without those of a share of their senders. What is no telemetry (the graph, clocks, names of
    series) stays whole. A sender is silent by the hash of its name and the seed: the order of rows does not matter."""
    columns = SENDERS.get(name)
    if not columns or not missing.share or not len(rows):
        return rows
    coded = [_coded(rows[column]) for column in columns]
    codes_NC = np.column_stack([code_N for code_N, _ in coded])
    senders_SC, sender_N = np.unique(codes_NC, axis=0, return_inverse=True)
    silent_S = np.array(
        [
            _silent("/".join([name, *(texts[at] for at, (_, texts) in zip(each, coded, strict=True))]), missing)
            for each in senders_SC.tolist()
        ],
        bool,
    )
    return rows.filter(pa.array(~silent_S[sender_N.ravel()]))


def _coded(column: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """Numbers of a column's values, and what they stand for."""
    whole = pa.concat_arrays(column.unify_dictionaries().chunks)
    coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    texts = [each.hex() if isinstance(each, bytes) else str(each) for each in coded.dictionary.to_pylist()]
    numbers = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return numbers, [*texts, ""]


def _silent(sender: str, missing: Missing) -> bool:
    digest = hashlib.blake2b(f"{missing.seed}/{sender}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < missing.share * 2**64


# --- kept ---------------------------------------------------------------------------------------------------------


def _key(bundle: Path, missing: Missing) -> str:
    content = hashlib.sha256(bundle.read_bytes()).hexdigest()[:24]
    drawn = f"-{missing.share:g}-{missing.seed}" if missing.share else ""
    return f"{content}-{source_hash()}{drawn}"


@cache
def source_hash(folders: tuple[str, ...] = SOURCES) -> str:
    """Of everything that verdicts depend on: these folders of Leadline, and how they are called here."""
    root, here = Path(leadline.__file__).parent, Path(__file__)
    whole = hashlib.sha256(str(FORM).encode())
    for folder in folders:
        for path in sorted(each for each in (root / folder).rglob("*") if each.suffix in (".py", ".yaml", ".csv")):
            whole.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    whole.update(here.read_bytes())
    return whole.hexdigest()[:16]


def _read_kept(path: Path | None) -> _Found | None:
    try:
        found = _Found(**json.loads(path.read_text())) if path is not None else None
    except (OSError, ValueError, TypeError):
        return None  # not there, or cut off: judged again
    return found if found is not None and found.form == FORM else None


def _keep(path: Path | None, found: _Found) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(asdict(found)))
    partial.replace(path)
