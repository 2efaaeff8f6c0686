"""What the dashboards show: every panel once, with its query, unit and words. `make_dashboards.py` writes Grafana's JSON.

SQL is one for the embedded store (through the API) and for a ClickHouse server. A time is `t_ms`, ms since 1970, or not
there; every other column is a name or a value. `FROM_NS`, `TO_NS`, `BIN` are the span and the width of a step, ms;
`${job:sqlstring}` and the like are Grafana's variables, quoted by it.
"""

# ruff: noqa: E501  (a query reads better in one line)
from __future__ import annotations

from dataclasses import dataclass, field

FROM_NS, TO_NS = "(${__from} * 1000000)", "(${__to} * 1000000)"
BIN = "greatest(1000, intDiv(${__to} - ${__from}, 200))"
JOB, HOST, INCIDENT = "${job:sqlstring}", "${host:sqlstring}", "${incident:sqlstring}"
SWITCH, PAGE = "${switch:sqlstring}", "${leadline:sqlstring}"
TO_JOB = "/jobs/${__field.labels.who}"  # of a panel whose series are jobs
ANY = "'*'"  # what a choice of everything puts in the place of names
STORE, METRICS = "store", "metrics"


@dataclass(frozen=True)
class Panel:
    """One panel: `query` is SQL over the store, or PromQL over our own metrics (`source=METRICS`)."""

    title: str
    about: str
    query: str
    unit: str = "short"
    kind: str = "timeseries"  # timeseries, stat, table, bars (stacked)
    width: int = 12  # of 24
    height: int = 8
    source: str = STORE
    legend: str = ""  # of PromQL
    low_is_bad: bool = False
    units: dict[str, str] = field(default_factory=dict)  # of a table's columns
    leads: str = ""  # where a click on a series leads on Leadline's page


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: SQL with one column `value`, or PromQL's `label_values` (`source=METRICS`).

    `many`: several may be chosen; `every`: or all, for which `ANY` stands in SQL.
    """

    name: str
    label: str
    query: str
    many: bool = False
    every: bool = False
    source: str = STORE


@dataclass(frozen=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    about: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()
    marked: str = "1"  # SQL: which incidents are marked on its time axes


def within(column: str) -> str:
    """A condition: in the span."""
    return f"{column} > {FROM_NS} AND {column} <= {TO_NS}"


def binned(column: str) -> str:
    """The step of the span that a time belongs to, ms."""
    return f"intDiv(intDiv({column}, 1000000), {BIN}) * {BIN}"


def windows(table: str) -> str:
    """Rows of a table of windows: those that end in the span."""
    return f"(SELECT * FROM {table} WHERE {within('end_ns')})"


def lasting(table: str, where: str = "1") -> str:
    """Rows of a table of spans under a condition."""
    return f"(SELECT * FROM {table} WHERE {where})"


LEDGER = windows("ledger")
INCIDENTS = lasting("incident", f"start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")


def mean(name: str, who: str, where: str = "1", value: str = "avg(value)") -> str:
    """A gauge by time and `who`: a label or an expression of a stream."""
    return (
        f"SELECT {binned('m.time_ns')} AS t_ms, s.who AS who, {value} AS value FROM metric_sample AS m JOIN ("
        f"SELECT series, {who} AS who FROM series WHERE name = '{name}' AND {where}) AS s ON m.series = s.series "
        f"WHERE {within('m.time_ns')} AND NOT isNaN(m.value) GROUP BY t_ms, who ORDER BY t_ms, who"
    )


def rate(names: tuple[str, ...], who: str, where: str = "1", factor: float = 1.0) -> str:
    """A counter per second by time and `who`, streams added up; a counter that fell began anew."""
    listed = ", ".join(f"'{name}'" for name in names)
    steps = (
        f"SELECT {binned('m.time_ns')} AS t_ms, m.series AS stream, any(s.who) AS who, "
        "argMax(m.value, m.time_ns) AS last, max(m.time_ns) AS last_ns FROM metric_sample AS m JOIN ("
        f"SELECT series, {who} AS who FROM series WHERE name IN ({listed}) AND {where}) AS s ON m.series = s.series "
        f"WHERE {within('m.time_ns')} AND NOT isNaN(m.value) GROUP BY t_ms, stream"
    )
    over = "OVER (PARTITION BY stream ORDER BY t_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    grown = (
        f"SELECT t_ms, who, last - lagInFrame(last) {over} AS grown, last_ns - lagInFrame(last_ns) {over} AS took_ns, "
        f"row_number() OVER (PARTITION BY stream ORDER BY t_ms) AS place FROM ({steps})"
    )
    return (
        f"SELECT t_ms, who, sum(greatest(0, grown) / took_ns) * 1e9 * {factor:g} AS value FROM ({grown}) "
        "WHERE place > 1 AND took_ns > 0 GROUP BY t_ms, who ORDER BY t_ms, who"
    )


PORT = "toString(entity)"
# `h3` of host:h3 and port:h3/eth0, `leaf1` of swport:leaf1/Ethernet3.
DEVICE = "splitByChar('/', substring(ifNull(toString(entity), ''), position(ifNull(toString(entity), ''), ':') + 1))[1]"
AT_HOST = f"(match(ifNull(toString(entity), ''), '^(host|port):') AND {DEVICE} IN ({HOST}))"
OF_HOST = f"({AT_HOST} OR host IN ({HOST}))"
# As people call it, `h5 GPU 4`; by its id where its exporter does not tell the number.
GPU = "if(labels['gpu'] != '', concat(ifNull(toString(host), ''), ' GPU ', labels['gpu']), toString(entity))"
# GPU-seconds of windows as GPUs: of a step, or of the windows where these are longer.
LENGTH_S = f"greatest({BIN} / 1000, max(window_ns) / 1e9)"
# As docs/analyses/goodput.md defines it; windows that are missing are left out here.
GOODPUT = "sumIf(gpu_seconds - lost_gpu_seconds, category IN ('compute', 'communication')) / sum(gpu_seconds)"

FLEET = Dashboard(
    "leadline-fleet", "Leadline: fleet", "All jobs: lost GPU time and to what, incidents, goodput; and how Leadline itself is.",
    (
        Panel("GPU time lost", "Productive GPU time that was lost in the span, by the ledger of all jobs.",
              f"SELECT sum(lost_gpu_seconds) AS lost FROM {LEDGER}", "s", "stat", 4, 4),
        Panel("Goodput", "Share of held GPU time that was productive: compute and communication, without what was lost of them.",
              f"SELECT {GOODPUT} AS share FROM {LEDGER}", "percentunit", "stat", 4, 4,
              low_is_bad=True),
        Panel("Open incidents", "Incidents that are open and not suppressed.",
              f"SELECT countIf(state = 'open' AND suppressed IS NULL) AS open FROM {INCIDENTS}", "short", "stat", 4, 4),
        Panel("Jobs", "Jobs that reported a step in the span.",
              f"SELECT uniqExact(tenant, job) AS jobs FROM step WHERE {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Hosts", "Hosts that reported a step, an event or a metric in the span.",
              "SELECT uniqExact(host) AS hosts FROM ("
              f"SELECT host FROM step WHERE {within('end_ns')} UNION ALL "
              f"SELECT host FROM event WHERE {within('time_ns')} UNION ALL "
              f"SELECT ifNull(host, '') AS host FROM series WHERE last_ns > {FROM_NS}) WHERE host != ''",
              "short", "stat", 4, 4),
        Panel("Senders", "Senders known since Leadline started.", "leadline_sources", "short", "stat",
              4, 4, METRICS),
        Panel("Lost GPU time by category", "GPUs that do no useful work, by the category of the ledger.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(category) AS who, "
              f"sum(lost_gpu_seconds) / {LENGTH_S} AS value FROM {LEDGER} "
              "WHERE lost_gpu_seconds > 0 GROUP BY t_ms, who ORDER BY t_ms, who", "short", "bars", 16, 9),
        Panel("Lost GPU time by culprit", "Who or what took it in the span, the largest first.",
              "SELECT toString(owner) AS owner, toString(category) AS category, toString(job) AS job, "
              f"sum(lost_gpu_seconds) AS lost FROM {LEDGER} WHERE owner != '' "
              "GROUP BY owner, category, job HAVING lost > 0 ORDER BY lost DESC LIMIT 20", "s", "table", 8, 9),
        Panel("Incidents", "Incidents of the span, those that lost most first.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(incident) AS incident, toString(job) AS job, "
              "toString(symptom) AS symptom, toString(state) AS state, lost_gpu_seconds AS lost "
              f"FROM {INCIDENTS} ORDER BY lost DESC LIMIT 50", "s", "table", 24, 8),
        Panel("Step time", "Median step time of each job.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(job) AS who, quantile(0.5)(end_ns - start_ns) / 1e9 AS value "
              f"FROM step WHERE {within('end_ns')} GROUP BY t_ms, who ORDER BY t_ms, who", "s", leads=TO_JOB),
        Panel("Goodput by job", "Share of held GPU time that was productive; windows not analysed are left out.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(job) AS who, {GOODPUT} AS value "
              f"FROM {LEDGER} GROUP BY t_ms, who ORDER BY t_ms, who", "percentunit", low_is_bad=True, leads=TO_JOB),
        Panel("Ingested per second", "What Leadline stored, by what it is.",
              "sum by (reason) (rate(leadline_ingest_accepted_total[5m]))", "ops", source=METRICS, legend="{{reason}}"),
        Panel("Refused per second", "What Leadline did not take, by reason (docs/counters.md says what to do).",
              "sum by (reason) (rate(leadline_ingest_refused_total[5m])) > 0", "ops", source=METRICS,
              legend="{{reason}}"),
        Panel("Analysis lag", "Age of the newest window that each analysis has finished.",
              "leadline_analysis_lag_seconds", "s", source=METRICS, legend="{{analysis}}"),
        Panel("Rows queued for the store", "Accepted, not yet stored; a queue that stays is a store that is too slow.",
              "sum by (table) (leadline_queue_rows)", "short", source=METRICS, legend="{{table}}"),
    ),
)  # fmt: skip

_OF_JOB = f"job = {JOB}"
JOB_DASHBOARD = Dashboard(
    "leadline-job", "Leadline: job", "One job: its speed, where its time went, late ranks, events.",
    (
        Panel("Step", "The newest step that a rank finished.",
              f"SELECT max(step) AS step FROM step WHERE {_OF_JOB} AND {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Step time, median", "Of all ranks and steps of the span.",
              f"SELECT quantile(0.5)(end_ns - start_ns) / 1e9 AS median FROM step WHERE {_OF_JOB} AND {within('end_ns')}",
              "s", "stat", 4, 4),
        Panel("GPU time lost", "Of the span, by the ledger.",
              f"SELECT sum(lost_gpu_seconds) AS lost FROM {LEDGER} WHERE {_OF_JOB}", "s", "stat", 4, 4),
        Panel("Goodput", "Share of held GPU time that was productive.",
              f"SELECT {GOODPUT} AS share FROM {LEDGER} WHERE {_OF_JOB}", "percentunit", "stat",
              4, 4, low_is_bad=True),
        Panel("Ranks", "Ranks that reported a step in the span.",
              f"SELECT uniqExact(rank) AS ranks FROM step WHERE {_OF_JOB} AND {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Open incidents", "Incidents of this job that are open.",
              f"SELECT countIf(state = 'open') AS open FROM {INCIDENTS} WHERE {_OF_JOB}", "short", "stat", 4, 4),
        Panel("GPU time by category", "What the GPUs of the job did, by the category of the ledger.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(category) AS who, sum(gpu_seconds) / {LENGTH_S} AS value "
              f"FROM {LEDGER} WHERE {_OF_JOB} GROUP BY t_ms, who ORDER BY t_ms, who", "short", "bars", 24, 9),
        Panel("Step time", "Of all ranks: median, slowest tenth, slowest.",
              f"SELECT {binned('end_ns')} AS t_ms, quantile(0.5)(end_ns - start_ns) / 1e9 AS median, "
              "quantile(0.9)(end_ns - start_ns) / 1e9 AS p90, max(end_ns - start_ns) / 1e9 AS slowest "
              f"FROM step WHERE {_OF_JOB} AND {within('end_ns')} GROUP BY t_ms ORDER BY t_ms", "s"),
        Panel("Training loss", "As the training loop tells it: mean of all ranks.",
              f"SELECT {binned('end_ns')} AS t_ms, avg(loss) AS mean FROM step "
              f"WHERE {_OF_JOB} AND {within('end_ns')} AND loss IS NOT NULL GROUP BY t_ms ORDER BY t_ms", "short"),
        Panel("Lateness of ranks", "How much later than the first rank each one came to its collectives, mean.",
              "SELECT t_ms, concat('rank ', toString(rank)) AS who, avg(late_ns) / 1e9 AS value FROM ("
              f"SELECT {binned('enqueued_ns')} AS t_ms, rank, "
              "enqueued_ns - min(enqueued_ns) OVER (PARTITION BY tenant, comm, seq) AS late_ns FROM collective "
              f"WHERE {_OF_JOB} AND {within('enqueued_ns')} AND state = 'finished') "
              "GROUP BY t_ms, who ORDER BY t_ms, who", "s"),
        Panel("Duration of collectives", "Median by operation.",
              f"SELECT {binned('finished_ns')} AS t_ms, toString(op) AS who, "
              "quantile(0.5)(finished_ns - ifNull(started_ns, enqueued_ns)) / 1e9 AS value FROM collective "
              f"WHERE {_OF_JOB} AND {within('enqueued_ns')} AND finished_ns IS NOT NULL "
              "GROUP BY t_ms, who ORDER BY t_ms, who", "s"),
        Panel("Lost GPU time by culprit", "Who or what took the GPU time of this job, the largest first.",
              "SELECT toString(owner) AS owner, toString(category) AS category, sum(lost_gpu_seconds) AS lost "
              f"FROM {LEDGER} WHERE {_OF_JOB} AND owner != '' GROUP BY owner, category HAVING lost > 0 "
              "ORDER BY lost DESC LIMIT 20", "s", "table"),
        Panel("Events", "Of this job and its ranks.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(severity) AS severity, toString(kind) AS kind, "
              "toString(entity) AS entity, message FROM event "
              f"WHERE {within('time_ns')} AND (entity = concat('job:', {JOB}) "
              f"OR startsWith(ifNull(entity, ''), concat('rank:', {JOB}, '/'))) ORDER BY time_ns DESC LIMIT 100",
              "short", "table"),
    ),
    (Variable("job", "Job", f"SELECT DISTINCT toString(job) AS value FROM step WHERE {within('end_ns')} ORDER BY value"),),
    f"has(jobs, {JOB})",
)  # fmt: skip

NODE = Dashboard(
    "leadline-node", "Leadline: node", "Hosts: GPUs, CPU, memory, pressure, NICs, anomalies, events.",
    (
        Panel("GPU utilisation", "Share of time in which a kernel ran on the GPU.",
              mean("DCGM_FI_DEV_GPU_UTIL", GPU, OF_HOST, "avg(value) / 100"), "percentunit", low_is_bad=True),
        Panel("GPU clock", "SM clock; a fall under load is throttling.",
              mean("DCGM_FI_DEV_SM_CLOCK", GPU, OF_HOST, "avg(value) * 1e6"), "hertz", low_is_bad=True),
        Panel("GPU power", "Draw of each GPU.", mean("DCGM_FI_DEV_POWER_USAGE", GPU, OF_HOST), "watt"),
        Panel("GPU temperature", "Of the core.", mean("DCGM_FI_DEV_GPU_TEMP", GPU, OF_HOST), "celsius"),
        Panel("GPU memory used", "Of the frame buffer.",
              mean("DCGM_FI_DEV_FB_USED", GPU, OF_HOST, "avg(value) * 1048576"), "bytes"),
        Panel("GPU XID errors", "Code of the last XID error of the NVIDIA driver; 0 is none.",
              mean("DCGM_FI_DEV_XID_ERRORS", GPU, OF_HOST, "max(value)"), "none"),
        Panel("CPU busy", "Cores by mode, without idle time.",
              rate(("node_cpu_seconds_total",), "labels['mode']", f"{OF_HOST} AND labels['mode'] != 'idle'"), "short", "bars"),
        Panel("Pressure", "Share of time in which some task waited for it (PSI).",
              rate(("node_pressure_cpu_waiting_seconds_total", "node_pressure_memory_waiting_seconds_total",
                    "node_pressure_io_waiting_seconds_total"), "splitByChar('_', toString(name))[3]", OF_HOST),
              "percentunit"),
        Panel("Memory available", "As the kernel estimates it.",
              mean("node_memory_MemAvailable_bytes", "toString(entity)", OF_HOST), "bytes"),
        Panel("CPU quota: throttled", "Share of scheduling periods in which a container was throttled.",
              rate(("container_cpu_cfs_throttled_seconds_total",), "toString(entity)", OF_HOST), "percentunit"),
        Panel("NICs: received", "By port.", rate(("node_network_receive_bytes_total",), PORT, OF_HOST, 8.0), "bps"),
        Panel("NICs: sent", "By port.", rate(("node_network_transmit_bytes_total",), PORT, OF_HOST, 8.0), "bps"),
        Panel("NICs: errors and drops", "Frames per second, both ways, by port.",
              rate(("node_network_receive_errs_total", "node_network_transmit_errs_total",
                    "node_network_receive_drop_total", "node_network_transmit_drop_total"), PORT, OF_HOST), "pps"),
        Panel("TCP retransmissions", "Segments sent again per second.",
              rate(("node_netstat_Tcp_RetransSegs",), "toString(entity)", OF_HOST), "pps"),
        Panel("Anomalies", "Metrics of these hosts and their ports outside their past or their peers.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(metric) AS metric, "
              "toString(direction) AS direction, round(score, 1) AS score, expected, seen FROM "
              + lasting("anomaly", f"start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + f" WHERE {AT_HOST} "
              "ORDER BY score DESC LIMIT 50", "short", "table"),
        Panel("Events", "Of these hosts, their GPUs and their ports.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(severity) AS severity, toString(kind) AS kind, "
              f"toString(entity) AS entity, message FROM event WHERE {within('time_ns')} AND host IN ({HOST}) "
              "ORDER BY time_ns DESC LIMIT 100", "short", "table"),
    ),
    (Variable("host", "Host", "SELECT DISTINCT substring(toString(entity), 6) AS value FROM series "
              f"WHERE entity_kind = 'host' AND last_ns > {FROM_NS} - 3600000000000 ORDER BY value", many=True),),
)  # fmt: skip

_SWPORT = f"entity_kind = 'swport' AND ({ANY} IN ({SWITCH}) OR {DEVICE} IN ({SWITCH}))"
_BUSIEST = "arraySort(groupUniqArray(8)(toString(busiest)))"
FABRIC = Dashboard(
    "leadline-fabric", "Leadline: fabric", "Switch ports, losses, links by volume, ECMP balance.",
    (
        Panel("Switch ports: sent", "Bits per second by port.",
              rate(("ifOutOctets",), PORT, _SWPORT, 8.0), "bps", width=24),
        Panel("Switch ports: discarded", "Frames per second that found no room, both ways.",
              rate(("ifInDiscards", "ifOutDiscards", "node_qdisc_drops_total"), PORT, _SWPORT), "pps"),
        Panel("Switch ports: errors", "Frames per second that arrived broken, both ways.",
              rate(("ifInErrors", "ifOutErrors"), PORT, _SWPORT), "pps"),
        Panel("NICs: RDMA retransmissions and discards", "Out of sequence, time-outs, discards; by port.",
              rate(("node_infiniband_out_of_sequence_total", "node_infiniband_local_ack_timeout_err_total",
                    "node_infiniband_port_xmit_discards_total", "node_infiniband_roce_adp_retrans_total"), PORT), "pps"),
        Panel("Switch ports: queues", "Bytes waiting in them.", mean("node_qdisc_backlog", PORT, _SWPORT), "bytes"),
        Panel("ECMP efficiency", "Share of a group's capacity that is usable before its busiest link is full; 1 is even.",
              f"SELECT {binned('end_ns')} AS t_ms, concat(toString(switch), ' ', toString(`group`)) AS who, "
              f"min(efficiency) AS value FROM {windows('ecmp_group')} GROUP BY t_ms, who ORDER BY t_ms, who",
              "percentunit", low_is_bad=True),
        Panel("Links by volume", "Bytes that traced flows carried over a link in the span; of all jobs.",
              "SELECT toString(link) AS link, sum(bytes) AS bytes, uniqExact(job) AS jobs "
              f"FROM {windows('flow_volume')} GROUP BY link ORDER BY bytes DESC LIMIT 30",
              "bytes", "table", units={"jobs": "short"}),
        Panel("Suspected links and switches", "Where packets are lost that no counter shows, located by the flows that suffer.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(kind) AS kind, "
              "round(probability, 2) AS probability FROM "
              + lasting("suspect", f"start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + " ORDER BY probability DESC LIMIT 30", "short", "table"),
        Panel("Link flaps", "Links that went down or up.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(entity) AS entity, toString(kind) AS kind, message "
              f"FROM event WHERE {within('time_ns')} AND kind IN ('link-down', 'link-up') ORDER BY time_ns DESC LIMIT 100",
              "short", "table"),
        Panel("Topology conflicts", "Sources that disagree about what is linked to what.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(kind) AS kind, text FROM "
              + lasting("conflict", f"start_ns <= {TO_NS} AND seen_ns > {FROM_NS}")
              + " ORDER BY seen_ns DESC LIMIT 30", "short", "table"),
    ),
    (Variable("switch", "Switch", f"SELECT DISTINCT {DEVICE} AS value FROM series WHERE entity_kind = 'swport' "
              f"AND last_ns > {FROM_NS} - 3600000000000 ORDER BY value", many=True, every=True),),
)  # fmt: skip

_OF = f"incident = {INCIDENT}"
_CAUSES = (
    f"(SELECT * FROM cause WHERE {_OF} AND (tenant, seen_ns, revision) IN ("
    f"SELECT tenant, max(seen_ns), argMax(revision, seen_ns) FROM cause WHERE {_OF} GROUP BY tenant))"
)


_JOB_OF = f"(SELECT job FROM incident WHERE {_OF})"
INCIDENT_DASHBOARD = Dashboard(
    "leadline-incident", "Leadline: incident", "One incident: symptoms, ranked causes with evidence, feedback.",
    (
        Panel("Incident", "As the newest window reports it.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, intDiv(end_ns, 1000000) AS until_ms, "
              "toString(job) AS job, toString(symptom) AS symptom, toString(state) AS state, "
              "toString(verdict) AS verdict, missing, lost_gpu_seconds AS lost "
              f"FROM {lasting('incident', _OF)}", "s", "table", 24, 5),
        Panel("Causes", "The most likely first; those considered and rejected below.",
              "SELECT position, toString(entity) AS entity, toString(rule) AS rule, chosen, "
              "round(least(probability, 0.99), 2) AS probability, intDiv(start_ns, 1000000) AS since_ms, "
              f"toString(action) AS action, text FROM {_CAUSES} ORDER BY chosen DESC, probability DESC LIMIT 20",
              "short", "table", 24, 8),
        Panel("Step time of the job", "Median and slowest of all ranks.",
              f"SELECT {binned('end_ns')} AS t_ms, quantile(0.5)(end_ns - start_ns) / 1e9 AS median, "
              "max(end_ns - start_ns) / 1e9 AS slowest FROM step "
              f"WHERE job IN {_JOB_OF} AND {within('end_ns')} GROUP BY t_ms ORDER BY t_ms", "s"),
        Panel("GPU time lost by the job", "GPUs that do no useful work, by the category of the ledger.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(category) AS who, "
              f"sum(lost_gpu_seconds) / {LENGTH_S} AS value FROM {LEDGER} "
              f"WHERE job IN {_JOB_OF} AND lost_gpu_seconds > 0 GROUP BY t_ms, who ORDER BY t_ms, who", "short", "bars"),
        Panel("Evidence", "For the causes, the strongest first.",
              "SELECT cause, simpleJSONExtractString(one, 'entity') AS seen_on, simpleJSONExtractString(one, 'text') AS evidence, "
              "intDiv(nullIf(simpleJSONExtractInt(one, 'time_ns'), 0), 1000000) AS at_ms FROM ("
              "SELECT toString(entity) AS cause, arrayJoin(JSONExtractArrayRaw(evidence)) AS one "
              f"FROM {_CAUSES} WHERE chosen) LIMIT 50", "short", "table"),
        Panel("Symptoms", "What is affected, and what it lost.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(symptom) AS symptom, "
              "lost_gpu_seconds AS lost, blamed FROM "
              + lasting("symptom", f"job IN {_JOB_OF} AND start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + " ORDER BY start_ns LIMIT 30", "s", "table"),
        Panel("Feedback", "Causes marked right or wrong, incidents dismissed: by whom and why.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(mark) AS mark, toString(entity) AS entity, "
              f"toString(rule) AS rule, toString(actor) AS actor, reason FROM mark WHERE {_OF} ORDER BY time_ns DESC LIMIT 30",
              "short", "table", 24, 6),
    ),
    (Variable("incident", "Incident", f"SELECT toString(incident) AS value FROM {INCIDENTS} ORDER BY start_ns DESC LIMIT 200"),),
    _OF,
)  # fmt: skip


def marks(where: str) -> str:
    """Incidents of the span under a condition, as annotations: Grafana knows these columns by their names."""
    card = f"""concat('<a href="', {PAGE}, '/incidents/', replaceAll(toString(incident), '/', '%2F'), '">', toString(incident), '</a>')"""
    lost = "if(lost_gpu_seconds > 0, concat(', ', toString(round(lost_gpu_seconds)), ' GPU-s lost'), '')"
    return (
        f"SELECT intDiv(start_ns, 1000000) AS time, intDiv(ifNull(end_ns, {TO_NS}), 1000000) AS timeEnd, "
        "concat(toString(symptom), ': ', ifNull(toString(job), toString(entity))) AS title, "
        f"concat(toString(state), {lost}, ', ', {card}) AS text, toString(symptom) AS tags "
        f"FROM {INCIDENTS} WHERE {where} ORDER BY time DESC LIMIT 100"
    )


DASHBOARDS = (FLEET, JOB_DASHBOARD, NODE, FABRIC, INCIDENT_DASHBOARD)
