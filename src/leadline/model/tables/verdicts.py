"""Events, and what analyses and control conclude of them: anomalies, incidents, actions."""

from __future__ import annotations

from leadline.model.tables.spec import (
    DAY,
    F64,
    I64,
    MAP,
    STR,
    SYM,
    U64,
    U128,
    Column,
    Identity,
    Partition,
    Table,
)

_JOB = Column("job", SYM, None, "the job")

EVENT = Table(
    "event",
    doc="Something that happened: XID, link down, OOM kill, checkpoint, log line.",
    own=(
        Column("time_ns", I64, "ns", "when, on the clock of who saw it", clocked=True),
        Column("entity_kind", SYM, None, "kind of the entity; empty if none was recognised"),
        Column("entity", SYM, None, "entity it happened to; empty if none was recognised"),
        Column("kind", SYM, None, "what happened: xid, link-down, oom-kill, checkpoint, log, ..."),
        Column("severity", SYM, None, "debug, info, warning, error, fatal; empty if not told"),
        Column("code", SYM, None, "code of the event, such as the XID number", nullable=True),
        Column("message", STR, None, "the text, as it came"),
        Column("attributes", MAP, None, "everything else that came with it"),
        Column("source", SYM, None, "what told it"),
    ),
    order=("entity", "time_ns"),
    more_key=("kind",),
    time="time_ns",
    keep_hours=400 * DAY,
    identity=Identity.BATCH,
    written_by="kernel log, netlink, jobs, OTLP logs",
    host_row=True,
)

ANOMALY = Table(
    "anomaly",
    doc="A metric outside its own past or its peers: evidence, never an alert by itself.",
    own=(
        Column("entity", SYM, None, "the entity"),
        Column("metric", SYM, None, "the metric"),
        Column("start_ns", I64, "ns", "since when"),
        Column("end_ns", I64, "ns", "until when; null while it lasts", nullable=True),
        Column("score", F64, None, "how far outside, in robust standard deviations"),
        Column("direction", SYM, None, "high, low or shape"),
        Column("witness", SYM, None, "past or peers"),
        Column("expected", F64, None, "value expected"),
        Column("seen", F64, None, "value seen"),
    ),
    order=("entity", "start_ns"),
    more_key=("metric", "witness"),
    time="start_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/anomaly",
)

INCIDENT = Table(
    "incident",
    doc="A symptom: a job's step time, a stall, a crash, an expectation that burns.",
    own=(
        Column("incident", STR, None, "id"),
        Column("job", SYM, None, "the job that suffers", nullable=True),
        Column("symptom", SYM, None, "slow, stall, crash, sle"),
        Column("start_ns", I64, "ns", "first lost second"),
        Column("end_ns", I64, "ns", "over since; null while it lasts", nullable=True),
        Column("state", SYM, None, "open, over, dismissed"),
        Column("lost_gpu_seconds", F64, "gpu_s", "lost so far"),
        Column("suppressed", SYM, None, "why it does not alert; null if it does", nullable=True),
    ),
    order=("incident",),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/cause",
    partition=Partition.NONE,
)

CAUSE = Table(
    "cause",
    doc="One ranked cause of an incident with its evidence.",
    own=(
        Column("incident", STR, None, "the incident"),
        Column("position", I64, None, "1 for the likeliest"),
        Column("entity", SYM, None, "the component"),
        Column("layer", SYM, None, "layer of the component"),
        Column("class", SYM, None, "persistent, gray, transient, unknown"),
        Column("probability", F64, "ratio", "how likely"),
        Column("evidence", STR, None, "JSON list of row references"),
        Column("action", SYM, None, "what to do, from the fixed list"),
        Column("waiting_cost", F64, "gpu_s", "GPU-seconds that ten minutes of waiting cost"),
        Column("text", STR, None, "explanation"),
        Column("start_ns", I64, "ns", "first lost second of the incident"),
    ),
    order=("incident", "position"),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/cause",
    partition=Partition.NONE,
)

ACTION = Table(
    "action",
    doc="One step in the life of an action: proposed, approved, done, verified, rolled back.",
    own=(
        Column("action", STR, None, "id"),
        Column("incident", STR, None, "incident it answers", nullable=True),
        Column("kind", SYM, None, "what is done, from the fixed list"),
        Column("entity", SYM, None, "what it is done to"),
        Column("mode", SYM, None, "observe, advise, act"),
        Column("state", SYM, None, "proposed, approved, done, verified, rolled-back, refused"),
        Column("actor", SYM, None, "person or part that did it"),
        Column("reason", STR, None, "why"),
        Column("time_ns", I64, "ns", "when"),
        Column("before", STR, None, "what was there before (JSON)"),
        Column("after", STR, None, "what is there now (JSON)"),
    ),
    order=("time_ns",),
    more_key=("action", "state"),
    time="time_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="control, runner",
)

ANALYSIS_RUN = Table(
    "analysis_run",
    doc="One window of one analysis that was judged: which revision of its verdicts counts.",
    own=(
        Column("analysis", SYM, None, "name of the analysis"),
        Column("part", SYM, None, "job that was judged; empty: the whole cluster"),
        Column("end_ns", I64, "ns", "end of the window"),
        Column("window_ns", I64, "ns", "length of the window"),
        Column("version", I64, None, "version of the analysis"),
        Column("revision", I64, None, "0 at first, higher when late rows changed the verdict"),
        Column("state", SYM, None, "done, failed (an error of the analysis), crashed (its process died), timeout"),
        Column("rows_in", U64, "1", "rows it read"),
        Column("rows_out", U64, "1", "rows it wrote"),
        Column("digest", U128, None, "hash of what it wrote: the same again is no new revision"),
        Column("took_ns", I64, "ns", "time it took, loading and storing included"),
        Column("error", STR, None, "why it failed; empty if it did not"),
    ),
    order=("analysis", "end_ns"),
    more_key=("part", "window_ns"),
    time="end_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="runner",
)
