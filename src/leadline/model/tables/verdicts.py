"""Events, and what analyses and control conclude of them: anomalies, incidents, actions."""

from __future__ import annotations

from leadline.model.tables.spec import (
    BOOL,
    DAY,
    F64,
    I64,
    MAP,
    STR,
    SYM,
    SYMS,
    U64,
    U128,
    Column,
    Former,
    Identity,
    Partition,
    Table,
)

# What was `straggler` up to schema version 4: in JSON as `json.dumps` writes it, so that no name of a user's is meant.
_BLAMED_BEFORE = (('"category": "late-rank"', '"category": "straggler"'), ('"how": "late-rank', '"how": "straggler'))
_RULES_BEFORE = (("late-rank", "straggler"),)

_JOB = Column("job", SYM, None, "the job")

EVENT = Table(
    "event",
    doc="Something that happened: XID, link down, OOM kill, checkpoint, log line.",
    own=(
        Column("time_ns", I64, "ns", "when, on the clock of who saw it", clocked=True),
        Column("entity_kind", SYM, None, "kind of the entity; empty if not recognised"),
        Column("entity", SYM, None, "entity it happened to; empty if not recognised"),
        Column("kind", SYM, None, "what happened: xid, link-down, oom-kill, checkpoint, log, ..."),
        Column("severity", SYM, None, "debug, info, warning, error, fatal; empty if unknown"),
        Column("code", SYM, None, "code of the event, such as the XID number", nullable=True),
        Column("message", STR, None, "the text, as it came"),
        Column("attributes", MAP, None, "everything else that came with it"),
        Column("source", SYM, None, "what reported it"),
    ),
    order=("entity", "time_ns"),
    more_key=("kind",),
    time="time_ns",
    keep_hours=400 * DAY,
    identity=Identity.BATCH,
    written_by="kernel log, netlink, jobs, OTLP logs",
    host_row=True,
)

_EVIDENCE = '{"table", "entity", "what", "text": texts, "time_ns": int or null, "bound_ns": int or null}'
_SEEN = Column(
    "seen_ns",
    I64,
    "ns",
    "end of the newest window that reports it; 1 ns after `end_ns`: its end was not seen, no data since then",
)

ANOMALY = Table(
    "anomaly",
    doc="A metric outside its own past or its peers: evidence, never an alert by itself.",
    own=(
        Column("entity_kind", SYM, None, "kind of the entity: rank, gpu, host, port, swport, ..."),
        Column("entity", SYM, None, "the entity"),
        Column(
            "metric",
            SYM,
            None,
            "the metric, by its name in `series`; of steps and collectives `step.*`, `collective.*`",
        ),
        Column(
            "label",
            SYM,
            None,
            "labels that tell the stream from the entity's others of this name, `mode=iowait`; null: it is the only one",
            nullable=True,
        ),
        Column("start_ns", I64, "ns", "first sample that is out, cluster time"),
        Column("earliest_ns", I64, "ns", "the sample before that: the change lies between the two"),
        Column("end_ns", I64, "ns", "until when; null while it lasts", nullable=True),
        Column(
            "bound_ns", I64, "ns", "how wrong `start_ns` may be by the clock of its host; null: unknown", nullable=True
        ),
        Column("score", F64, None, "how far outside, in robust standard deviations; the largest so far"),
        Column(
            "share",
            F64,
            "ratio",
            "its part of what is odd about the entity in that window: attributions of one entity add up to 1",
        ),
        Column("direction", SYM, None, "high, low or shape"),
        Column("witness", SYM, None, "past or peers"),
        Column("expected", F64, None, "value expected"),
        Column("seen", F64, None, "value seen"),
        Column("reported_ns", I64, "ns", "end of the window that reported it first"),
        _SEEN,
    ),
    order=("entity", "start_ns"),
    more_key=("metric", "witness"),
    time="start_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/anomaly",
    newest="seen_ns",
    former=Former(columns={"reported_ns": "told_ns"}),
)

SYMPTOM = Table(
    "symptom",
    doc="A symptom: a job that is slow, stalled or crashed, or an expectation whose error budget burns. Causes are searched from here.",
    own=(
        Column("entity", SYM, None, "entity with the symptom: the job, or the entity whose expectation burns"),
        Column("job", SYM, None, "the affected job; null: none", nullable=True),
        Column("symptom", SYM, None, "slow, stall, crash, sle"),
        Column("start_ns", I64, "ns", "first lost second, cluster time"),
        Column("end_ns", I64, "ns", "over since; null while it lasts", nullable=True),
        Column("bound_ns", I64, "ns", "how wrong `start_ns` may be by clocks; null: unknown", nullable=True),
        Column("reported_ns", I64, "ns", "end of the window that reported it first"),
        Column("lost_gpu_seconds", F64, "gpu_s", "lost so far"),
        Column("lost_share", F64, "ratio", "lost of the GPU time that was held since it began"),
        Column(
            "blamed",
            STR,
            None,
            'JSON list, most lost first, of {"owner": entity, an edge `rank:J/0>rank:J/1` or words, "category": text, '
            '"how": text, "lost_gpu_seconds": number, "since_ns": int}; []: nobody',
        ),
        Column(
            "missing", SYM, None, "the missing input without which no owner could be named; null: none", nullable=True
        ),
        Column("evidence", STR, None, f"JSON list, the most telling first, of {_EVIDENCE}"),
        _SEEN,
    ),
    order=("entity", "start_ns"),
    more_key=("symptom",),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/stalls, analysis/slowdowns, analysis/burning, analysis/telemetry",
    newest="seen_ns",
    partition=Partition.NONE,
    former=Former(columns={"reported_ns": "told_ns"}, words={"blamed": _BLAMED_BEFORE}),
)

