"""Everything that Leadline counts about itself, declared once.

A thing that is refused or dropped is counted under one of these, never silently. `severity` says how bad one
more is: `info` (nothing lost), `error` (a sender or a setting needs a hand), `data_loss` (telemetry is missing
that nobody can send again). `do` is one sentence telling the reader what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad one more of a counter is."""

    INFO = "info"
    ERROR = "error"
    DATA_LOSS = "data_loss"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter: `leadline_<family>_total{reason="<reason>"}`; `unit` says what one is."""

    family: str
    reason: str
    unit: str
    severity: Severity
    doc: str
    do: str


_REFUSED = "ingest_refused"
_NOTHING = "Nothing to do."


def _refused(reason: str, unit: str, severity: Severity, doc: str, do: str) -> Counter:
    return Counter(_REFUSED, reason, unit, severity, doc, do)


ERROR, INFO, LOSS = Severity.ERROR, Severity.INFO, Severity.DATA_LOSS

COUNTERS: tuple[Counter, ...] = (
    # taken in
    Counter("ingest_accepted", "samples", "samples", INFO, "Metric samples stored and acknowledged.", _NOTHING),
    Counter("ingest_accepted", "rows", "rows", INFO, "Rows of other tables stored and acknowledged.", _NOTHING),
    Counter("ingest_accepted", "series", "series", INFO, "Metric streams seen for the first time.", _NOTHING),
    Counter("ingest_accepted", "stale_markers", "samples", INFO, "Prometheus stale markers, stored as NaN.", _NOTHING),
    Counter("ingest_accepted", "late_samples", "samples", INFO, "Samples older than their stream's newest; stored.", _NOTHING),
    Counter("ingest_accepted", "repeated_batches", "batches", INFO, "Batches that came again after an answer was lost; acknowledged, not stored twice.", _NOTHING),
    Counter("ingest_accepted", "datagrams", "datagrams", INFO, "Datagrams of sFlow decoded.", _NOTHING),
    # refused whole
    _refused("malformed", "requests", ERROR, "Bodies that could not be decoded.", "Look at the sample kept by `leadline doctor` and correct the sender."),
    _refused("unsupported_encoding", "requests", ERROR, "A content encoding or type that this endpoint does not accept.", "Send snappy (remote-write), or gzip or no compression (OTLP, rows)."),
    _refused("body_too_large", "requests", ERROR, "Bodies over `ingest.body_bytes_max`.", "Send smaller batches or raise ingest.body_bytes_max."),
    _refused("decompressed_too_large", "requests", ERROR, "Bodies that would unpack to more than `ingest.decompressed_bytes_max`.", "Send smaller batches; a body that expands this much is often an attack."),
    _refused("body_slow", "requests", ERROR, "Bodies of which nothing came for 30 s, or that were not whole after 120 s; answered 408.", "See what holds the sender up, or send smaller batches; many of one address may be an attack."),
    _refused("queue_full", "requests", INFO, "Answered 429 (503 to remote-write) because a queue was full; the sender tries again.", "If it lasts, the store is slower than what comes in: give it more CPU, or send less."),
    _refused("compiling", "requests", INFO, "Answered 429 (503 to remote-write) because the scanners are being compiled, once on each machine; the sender tries again.", "Wait: it takes about a minute on two cores; `leadline doctor` says how far it is."),
    _refused("sender_full", "requests", ERROR, "Answered 429 (503 to remote-write) because this sender alone had too many bodies begun, or waited with more requests than others; it tries again.", "Send from fewer connections or in larger batches; if it is no sender of yours, keep its address out."),
    _refused("memory_full", "requests", ERROR, "Answered 429 (503 to remote-write) because the server held all the memory of `server.memory_bytes_max`; the sender tries again.", "Read what `leadline doctor` says of memory: raise server.memory_bytes_max if the machine has more, or send fewer streams."),
    _refused("store_unavailable", "requests", ERROR, "Answered 503 because the store could not take the rows; the sender tries again.", "Read the store's error in `leadline doctor`; usually the disk is full."),
    _refused("unauthorized", "requests", ERROR, "Requests without the right token.", "Give the sender a token: `leadline token create NAME --role write`; the response says why its current one is rejected."),
    _refused("forbidden", "requests", ERROR, "Requests with a token whose role or tenant does not allow them.", "Give the sender a token with the role write of the tenant that it sends for."),
    _refused("verdict_table", "requests", ERROR, "Rows of tables that Leadline concludes itself, from a sender that is no operator.", "Send what was measured; an operator imports verdicts of elsewhere."),
    _refused("unknown_table", "requests", ERROR, "Rows for a table that does not exist.", "See `leadline show tables` for the names."),
    _refused("unknown_incident", "requests", ERROR, "Requests about an incident that does not exist.", "See `leadline show incidents` for their ids."),
    _refused("unknown_sender", "datagrams", ERROR, "Datagrams of sFlow from an address that `ingest.sflow.senders` does not list.", "If it is a switch of yours, list its address and name there."),
    # refused in part
    _refused("tenant_limit", "requests", ERROR, "Requests of a tenant or cluster beyond the 10,000 that are counted separately.", "Look whether a sender makes up the headers leadline-tenant or leadline-cluster."),
    _refused("bad_row", "requests", ERROR, "Bodies with a row that does not fit its table; none of their rows is stored.", "The answer names the line, the column and what was expected."),
    _refused("too_old", "samples", LOSS, "Samples older than `ingest.age_max_s`, and rows of bodies with one older than its table is kept.", "Correct the sender's clock, or raise ingest.age_max_s before importing old data."),
    _refused("in_future", "samples", LOSS, "Samples later than now by more than `ingest.future_max_s`, and rows of bodies with such a one.", "Correct the sender's clock (chrony, ptp4l)."),
    _refused("not_yours", "rows", INFO, "Rows and new metric streams of a tenant about hardware of the provider that the tenant does not hold. They are stored and are evidence for that tenant only.", "If the tenant rents that host, say so with a relation `held-by` of the provider; else see who sends it."),
    _refused("series_limit", "samples", LOSS, "Samples of new streams beyond `ingest.series_max` of the tenant, or `ingest.series_all_max` of all.", "Find the label with too many values in `leadline show series`, or raise the limit."),
    _refused("labels_too_many", "samples", LOSS, "Streams with more than `ingest.labels_per_series_max` labels.", "Drop labels at the sender."),
    _refused("label_too_long", "samples", LOSS, "Streams with a label name or value over `ingest.label_bytes_max`.", "Drop or shorten the label at the sender."),
    _refused("label_invalid", "samples", LOSS, "Streams without a name, with a label twice or not UTF-8.", "Correct the sender."),
    _refused("blank_value", "samples", INFO, "Markers for 'no value' (DCGM's numbers, sFlow's all ones, a network speed below 0); they are no measurements.", _NOTHING),
    _refused("histogram_buckets", "samples", LOSS, "Buckets of native or exponential histograms; their count and sum are kept.", "Send explicit buckets where the distribution matters."),
    _refused("metadata_limit", "metric names", INFO, "Types and helps of metrics beyond the 10,000 taken from one body.", "Send metadata in smaller bodies."),
    _refused("exemplar", "exemplars", INFO, "Exemplars; there is no table for them.", _NOTHING),
    _refused("empty_point", "samples", INFO, "OTLP points without a value (one flagged as such is a stale marker instead).", _NOTHING),
    _refused("time_missing", "samples", LOSS, "OTLP points without a time.", "Correct the sender: time_unix_nano is required."),
    _refused("span", "requests", INFO, "OTLP traces; Leadline takes metrics and logs.", "Leave Leadline out of the sender's traces; a tracing system takes them."),
    # event rings
    _refused("ring_lost", "records", LOSS, "Records of event rings that were overwritten before the agent read them.", "See whether the agent of that host runs and reaches Leadline; make the rings larger where it does."),
    _refused("ring_unknown", "records", ERROR, "Records of kinds that this version of Leadline does not know.", "Bring Leadline to the version of the library that writes the rings."),
    # scraping
    Counter("scrape_failed", "unreachable", "scrapes", ERROR, "Targets that did not answer in time.", "See whether the exporter runs and listens where `scrape` says."),
    Counter("scrape_failed", "status", "scrapes", ERROR, "Targets that answered with another status than 200.", "Open the target's address and read what it says."),
    Counter("scrape_failed", "too_large", "scrapes", ERROR, "Pages over `ingest.decompressed_bytes_max`.", "Split the exporter or raise the limit."),
    Counter("scrape_failed", "malformed", "scrapes", ERROR, "Pages that are not the exposition format.", "Open the target's address; the error names the line."),
    Counter("scrape_failed", "targets_file", "readings", ERROR, "Files of targets (`file_sd`) that could not be read; their targets stay as they were.", "Mend the file that the error names."),
    Counter("scrape_failed", "behind", "scrapes", ERROR, "Scrapes skipped because the one before had not ended.", "Raise the target's interval."),
    Counter("scrape_failed", "targets_limit", "targets", ERROR, "Targets beyond the 10,000 that one Leadline scrapes, counted each time the list is read.", "Scrape them with a Prometheus and send here by remote_write."),
    # sFlow: UDP cannot be pushed back, so what finds no room is gone
    Counter("sflow_lost", "kernel", "datagrams", LOSS, "Datagrams that found the socket's buffer full.", "Raise net.core.rmem_max and `ingest.sflow.receive_buffer_bytes`, or give Leadline more CPU."),
    Counter("sflow_lost", "queue", "datagrams", LOSS, "Datagrams received while `ingest.sflow.queue_bytes_max` waited to be decoded.", "Give Leadline more CPU, or sample less."),
    Counter("sflow_lost", "datagrams", "datagrams", LOSS, "Gaps in the agents' datagram numbers, wherever the datagrams were lost; less `late` of sflow_late they are the loss.", "See whether `kernel` grows too; if not, they were lost in the network before us."),
    Counter("sflow_lost", "samples", "samples", LOSS, "Gaps in the sources' sample numbers, those of lost datagrams included.", "Estimates from the other samples stay right if they use the pool; see docs/formats/sflow.md."),
    Counter("sflow_lost", "switch", "samples", LOSS, "Samples that switches say they dropped themselves, for want of resources.", "Raise the sampling rate's N on those switches."),
    Counter("sflow_lost", "store", "samples", LOSS, "Rows and metric samples of datagrams that the store could not take in time.", "Read the store's error in `leadline doctor`; the store may be slower than what comes in."),
    Counter("sflow_lost", "failed", "datagrams", LOSS, "Datagrams of batches that a mistake of ours kept from being taken.", "Report the trace in the server's log."),
    Counter("sflow_late", "datagrams", "datagrams", INFO, "Datagrams that were overtaken by a later one; taken all the same.", _NOTHING),
    Counter("sflow_skipped", "copy", "datagrams", INFO, "Datagrams that came twice; the second is not counted again.", _NOTHING),
    Counter("sflow_skipped", "sample", "samples", INFO, "Samples of a kind that Leadline does not read; passed over by their length.", _NOTHING),
    Counter("sflow_skipped", "record", "records", INFO, "Records of a kind that Leadline does not read; passed over by their length.", _NOTHING),
    Counter("sflow_senders", "malformed", "files", ERROR, "Files of `ingest.sflow.sender_files` that could not be read; they count as they were.", "The error names the file and the sender in it."),
    # connections, whichever port they came to
    Counter("connection_closed", "full", "connections", ERROR, "Connections answered 503 at once: as many were open as may be, and all of them waited for an answer.", "Raise server.connections_max and the limit of open files, or see who connects so often."),
    Counter("connection_closed", "made_room", "connections", ERROR, "Connections of the sender with most, closed to make room for another; those that had sent nothing first.", "Raise server.connections_max and the limit of open files, or see who connects so often."),
    Counter("connection_closed", "header_slow", "connections", ERROR, "Connections that sent no whole header within 10 s.", "Look for a program that connects and sends nothing; many of them are an attack."),
    Counter("connection_closed", "header_too_large", "connections", ERROR, "Connections whose header, trailer or chunk framing was over 64 KiB.", "No sender does that by itself: see who it is."),
    Counter("connection_closed", "body_slow", "connections", ERROR, "Connections that held half a question for 130 s, or sent nothing more of it for 40 s.", "See what holds the client up."),
    Counter("connection_closed", "reader_slow", "connections", ERROR, "Connections that took nothing of their answer for 120 s.", "See what holds the client up."),
    Counter("connection_closed", "pipelined", "connections", ERROR, "Connections with more than 64 requests sent ahead of their answers.", "No client does that by itself: see who it is."),
    Counter("connection_closed", "idle", "connections", INFO, "Connections without a request for 65 s.", _NOTHING),
    Counter("connection_closed", "body_too_large", "connections", ERROR, "Questions to the API with a body over 1 MiB, answered 413.", "Send telemetry to the ingestion endpoints, not to the API."),
    # the fast path
    Counter("source_overflow", "sources", "sources", ERROR, "Senders beyond the 10,000 that `leadline doctor` lists separately.", "Put an aggregating sender in front."),
    # the store
    Counter("store_failed", "append", "appends", ERROR, "Appends that failed and were tried again.", "Read the error in `leadline doctor`."),
    Counter("store_failed", "analysis", "attempts", ERROR, "Windows that could not be loaded or whose verdicts could not be stored; tried again.", "Read the store's error in the log; nothing is lost, verdicts come later."),
    Counter("store_failed", "rollup", "roll-ups", ERROR, "Roll-ups that failed; they run again within the hour.", "Read the error in the log; raw samples are kept 30 days."),
    Counter("store_failed", "streams", "attempts", ERROR, "Times of metric streams that could not be brought up to date; tried again within five minutes.", "Read the error in the log; samples are not concerned, only how far `leadline show series` says that streams reach."),
    Counter("store_disk", "full", "times", ERROR, "Times that the disk of `store.path` had less than `store.free_bytes_min` free; merges stopped, appends were refused and tried again.", "Make room, or set store.path to a larger disk."),
    Counter("store_disk", "spoilt", "parts", ERROR, "Parts of tables that could not be read; the table was loaded anew from the parts before.", "See what fills the disk of store.path; give the store a file system of its own."),
    Counter("store_disk", "lost", "rows", LOSS, "Stored rows that were gone after a table was loaded anew.", "Restore them from a back-up, or have them sent again."),
    Counter("store_disk", "aside", "parts", LOSS, "Parts that the engine put aside at a start, whose rows no other part has.", "`leadline doctor` names each and its rows; restore them from a back-up."),
    # the memory of the server process
    Counter("memory", "tight", "times", INFO, "Times that the server came to hold 85 % of `server.memory_bytes_max`; caches were let go.", "If it is often, raise server.memory_bytes_max or send fewer streams."),
    Counter("memory", "full", "times", ERROR, "Times that the server came to hold all of `server.memory_bytes_max`; bodies and queries were refused until it held less.", "Raise server.memory_bytes_max if the machine has more, or send fewer streams."),
    # parts that run beside the requests, and go on after whatever they raise
    Counter("background_failed", "scraper", "failures", ERROR, "Failures of the scraper that no answer of a target explains; it went on.", "Report the trace in the server's log."),
    Counter("background_failed", "sflow", "failures", ERROR, "Failures of the sFlow listener that no datagram explains; it went on.", "Report the trace in the server's log."),
    Counter("background_failed", "alerts", "failures", ERROR, "Failures of the alert sender; it continued.", "Report the trace in the server's log."),
    Counter("background_failed", "maintenance", "failures", ERROR, "Failures of the rounds that look after the store; they went on.", "Report the trace in the server's log."),
    Counter("background_failed", "metrics", "failures", ERROR, "Failures to read the metrics of verdicts from the store; tried again, and after five minutes those metrics are left out.", "Read the store's error in `leadline doctor`; report the trace in the server's log if there is none."),
    Counter("background_failed", "disk", "failures", ERROR, "Failures of the thread that looks after the disk of the store; it went on.", "Report the trace in the server's log."),
    Counter("background_failed", "memory", "failures", ERROR, "Failures of the threads that look after the memory of the server; they went on.", "Report the trace in the server's log."),
    Counter("background_failed", "runner", "failures", ERROR, "Failures of the analysis thread outside of any window; it continued.", "Report the trace in the server's log; `leadline backfill` analyses what was left out."),
    Counter("query_refused", "not_allowed", "queries", INFO, "SQL that asked for more than reading one's own tables.", "See `leadline sql --help` for what is allowed."),
    Counter("query_refused", "memory_full", "queries", INFO, "Queries answered 429 because the server held all the memory of `server.memory_bytes_max`.", "Ask again; if it lasts, read what `leadline doctor` says of memory."),
    Counter("query_refused", "limit", "queries", INFO, "Queries stopped at their limit of rows, time or memory.", "Ask for a shorter time span or fewer columns."),
    # analyses
    Counter("analysis_failed", "error", "windows", ERROR, "Calls of an analysis that ended with an error or returned what it does not declare.", "Read the error in `leadline show analyses` and report it; `leadline backfill` analyses the window again."),
    Counter("analysis_failed", "timeout", "windows", ERROR, "Calls of an analysis that took longer than it may and were stopped.", "Give Leadline more CPU, or see whether one window has very many rows."),
    Counter("analysis_failed", "crashed", "windows", ERROR, "Calls of an analysis whose worker process died twice.", "Look for the kernel's out-of-memory killer in the log of this machine."),
    Counter("analysis_failed", "not_loaded", "windows", ERROR, "Windows with more rows than one query of Leadline may load.", "Raise store.load_bytes_max or store.load_seconds_max."),
    Counter("analysis_late", "judged_again", "windows", INFO, "Windows analysed again because rows arrived after they were closed.", _NOTHING),
    Counter("analysis_late", "too_late", "rows", INFO, "Rows that arrived too late for their windows to be analysed again automatically; they are stored.", "`leadline backfill` analyses those windows again."),
    Counter("analysis_late", "put_off", "windows", INFO, "Windows that are analysed when there is time, as more closed than could be analysed.", "Give Leadline more CPU if this goes on growing."),
    Counter("analysis_late", "not_backfilled", "windows", INFO, "Windows that closed before a start, longer ago than `runner.backfill_s_max`.", "`leadline backfill` analyses them."),
    Counter("analysis_late", "unwatched", "spans", INFO, "Anomalies, symptoms and incidents whose end was not seen because data or analysis stopped; treated as over since last seen.", "See whether Leadline was off, or the job's telemetry ended; `leadline backfill` analyses what was missed."),
    Counter("clock_steps", "server", "steps", ERROR, "Times that the clock of this machine was set by more than 5 s; what was analysed with the wrong time is analysed again.", "See what sets it (chronyc tracking, timedatectl); often a time server that is briefly wrong."),
    # alerts: what receivers are told of incidents
    Counter("alert_accepted", "alerts", "alerts", INFO, "Notifications that receivers accepted; an Alertmanager gets those of an ongoing incident repeatedly.", _NOTHING),
    Counter("alert_skipped", "late", "incidents", INFO, "Incidents that were over for longer than `alerts.late_s` when they were found; no alert was sent.", _NOTHING),
    Counter("alert_failed", "unreachable", "attempts", ERROR, "Receivers that did not answer in time; tried again.", "See whether the receiver runs where `alerts.receivers` says; /api/v1/alerts has its last error."),
    Counter("alert_failed", "status", "attempts", ERROR, "Receivers that answered with an error; tried again.", "Read the receiver's words in /api/v1/alerts: a token, a path or its own trouble."),
    Counter("alert_failed", "refused", "alerts", LOSS, "Notifications that a receiver refused for good (400, 413, 422); the next is sent when the incident changes.", "Read the receiver's words in the log; report it if the body is at fault."),
    Counter("alert_failed", "full", "incidents", LOSS, "Incidents beyond `alerts.waiting_max`; no alert was sent.", "See why there are so many (`leadline show incidents`), or raise alerts.waiting_max."),
    Counter("alert_failed", "look", "looks", ERROR, "Looks for incidents that the store could not answer; the next one sees the same.", "Read the store's error in `leadline doctor`."),
    Counter("alert_failed", "state", "writes", ERROR, "Delivery state could not be saved to disk; after a restart a receiver may be alerted again.", "See whether the disk of alerts.state is full or read-only."),
    Counter("alert_failed", "broken", "incidents", LOSS, "Incidents that were not delivered because of an internal error.", "Report the trace in the server's log."),
    # the language model that words incidents, where one is set
    Counter("explain_accepted", "answers", "answers", INFO, "Answers of the model of which at least one sentence held.", _NOTHING),
    Counter("explain_dropped", "sentences", "sentences", INFO, "Sentences of the model that cited nothing, or said what the facts they cite do not.", "If it is most of them, use a better model; the text of the verdict is always there."),
    Counter("explain_failed", "unreachable", "questions", ERROR, "The model did not answer in time or could not be reached.", "See whether it runs where explain.url says, or raise explain.timeout_s."),
    Counter("explain_failed", "status", "questions", ERROR, "The model's API answered with an error.", "Read its words in the answer of /api/v1/incidents/INCIDENT/explanation: a key, a model's name or its own trouble."),
    Counter("explain_failed", "malformed", "questions", ERROR, "Answers of the model that are not the JSON asked for, or are too large.", "Use a model that obeys a JSON schema."),
    Counter("explain_failed", "budget", "questions", INFO, "Questions not asked because the day's tokens or money were spent.", "Raise explain.tokens_per_day or explain.money_per_day, or wait for the next UTC day."),
    Counter("explain_failed", "busy", "questions", INFO, "Questions not asked because as many were being answered as may be at once.", "Ask again."),
    Counter("explain_failed", "state", "writes", ERROR, "What was spent could not be kept on disk; then no model is asked.", "See whether the disk of explain.state is full or read-only."),
    Counter("explain_opinion", "agrees", "answers", INFO, "Second opinions that name what the verdict names.", _NOTHING),
    Counter("explain_opinion", "differs", "answers", INFO, "Second opinions that name something else.", "Nothing, or read its reason beside the verdict's."),
    Counter("explain_opinion", "nothing", "answers", INFO, "Answers that chose none of the candidates.", "If it is most of them, use a model that obeys a JSON schema."),
    # the agent on a host, which counts for itself and sends this as its own metrics
    Counter("agent_dropped", "spool_full", "rows", LOSS, "Oldest rows or samples let go because the agent's spool was full.", "See why the server cannot be reached, or raise agent.spool_bytes_max."),
    Counter("agent_dropped", "spool_failed", "rows", LOSS, "Rows or samples that the spool's disk did not take, or gave back spoilt.", "See whether the disk of agent.spool is full or read-only."),
    Counter("agent_dropped", "too_large", "rows", LOSS, "Rows or samples of a request over 16 MiB, which no server takes.", "Report it: the agent cuts what it sends far below this."),
    Counter("agent_dropped", "poison", "rows", LOSS, "Rows or samples that the server refused for good.", "Read the server's words in the event agent-refused or the agent's log."),
    Counter("agent_dropped", "flows_full", "rows", LOSS, "Flows of one reading beyond the 1,024 that sent again or sent most.", "Nothing, if few of them matter; else report how many flows a host has."),
    Counter("agent_lost", "netlink_overrun", "overruns", INFO, "Link events that the kernel dropped; the links were read again and changes were reported.", _NOTHING),
    Counter("agent_lost", "ring_overrun", "records", LOSS, "Records of event rings overwritten before they were read.", "Make the job's rings larger, or lower agent.ring_interval_s."),
    Counter("agent_lost", "ring_writer", "records", LOSS, "Records that a job could not write into its ring: too many strings, or a value out of range.", "See docs/formats/ring.md for what fits; make the ring's string table larger."),
    Counter("agent_lost", "ring_spoilt", "rings", LOSS, "Rings that were no longer rings when they were read again.", "See who else writes into agent.ring_dir."),
    Counter("agent_lost", "ring_owner", "rings", ERROR, "Rings that were not read: their file belongs to somebody else than the process they name.", "See who owns the files in agent.ring_dir; somebody may pretend to be another's job."),
    Counter("agent_lost", "kmsg_overrun", "records", LOSS, "Records of the kernel log overwritten before they were read.", "Raise the kernel's log buffer (log_buf_len)."),
    Counter("agent_lost", "probe_stamps", "probes", INFO, "Probes of which the kernel told no stamp; they count as neither sent nor lost.", _NOTHING),
    Counter("agent_lost", "probe_sends", "probes", ERROR, "Probes that the kernel did not send.", "See the routes and the firewall of the host for UDP to agent.mesh_port of its peers."),
    Counter("agent_lost", "probe_lines", "lines", LOSS, "Lines of the prober that the agent did not read in time.", "See whether the host has a core to spare; the agent runs at nice 10."),
    Counter("agent_probe_refused", "truncated", "packets", INFO, "Packets at the mesh's ports that are shorter than a probe.", _NOTHING),
    Counter("agent_probe_refused", "magic", "packets", INFO, "Packets at the mesh's ports that are no probes.", "See who sends to agent.mesh_port, or choose another port."),
    Counter("agent_probe_refused", "version", "packets", ERROR, "Probes of another version.", "Give all hosts of the cluster the same version."),
    Counter("agent_probe_refused", "length", "packets", INFO, "Packets that are longer than a probe, or of another length than they say.", _NOTHING),
    Counter("agent_probe_refused", "reflected", "packets", ERROR, "Probes that say this host sent them: somebody sends its own back.", "See what on the way sends packets back; two agents may have one name."),
    Counter("agent_probe_refused", "tag", "packets", ERROR, "Probes whose tag is not that of the cluster's key: forged, damaged, or of before a restart.", "A few after a restart are usual; else see who sends to agent.mesh_port."),
    Counter("agent_probe_refused", "field", "packets", ERROR, "Probes with a value that no prober sends.", "Give all hosts of the cluster the same version and agent.mesh_paths."),
    Counter("agent_probe_refused", "stranger", "packets", INFO, "Probes of a host that is no peer of this one, as just after peers changed.", _NOTHING),
    Counter("agent_probe_refused", "replayed", "packets", INFO, "Probes that came before, or too late to know.", "Many: see what on the way sends packets twice."),
    Counter("agent_probe_refused", "boot", "packets", INFO, "Probes of an earlier life of their sender.", _NOTHING),
    Counter("agent_source_failed", "hangs", "readings", ERROR, "Readings of a source of the agent that were not waited for any longer; the source is not asked again before it answers, the others go on.", "See which `leadline_agent_source_up` is 0: a driver, a firmware or a mount under that source does not answer."),
    Counter("agent_source_failed", "read", "readings", ERROR, "Readings of a source that failed.", "Read the error in the agent's log; leadline_agent_source_up shows which source."),
)  # fmt: skip


class UnknownCounterError(KeyError):
    """A reason nobody declared: a programming error."""


_BY_KEY = {(counter.family, counter.reason): counter for counter in COUNTERS}


def counter(family: str, reason: str) -> Counter:
    """The declared counter. Errors: UnknownCounterError."""
    try:
        return _BY_KEY[family, reason]
    except KeyError:
        raise UnknownCounterError(f"no counter {family} with reason {reason} in model.counters") from None


def refused(reason: str) -> Counter:
    """The counter of things refused at the way in, by reason. Errors: UnknownCounterError."""
    return counter(_REFUSED, reason)


def accepted(reason: str) -> Counter:
    """The counter of things taken in. Errors: UnknownCounterError."""
    return counter("ingest_accepted", reason)


# What one family counts: the HELP of its metric. Each of its reasons says more, and what to do.
FAMILIES: dict[str, str] = {
    "ingest_accepted": "Telemetry that was stored and acknowledged, by what it is.",
    "ingest_refused": "Telemetry that was refused at the way in, by reason; units differ by reason (docs/counters.md).",
    "scrape_failed": "Scrapes of a target that failed, by reason.",
    "sflow_lost": "sFlow datagrams or samples that were lost before they could be stored, by where.",
    "sflow_late": "sFlow datagrams that arrived after younger ones of their switch.",
    "sflow_skipped": "Parts of sFlow datagrams that were not used, by why.",
    "sflow_senders": "Files that list the senders of sFlow and could not be read.",
    "connection_closed": "Connections that the server closed or refused, by reason.",
    "source_overflow": "Senders beyond those that are listed one by one.",
    "store_failed": "Work of the store that failed and is tried again, by what it was.",
    "store_disk": "Trouble with the disk of the store, by kind: space, spoilt parts, rows lost.",
    "memory": "Times that the server reached a limit of its memory, by how close.",
    "background_failed": "Failures of parts that run beside the requests; each was started again.",
    "query_refused": "Queries that were refused or stopped, by reason.",
    "analysis_failed": "Calls of analyses that failed, by how.",
    "analysis_late": "Windows, rows or findings that came too late for the usual analysis, by what became of them.",
    "clock_steps": "Times that the clock of the server's machine was set by more than 5 s.",
    "alert_accepted": "Notifications that receivers accepted.",
    "alert_skipped": "Incidents for which no alert was sent, by why.",
    "alert_failed": "Alerts that could not be delivered, by reason; some are tried again.",
    "explain_accepted": "Answers of the language model that were used.",
    "explain_dropped": "Sentences of the language model that were dropped because no fact supports them.",
    "explain_opinion": "Second opinions of the language model, by whether they agree with the verdict.",
    "explain_failed": "Questions to the language model without a usable answer, by reason.",
    "agent_dropped": "Telemetry that agents dropped, by reason.",
    "agent_lost": "Events and records that agents lost before they could read them, by source.",
    "agent_probe_refused": "Packets that an agent's prober did not take, by why.",
    "agent_source_failed": "Readings of a source that failed in an agent, by how.",
}
