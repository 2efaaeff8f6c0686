"""Accounts: where the seconds of jobs went, what usually they take, what failed, and what was promised."""

from __future__ import annotations

from leadline.model.tables.fabric import END_NS, WINDOW_NS
from leadline.model.tables.spec import DAY, F64, I64, STR, SYM, SYMS, U64, Column, Former, Identity, Partition, Table

_JOB = Column("job", SYM, None, "the job")

LEDGER = Table(
    "ledger",
    doc="Seconds of a job that one owner took in one window; all rows of a window add up to the job's time in it.",
    own=(
        _JOB,
        END_NS,
        WINDOW_NS,
        Column("category", SYM, None, "compute, input, communication, straggler, checkpoint, restart, idle, unknown"),
        Column(
            "owner",
            SYM,
            None,
            "edge, rank or part that took them; of unknown: the input that is missing",
            nullable=True,
        ),
        Column("seconds", F64, "s", "wall seconds, in multiples of 2**-20 s, so that sums are exact"),
        Column("gpu_seconds", F64, "gpu_s", "seconds times GPUs held"),
        Column("lost_seconds", F64, "s", "of these, time beyond the baseline (`baseline`)"),
        Column("lost_gpu_seconds", F64, "gpu_s", "the same times GPUs held"),
        Column("confidence", F64, "ratio", "how sure of category and owner"),
        Column("depth", SYM, None, "input it was derived from: operations, collectives, steps, events, none"),
    ),
    order=("job", "end_ns"),
    more_key=("window_ns", "category", "owner", "depth"),
    time="end_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/ledger",
    former=Former(words={"category": (("late-rank", "straggler"),)}),
)

BASELINE = Table(
    "baseline",
    doc="How long what a job repeats took in one window: its steps, and its collectives of one kind and size.",
    own=(
        _JOB,
        Column(
            "what",
            SYM,
            None,
            "step, input, compute, checkpoint, or a collective: `all_reduce 524288 B on 8 of bert-1/0x9c`",
        ),
        END_NS,
        WINDOW_NS,
        Column("count", U64, "1", "how many there were"),
        Column("low_s", F64, "s", "time that a quarter of them did not exceed"),
        Column("median_s", F64, "s", "time that half of them did not exceed"),
    ),
    order=("job", "end_ns"),
    more_key=("window_ns", "what"),
    time="end_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/baseline",
    former=Former("usual", words={"analysis": (("usual", "baseline"),)}),
)

PROFILE = Table(
    "profile",
    doc="Baseline of an entity's metrics taken together, learnt over hours: the state that `anomaly` writes and reads back.",
    own=(
        Column("entity_kind", SYM, None, "kind of the entity"),
        Column("entity", SYM, None, "the entity"),
        END_NS,
        WINDOW_NS,
        Column("bin_s", I64, "s", "width of the bins that it was learnt from; each width is a profile of its own"),
        Column("since_ns", I64, "ns", "when learning began: the entity's work changed, or nothing was known of it"),
        Column("bins", U64, "1", "bins learnt since then"),
        Column("jobs", SYMS, None, "the jobs that it worked for: of other jobs it is no past"),
        Column("streams", STR, None, "JSON list of [metric, label] of its streams, in the order of the numbers"),
        Column("numbers", STR, None, "what was learnt, in base64: docs/analyses/anomaly.md; unreadable: begun anew"),
    ),
    order=("entity", "end_ns"),
    more_key=("bin_s",),
    time="end_ns",
    keep_hours=DAY,
    identity=Identity.REVISION,
    written_by="analysis/anomaly",
)

FAILURE = Table(
    "failure",
    doc="Something that stopped a job or took a part out of service, until it was back.",
    own=(
        Column("entity_kind", SYM, None, "kind of what failed: rank, host, gpu, port, link, ..."),
        Column("entity", SYM, None, "what failed"),
        Column(
            "kind", SYM, None, "how, in the words of its event: process-exit, oom-kill, xid, link-down, silent, ..."
        ),
        Column("class", SYM, None, "gpu, network, host, memory, storage, software, operator, unknown"),
        Column("job", SYM, None, "job that it stopped; null if none is known", nullable=True),
        Column("gpus", I64, "1", "GPUs of that job, or of the part", nullable=True),
        Column("start_ns", I64, "ns", "when, cluster time"),
        Column("end_ns", I64, "ns", "back in service; null while it is not", nullable=True),
        Column("seen_ns", I64, "ns", "end of the window that reports it"),
        Column("evidence", STR, None, "the event, in a sentence"),
    ),
    order=("entity", "start_ns"),
    more_key=("kind",),
    time="start_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/failures",
    newest="seen_ns",
    told_once=True,
)

EXPECTATION = Table(
    "expectation",
    doc="An expectation and since when it holds; `spec` is its YAML, see docs/expectations.md.",
    own=(
        Column("expectation", SYM, None, "its name"),
        Column("layer", SYM, None, "application, collective, gpu, host, nic, fabric, storage, time, telemetry"),
        Column("from_ns", I64, "ns", "since when it holds"),
        Column("to_ns", I64, "ns", "until when; null: still", nullable=True),
        Column("spec", STR, None, "metric, bound, objective, whom it is held against"),
        Column("source", SYM, None, "defaults, or the file it was read from"),
    ),
    order=("expectation", "from_ns"),
    time="from_ns",
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="server, from leadline.yaml",
    partition=Partition.NONE,
    age="to_ns",
    former=Former(words={"spec": (("ledger: late-rank", "ledger: straggler"),)}),
)

_HELD = (
    Column("expectation", SYM, None, "name of the expectation"),
    Column("layer", SYM, None, "application, collective, gpu, host, nic, fabric, storage, time, telemetry"),
    Column("entity", SYM, None, "entity it is held against"),
    END_NS,
    WINDOW_NS,
)

SLE = Table(
    "sle",
    doc="Good and bad seconds of one expectation of one entity in one window; with the missing ones they fill it.",
    own=(
        *_HELD,
        Column("good_s", F64, "s", "seconds within bounds"),
        Column("bad_s", F64, "s", "seconds out of bounds"),
        Column("missing_s", F64, "s", "seconds without data: never good"),
        Column("objective", F64, "ratio", "share of seconds that is promised to be good"),
        Column("lost_gpu_seconds", F64, "gpu_s", "GPU time lost to this entity in the window, by the ledger"),
        Column("why_missing", SYM, None, "input that is missing, where seconds are", nullable=True),
    ),
    # Hours lie together, apart from minutes, and both by time: a month is read without the sixty times as many minutes,
    # and the last hour without the month.
    order=("layer", "window_ns", "end_ns"),
    more_key=("entity", "expectation"),
    time="end_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/sle, analysis/sle-hours",
)

SLE_LOSS = Table(
    "sle_loss",
    doc="The bad seconds of an expectation, by what made them bad; they add up to `sle.bad_s`.",
    own=(
        *_HELD,
        Column("classifier", SYM, None, "which bound was broken and how, in short: `gpu_temp above 85`"),
        Column("metric", SYM, None, "metric that broke it"),
        Column("culprit", SYM, None, "entity whose metric it is: the entity itself, or a part of it"),
        Column("bound", SYM, None, "absolute, past, peers"),
        Column("seconds", F64, "s", "bad seconds with this classifier"),
    ),
    order=("layer", "window_ns", "end_ns"),
    more_key=("entity", "expectation", "classifier", "metric", "culprit", "bound"),
    time="end_ns",
    keep_hours=400 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/sle, analysis/sle-hours",
    former=Former(words={"metric": (("ledger.late-rank", "ledger.straggler"),)}),
)