INCIDENT = Table(
    "incident",
    doc="Symptoms of one cause (or of one set of causes), from the first lost second until it is over.",
    own=(
        Column("incident", STR, None, "id: first symptom's entity, its kind, and when"),
        Column("entity", SYM, None, "entity of the first symptom"),
        Column("job", SYM, None, "the most affected job", nullable=True),
        Column("jobs", SYMS, None, "all affected jobs of this tenant"),
        Column("symptom", SYM, None, "slow, stall, crash, sle: of the symptom that costs most"),
        Column("start_ns", I64, "ns", "first lost second"),
        Column("end_ns", I64, "ns", "over since; null while it lasts", nullable=True),
        Column("bound_ns", I64, "ns", "how wrong `start_ns` may be by clocks; null: unknown", nullable=True),
        Column("reported_ns", I64, "ns", "end of the window that reported it first"),
        Column("state", SYM, None, "open, over"),
        Column("verdict", SYM, None, "known, unknown"),
        Column("missing", SYM, None, "unknown for want of this input; null: of none", nullable=True),
        Column(
            "lost_gpu_seconds",
            F64,
            "gpu_s",
            "lost so far, as estimated when it was told; views show what the ledger says",
        ),
        Column(
            "suppressed",
            SYM,
            None,
            "why it does not alert: maintenance, drain, preemption, ...; null if it does",
            nullable=True,
        ),
        Column(
            "symptoms",
            STR,
            None,
            'JSON list of the symptoms that are this incident: {"entity", "job", "symptom", "missing": texts, "start_ns": '
            'int, "end_ns", "bound_ns": int or null, "lost_gpu_seconds": number, "blamed": list of {"owner", "category", '
            '"how": texts, "share": of what it lost, 0 to 1, "since_ns": int or null}}',
        ),
        _SEEN,
    ),
    order=("incident",),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/cause",
    newest="seen_ns",
    partition=Partition.NONE,
    former=Former(columns={"reported_ns": "told_ns"}, words={"symptoms": _BLAMED_BEFORE}),
)

CAUSE = Table(
    "cause",
    doc="One ranked cause of an incident with its evidence, or one that was considered and is not it.",
    own=(
        Column("incident", STR, None, "the incident"),
        Column("position", I64, None, "1 for the likeliest"),
        Column("entity", SYM, None, "the component"),
        Column("rule", SYM, None, "fault, by the rule that matched: slow-gpu, link-flapping, oom-kill, ..."),
        Column("chosen", BOOL, None, "one of the causes named; false: considered, and not it"),
        Column("layer", SYM, None, "layer of the component"),
        Column("class", SYM, None, "persistent, gray, transient, unknown"),
        Column("probability", F64, "ratio", "how likely it is among the causes"),
        Column("start_ns", I64, "ns", "onset of its own evidence; of the incident where there is none"),
        Column("score", STR, None, "JSON object, part of the score -> number; they add up to its logit"),
        Column(
            "evidence",
            STR,
            None,
            f"JSON list, plain readings and events first, then codes and raw counters, each the most telling first, of "
            f"{_EVIDENCE}; also until_ns, earliest_ns (int or null), score (number) and, where known, direction, "
            "witness, code, severity (texts), times (how often it was seen) and last_ns (int)",
        ),
        Column("action", SYM, None, "what to do, from the fixed list"),
        Column("action_cost", F64, "gpu_s", "GPU-seconds that the action costs; null: not known", nullable=True),
        Column("saves", F64, "gpu_s", "GPU-seconds that it saves in the next hour; null: not known", nullable=True),
        Column("waiting_cost", F64, "gpu_s", "GPU-seconds that ten minutes of waiting cost"),
        Column("text", STR, None, "why it is, or is not, the cause, in a sentence"),
        _SEEN,
    ),
    order=("incident", "position"),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/cause",
    newest="seen_ns",
    partition=Partition.NONE,
    former=Former(words={"rule": _RULES_BEFORE, "text": (("(late-rank)", "(straggler)"),)}),
)

MARK = Table(
    "mark",
    doc="Feedback: a person marked a cause right or wrong, or dismissed, commented on or assigned an incident. Rules that are "
    "often wrong are switched off.",
    own=(
        Column("incident", STR, None, "the incident"),
        Column(
            "entity", SYM, None, "the component that was named; of a dismissed incident the entity with the symptom"
        ),
        Column("rule", SYM, None, "the rule that named it; empty: the incident as a whole"),
        Column("mark", SYM, None, "right, wrong, dismissed, comment, assigned"),
        Column("actor", SYM, None, "who says so"),
        Column("reason", STR, None, "why; the comment; to whom it is assigned, empty: nobody"),
        Column("time_ns", I64, "ns", "when"),
    ),
    order=("incident", "time_ns"),
    more_key=("entity", "rule", "actor"),
    time="time_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="server: leadline mark",
    partition=Partition.NONE,
    former=Former(words={"rule": _RULES_BEFORE}),
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
    doc="One window of one analysis: outcome and revision.",
    own=(
        Column("analysis", SYM, None, "name of the analysis"),
        Column(
            "part", SYM, None, "job that was judged; `tenant:T`: what is T's in the cluster; empty: the whole cluster"
        ),
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
    former=Former(words={"analysis": (("usual", "baseline"),)}),
)
