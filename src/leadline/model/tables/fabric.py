"""Network, clocks, and the graph of what stands on what."""

from __future__ import annotations

from leadline.model.tables.spec import (
    DAY,
    F64,
    I64,
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

END_NS = Column("end_ns", I64, "ns", "end of the window, cluster time")
WINDOW_NS = Column("window_ns", I64, "ns", "length of the window")

FLOW_SAMPLE = Table(
    "flow_sample",
    doc="One sampled packet header at one switch port.",
    own=(
        Column("switch", SYM, None, "switch that sampled it"),
        Column("in_port", SYM, None, "port it came in by", nullable=True),
        Column("out_port", SYM, None, "port it left by", nullable=True),
        Column("time_ns", I64, "ns", "when the sample arrived here"),
        Column("rate", U64, "1", "one packet in this many was sampled"),
        Column("frame_bytes", U64, "bytes", "length of the frame on the wire"),
        Column("protocol", I64, None, "IP protocol number"),
        Column("src_ip", STR, None, "source address"),
        Column("dst_ip", STR, None, "destination address"),
        Column("src_port", I64, None, "source port, 0 if the protocol has none"),
        Column("dst_port", I64, None, "destination port, 0 if the protocol has none"),
        Column("dst_qp", I64, None, "destination queue pair of a RoCEv2 packet", nullable=True),
        Column("dscp", I64, None, "differentiated services code point"),
        Column("ecn", I64, None, "congestion notification bits: 3 = congestion experienced"),
        Column("dropped", SYM, None, "why the switch discarded it; null if it was forwarded", nullable=True),
        Column("flow", U128, None, "directional flow id"),
    ),
    order=("flow", "time_ns"),
    more_key=("switch",),
    time="time_ns",
    keep_hours=3 * DAY,
    identity=Identity.BATCH,
    written_by="sFlow",
    partition=Partition.DAY,
)

FLOW_SENT = Table(
    "flow_sent",
    doc="What the sender of one flow counted in one interval: sent, sent again, waited. Only flows that sent something.",
    own=(
        Column("time_ns", I64, "ns", "end of the interval, on the clock of the host that sends", clocked=True),
        Column("window_ns", I64, "ns", "length of the interval; deltas are over it, the rest is as it was at its end"),
        Column("flow", U128, None, "directional flow id, as that of `flow_sample`"),
        Column("protocol", I64, None, "IP protocol number"),
        Column("src_ip", STR, None, "source address"),
        Column("dst_ip", STR, None, "destination address"),
        Column("src_port", I64, None, "source port"),
        Column("dst_port", I64, None, "destination port"),
        Column("dst_qp", I64, None, "destination queue pair of RoCEv2", nullable=True),
        Column("packets", U64, "packets", "packets with data that were sent, those sent again too"),
        Column("again", U64, "packets", "of them, those sent again"),
        Column("needless", U64, "packets", "sent again, and the receiver had them already", nullable=True),
        Column("timeouts", U64, "1", "times that the sender waited in vain and began anew", nullable=True),
        Column("bytes", U64, "bytes", "sent, what was sent again too"),
        Column("acked_bytes", U64, "bytes", "acknowledged by the receiver", nullable=True),
        Column("busy_ns", I64, "ns", "time with something sent and not yet acknowledged", nullable=True),
        Column("rtt_ns", I64, "ns", "round trip, smoothed by the sender", nullable=True),
        Column("rtt_var_ns", I64, "ns", "its mean deviation", nullable=True),
        Column("rtt_min_ns", I64, "ns", "smallest round trip of the last minutes", nullable=True),
        Column("delivery_bps", F64, "bits/s", "rate of the latest delivery, as the sender measured it", nullable=True),
    ),
    order=("flow", "time_ns"),
    time="time_ns",
    keep_hours=3 * DAY,
    identity=Identity.BATCH,
    written_by="agent/tcp_diag",
    partition=Partition.DAY,
    host_row=True,
)

PROBE = Table(
    "probe",
    doc="One probe packet between two hosts; short-lived raw material of clock and delay.",
    own=(
        Column("src", SYM, None, "host that sent it"),
        Column("dst", SYM, None, "host that received it"),
        Column("src_port", I64, None, "source port: chooses the path"),
        Column("class", I64, None, "traffic class"),
        Column("seq", U64, None, "number of the pair"),
        Column("position", I64, None, "0 or 1: first or second packet of the pair"),
        Column("tx_ns", I64, "ns", "sent, on the sender's clock"),
        Column("rx_ns", I64, "ns", "received, on the receiver's clock"),
        Column("stamp", SYM, None, "where the stamps were taken: hardware, kernel, user"),
        Column("tx_clock", SYM, None, "the sender's clock"),
        Column("rx_clock", SYM, None, "the receiver's clock"),
    ),
    order=("dst", "src", "seq"),
    more_key=("src_port", "class", "position", "tx_ns"),
    time="tx_ns",
    keep_hours=1,
    identity=Identity.BATCH,
    written_by="prober",
    partition=Partition.HOUR,
)

RELATION = Table(
    "relation",
    doc="One edge of the dependency graph, with the time it held.",
    own=(
        Column("child", SYM, None, "what depends or belongs"),
        Column("parent", SYM, None, "what it depends on or belongs to"),
        Column("kind", SYM, None, "runs-on, in, has, linked, member, owns, mounts, shares-machine, held-by"),
        Column("from_ns", I64, "ns", "since when it held"),
        Column("to_ns", I64, "ns", "until when it held; null while it holds", nullable=True),
        Column("source", SYM, None, "who said so"),
        Column("confidence", F64, "ratio", "1 if it was read off, less if it was inferred"),
    ),
    order=("child", "kind", "from_ns"),
    more_key=("parent", "source"),
    time="from_ns",
    age="to_ns",  # an edge that still holds does not age
    keep_hours=400 * DAY,
    identity=Identity.KEY,
    written_by="all sources",
)

CONFLICT = Table(
    "conflict",
    doc="Where sources contradict each other or the graph: both claims are kept, and nothing is chosen in silence.",
    own=(
        Column("entity", SYM, None, "what the claims are about"),
        Column("kind", SYM, None, "two-hosts, two-links, two-owners, wrong-port, off-path, loop, ..."),
        Column("start_ns", I64, "ns", "since when both hold"),
        Column("end_ns", I64, "ns", "last time that both held; null while they do", nullable=True),
        Column("claims", SYMS, None, "what is claimed: entities"),
        Column("sources", SYMS, None, "who claims it"),
        Column("used", SYM, None, "the claim that was used; null: none was", nullable=True),
        Column("count", U64, "1", "rows or samples that say so"),
        Column("text", STR, None, "the contradiction in a sentence, and what to look at"),
        Column("seen_ns", I64, "ns", "end of the newest window that reports it"),
    ),
    order=("entity", "start_ns"),
    more_key=("kind",),
    time="start_ns",
    age="seen_ns",  # one that is still told does not age
    newest="seen_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/graph, analysis/path",
)

WATERMARK = Table(
    "watermark",
    doc="How far the data of a sender has come: all that it saw of a job up to here is stored.",
    own=(
        Column("reported_ns", I64, "ns", "when the sender reported it", clocked=True),
        Column("to_ns", I64, "ns", "all that it saw of the job up to this time is stored", clocked=True),
        Column("sender", SYM, None, "agent, or another program that sends in its place"),
        Column("job", SYM, None, "the job; empty: what it sends of the host itself"),
        Column("ranks", I64, "1", "ranks of the job that run on the host"),
        Column(
            "state",
            SYM,
            None,
            "open; ended once these ranks are gone and all of them is stored, or the sender was told to stop; late or "
            "lost in the server's own rows",
        ),
        Column(
            "heard_ns",
            I64,
            "ns",
            "when the server heard the sender, by its own clock; null in what senders say",
            nullable=True,
        ),
        Column(
            "took_ns",
            I64,
            "ns",
            "how long it took until the report before this one was answered, or given up; null: not known",
            nullable=True,
        ),
    ),
    order=("host", "sender", "job", "reported_ns"),
    more_key=("clock",),
    time="reported_ns",
    keep_hours=2 * DAY,
    identity=Identity.KEY,
    written_by="agent, lab simulator, runner",
    partition=Partition.DAY,
    host_row=True,
    former=Former(columns={"reported_ns": "told_ns"}),
)

EDGE_FIT = Table(
    "edge_fit",
    doc="What probes between two hosts say in one window: how far their clocks differ, how long packets take each way.",
    own=(
        Column("src", SYM, None, "host that fitted the edge; its prober's clock is meant where none is named"),
        Column("dst", SYM, None, "the other host"),
        Column("dst_clock", SYM, None, "clock of the other host"),
        Column("src_port", I64, None, "source port: chooses the path"),
        Column("class", I64, None, "traffic class (DSCP) of the probes"),
        Column("end_ns", I64, "ns", "end of the window, on the host's own clock", clocked=True),
        Column("probe_ns", I64, "ns", "the same on the prober's clock, which nobody steers"),
        Column(
            "ahead_ns", I64, "ns", "the host's own clock minus its prober's then; null: end less probe", nullable=True
        ),
        WINDOW_NS,
        Column("report_ns", I64, "ns", "of the last so many of it are the delays"),
        Column("offset_ns", I64, "ns", "the other prober's clock minus this one's, at the end", nullable=True),
        Column("rate_ppb", F64, "ppb", "how fast that grows", nullable=True),
        Column("bound_ns", I64, "ns", "no line that all probes allow is farther off there", nullable=True),
        Column("width_ns", F64, "ns", "half of the smallest delay there and back", nullable=True),
        Column("noise_ns", F64, "ns", "standard error of the offset", nullable=True),
        Column("probes", U64, "1", "probes that the line was drawn from, both ways"),
        Column(
            "state",
            SYM,
            None,
            "valid; else why there is no line: few-points, few-corners, torn, no-overlap; self: a host alone",
        ),
        Column("stamp", SYM, None, "where the stamps were taken: hardware, kernel, user"),
        *(
            column
            for way, to in (("there", "from src to dst"), ("back", "from dst to src"))
            for column in (
                Column(f"{way}_min_ns", I64, "ns", f"smallest delay {to}, by the edge's own offset", nullable=True),
                Column(f"{way}_p50_ns", I64, "ns", f"median delay {to}", nullable=True),
                Column(f"{way}_p99_ns", I64, "ns", f"99th percentile of the delay {to}", nullable=True),
                Column(f"{way}_queue_ns", I64, "ns", "99th percentile less the smallest of ten minutes", nullable=True),
                Column(f"{way}_sent", U64, "1", f"probes sent {to}"),
                Column(f"{way}_lost", U64, "1", f"of these, lost {to}"),
            )
        ),
        Column("stall_ns", I64, "ns", "99th percentile of how long probes waited here for the process", nullable=True),
    ),
    order=("src", "dst", "end_ns"),
    more_key=("src_port", "class"),
    time="end_ns",
    keep_hours=DAY,
    identity=Identity.BATCH,
    written_by="agent/mesh",
    partition=Partition.DAY,
    host_row=True,
)

CLOCK_FIT = Table(
    "clock_fit",
    doc="How a host's clock maps to cluster time in one window.",
    own=(
        END_NS,
        Column("offset_ns", I64, "ns", "host time minus cluster time at the end of the window"),
        Column("rate_ppb", F64, "ppb", "drift of the host's clock"),
        Column("bound_ns", I64, "ns", "the offset is right to within this"),
        Column("noise_ns", F64, "ns", "spread of the residuals"),
        Column("island", I64, None, "0 is the largest; hosts of one share a time, those of two are not comparable"),
        Column(
            "state",
            SYM,
            None,
            "fitted; carried on from an older fit; asymmetric: many of its edges disagree, which its bound says; "
            "re-anchored: cluster time moved; stepped: it was set; lying or lost: not to be trusted",
        ),
    ),
    order=("host", "end_ns"),
    more_key=("clock",),
    time="end_ns",
    keep_hours=30 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/clock",
    partition=Partition.DAY,
    host_row=True,
)

DELAY = Table(
    "delay",
    doc="One-way delay of one edge in one window.",
    own=(
        Column("src", SYM, None, "sender"),
        Column("dst", SYM, None, "receiver"),
        Column("src_port", I64, None, "source port; null: all of them", nullable=True),
        Column("class", I64, None, "traffic class"),
        END_NS,
        WINDOW_NS,
        Column("min_ns", I64, "ns", "smallest one-way delay; null: nothing arrived", nullable=True),
        Column("p50_ns", I64, "ns", "median", nullable=True),
        Column("p99_ns", I64, "ns", "99th percentile", nullable=True),
        Column("queue_p99_ns", I64, "ns", "99th percentile less the smallest of the day: queueing", nullable=True),
        Column("lost", F64, "ratio", "share of probes lost; 1 where nothing came from the other end"),
        Column("count", U64, "1", "probes seen"),
        Column("bound_ns", I64, "ns", "the delays are right to within this", nullable=True),
        Column(
            "state",
            SYM,
            None,
            "known; asymmetric: its ways differ by what loops say; unclocked: of one clock or both nothing is known, so "
            "its ways are taken to be as long; dark: nothing arrived",
            nullable=True,
        ),
    ),
    order=("src", "dst", "end_ns"),
    more_key=("src_port", "class", "window_ns"),
    time="end_ns",
    keep_hours=30 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/clock",
    partition=Partition.DAY,
)

_NAMED = (
    Column("entity", SYM, None, "the entity named"),
    Column("others", SYMS, None, "entities that cannot be distinguished from it"),
    Column("probability", F64, "ratio", "how likely"),
    Column("kind", SYM, None, "what is suspected"),
    Column("start_ns", I64, "ns", "since when"),
    Column("end_ns", I64, "ns", "until when; null while it lasts", nullable=True),
    Column("evidence", STR, None, "JSON list of row references"),
    Column("seen_ns", I64, "ns", "end of the newest window that reports it"),
)

SUSPECT = Table(
    "suspect",
    doc="A link, port or host that localisation names, with its equally likely set.",
    own=_NAMED,
    order=("entity", "start_ns"),
    more_key=("kind",),
    time="start_ns",
    newest="seen_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/localise",
)

COLOCATION = Table(
    "colocation",
    doc="Virtual hosts on one machine.",
    own=_NAMED,
    order=("entity", "start_ns"),
    more_key=("kind",),
    time="start_ns",
    newest="seen_ns",
    keep_hours=90 * DAY,
    identity=Identity.REVISION,
    written_by="analysis/colocation",
)
