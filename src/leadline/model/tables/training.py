"""What a training job tells: steps, collectives, messages, operations."""

from __future__ import annotations

from leadline.model.tables.spec import (
    DAY,
    F64,
    I64,
    MAP,
    SYM,
    U64,
    U128,
    Column,
    Identity,
    Partition,
    Table,
)

JOB = Column("job", SYM, None, "the job's name, as in `job:bert-7`")
RANK = Column("rank", I64, None, "global rank in the job")
COMM = Column("comm", SYM, None, "communicator, `bert-7/0x9c`")
SEQ = Column("seq", U64, None, "number of the collective in its communicator, from 0")

STEP = Table(
    "step",
    doc="One training step of one rank: when, how long each phase, what was learned.",
    own=(
        JOB,
        RANK,
        Column("step", I64, None, "number of the step, as the job counts"),
        Column("start_ns", I64, "ns", "begin of the step", clocked=True),
        Column("end_ns", I64, "ns", "end of the step", clocked=True),
        Column("data_ns", I64, "ns", "waiting for input", nullable=True),
        Column("forward_ns", I64, "ns", "forward pass", nullable=True),
        Column("backward_ns", I64, "ns", "backward pass, communication that it overlaps included", nullable=True),
        Column("optimizer_ns", I64, "ns", "optimiser", nullable=True),
        Column("checkpoint_ns", I64, "ns", "writing a checkpoint", nullable=True),
        Column("samples", F64, "1", "samples this rank consumed", nullable=True),
        Column("tokens", F64, "1", "tokens this rank consumed", nullable=True),
        Column("loss", F64, None, "training loss", nullable=True),
        Column("metrics", MAP, None, "other values by name (TorchMetrics)"),
    ),
    order=("job", "step", "rank"),
    more_key=("start_ns",),
    time="start_ns",
    keep_hours=90 * DAY,
    identity=Identity.BATCH,
    written_by="torch hook, TorchMetrics",
    host_row=True,
)

COLLECTIVE = Table(
    "collective",
    doc="One collective on one rank: when it was asked for, started, finished.",
    own=(
        JOB,
        COMM,
        Column("ranks", I64, "1", "size of the communicator"),
        RANK,
        SEQ,
        Column("op", SYM, None, "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, ..."),
        Column("bytes", U64, "bytes", "payload of this rank"),
        Column("dtype", SYM, None, "element type"),
        Column("algo", SYM, None, "algorithm the library chose", nullable=True),
        Column("enqueued_ns", I64, "ns", "the rank arrived: the call was made", clocked=True),
        Column("started_ns", I64, "ns", "work began", nullable=True, clocked=True),
        Column("finished_ns", I64, "ns", "work ended on this rank", nullable=True, clocked=True),
        Column("state", SYM, None, "enqueued, started, finished, failed"),
        Column("source", SYM, None, "what saw it: nccl-plugin, flight-recorder, torch-hook"),
    ),
    order=("job", "comm", "seq", "rank"),
    more_key=("op", "state"),
    time="enqueued_ns",
    keep_hours=14 * DAY,
    identity=Identity.BATCH,
    written_by="NCCL plug-in, Flight Recorder, torch hook",
    partition=Partition.DAY,
    host_row=True,
)

MESSAGE_END = Table(
    "message_end",
    doc="One end of a point-to-point transfer, inside a collective or by itself.",
    own=(
        JOB,
        COMM,
        Column("channel", I64, None, "channel (ring or tree) of the communicator"),
        SEQ,
        Column("step", I64, None, "number of the transfer on its channel in the collective"),
        Column("side", SYM, None, "send or recv"),
        RANK,
        Column("peer", I64, None, "global rank at the other end"),
        Column("bytes", U64, "bytes", "payload"),
        Column("begin_ns", I64, "ns", "posted", clocked=True),
        Column("end_ns", I64, "ns", "send: accepted by the network; recv: data complete", clocked=True),
        Column("flow", U128, None, "flow it rode, where known", nullable=True),
    ),
    order=("job", "comm", "seq", "channel"),
    more_key=("step", "side", "rank", "peer"),
    time="begin_ns",
    keep_hours=2 * DAY,
    identity=Identity.BATCH,
    written_by="NCCL plug-in, ring benchmark, torch hook",
    partition=Partition.DAY,
    host_row=True,
)

MESSAGE = Table(
    "message",
    doc="Both ends of a transfer joined: sent, received, one-way delay.",
    own=(
        JOB,
        COMM,
        Column("channel", I64, None, "channel (ring or tree) of the communicator"),
        SEQ,
        Column("step", I64, None, "number of the transfer on its channel in the collective"),
        Column("src_rank", I64, None, "sender"),
        Column("dst_rank", I64, None, "receiver"),
        Column("bytes", U64, "bytes", "payload"),
        Column("sent_ns", I64, "ns", "accepted by the network, cluster time"),
        Column("received_ns", I64, "ns", "complete at the receiver, cluster time"),
        Column("delay_ns", I64, "ns", "one-way delay"),
        Column(
            "bound_ns", I64, "ns", "the delay is right to within this; null if the clocks are not fitted", nullable=True
        ),
        Column("flow", U128, None, "flow it rode, where known", nullable=True),
    ),
    order=("job", "comm", "seq", "channel"),
    more_key=("step", "src_rank", "dst_rank"),
    time="sent_ns",
    keep_hours=7 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/messages",
    partition=Partition.DAY,
)

OPERATION = Table(
    "operation",
    doc="One operation of a profiler trace.",
    own=(
        JOB,
        RANK,
        Column("stage", I64, None, "pipeline stage"),
        Column("dp_rank", I64, None, "data-parallel rank"),
        Column("step", I64, None, "training step"),
        Column("kind", SYM, None, "forward-compute, backward-compute, send, recv, all-reduce, optimizer, ..."),
        Column("start_ns", I64, "ns", "begin", clocked=True),
        Column("duration_ns", I64, "ns", "length"),
        SEQ,
        Column("micro_batch", I64, None, "micro-batch, of compute operations", nullable=True),
        Column("chunk", I64, None, "model chunk in the stage", nullable=True),
    ),
    order=("job", "step", "rank"),
    more_key=("kind", "seq", "start_ns"),
    time="start_ns",
    keep_hours=30 * DAY,
    identity=Identity.BATCH,
    written_by="Kineto, trace import",
    host_row=True,
)
