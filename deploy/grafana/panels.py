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


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: SQL with one column `value`."""

    name: str
    label: str
    query: str


@dataclass(frozen=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    about: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


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
OF_HOST = f"(entity = concat('host:', {HOST}) OR startsWith(ifNull(entity, ''), concat('port:', {HOST}, '/')) OR host = {HOST})"
# GPU-seconds of windows as GPUs: of a step, or of the windows where these are longer.
LENGTH_S = f"greatest({BIN} / 1000, max(window_ns) / 1e9)"
PRODUCTIVE = "sum(gpu_seconds) - sum(lost_gpu_seconds)"

FLEET = Dashboard(
    "leadline-fleet", "Leadline: fleet", "What GPU time is lost to, which jobs, whether Leadline hears everybody.",
    (
        Panel("GPU time lost", "Productive GPU time that was lost in the span, by the ledger of all jobs.",
              f"SELECT sum(lost_gpu_seconds) AS lost FROM {LEDGER}", "s", "stat", 4, 4),
        Panel("GPU time that was not lost", "Share of held GPU time that the ledger does not count as lost.",
              f"SELECT ({PRODUCTIVE}) / sum(gpu_seconds) AS share FROM {LEDGER}", "percentunit", "stat", 4, 4,
              low_is_bad=True),
        Panel("Open incidents", "Incidents that were open at the end of the span and alert somebody.",
              f"SELECT countIf(state = 'open' AND suppressed IS NULL) AS open FROM {INCIDENTS}", "short", "stat", 4, 4),
        Panel("Jobs", "Jobs that told a step in the span.",
              f"SELECT uniqExact(tenant, job) AS jobs FROM step WHERE {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Hosts", "Hosts that told a step, an event or a metric in the span.",
              "SELECT uniqExact(host) AS hosts FROM ("
              f"SELECT host FROM step WHERE {within('end_ns')} UNION ALL "
              f"SELECT host FROM event WHERE {within('time_ns')} UNION ALL "
              f"SELECT ifNull(host, '') AS host FROM series WHERE last_ns > {FROM_NS}) WHERE host != ''",
              "short", "stat", 4, 4),
        Panel("Senders", "Senders that Leadline has heard of since its start.", "leadline_sources", "short", "stat",
              4, 4, METRICS),
        Panel("Lost GPU time by what it was lost to", "GPUs that do no useful work, by the category of the ledger.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(category) AS who, "
              f"sum(lost_gpu_seconds) / {LENGTH_S} AS value FROM {LEDGER} "
              "WHERE lost_gpu_seconds > 0 GROUP BY t_ms, who ORDER BY t_ms, who", "short", "bars", 16, 9),
        Panel("Who it was lost to", "Owners of lost GPU time in the span, the largest first.",
              "SELECT toString(owner) AS owner, toString(category) AS category, toString(job) AS job, "
              f"sum(lost_gpu_seconds) AS lost FROM {LEDGER} WHERE owner != '' "
              "GROUP BY owner, category, job HAVING lost > 0 ORDER BY lost DESC LIMIT 20", "s", "table", 8, 9),
        Panel("Incidents", "Incidents of the span, those that lost most first.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(incident) AS incident, toString(job) AS job, "
              "toString(symptom) AS symptom, toString(state) AS state, lost_gpu_seconds AS lost "
              f"FROM {INCIDENTS} ORDER BY lost DESC LIMIT 50", "s", "table", 24, 8),
        Panel("Step time", "Median step time of each job.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(job) AS who, quantile(0.5)(end_ns - start_ns) / 1e9 AS value "
              f"FROM step WHERE {within('end_ns')} GROUP BY t_ms, who ORDER BY t_ms, who", "s"),
        Panel("Share of GPU time that was not lost, by job", "By the ledger; windows that were not judged are missing.",
              f"SELECT {binned('end_ns')} AS t_ms, toString(job) AS who, ({PRODUCTIVE}) / sum(gpu_seconds) AS value "
              f"FROM {LEDGER} GROUP BY t_ms, who ORDER BY t_ms, who", "percentunit", low_is_bad=True),
        Panel("Taken in", "What Leadline stored per second, by what it is.",
              "sum by (reason) (rate(leadline_ingest_accepted_total[5m]))", "ops", source=METRICS, legend="{{reason}}"),
        Panel("Refused", "What Leadline refused per second, by reason (docs/counters.md says what to do).",
              "sum by (reason) (rate(leadline_ingest_refused_total[5m])) > 0", "ops", source=METRICS,
              legend="{{reason}}"),
        Panel("Age of the newest window judged", "How far each analysis is behind what came in.",
              "leadline_analysis_lag_seconds", "s", source=METRICS, legend="{{analysis}}"),
        Panel("Rows that wait for the store", "Accepted, not yet stored; a queue that stays is a store that is too slow.",
              "sum by (table) (leadline_queue_rows)", "short", source=METRICS, legend="{{table}}"),
    ),
)  # fmt: skip

_OF_JOB = f"job = {JOB}"
JOB_DASHBOARD = Dashboard(
    "leadline-job", "Leadline: job", "One job: how fast it goes, where its time went, who was late, what happened.",
    (
        Panel("Step", "The newest step that a rank finished.",
              f"SELECT max(step) AS step FROM step WHERE {_OF_JOB} AND {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Step time, median", "Of all ranks and steps of the span.",
              f"SELECT quantile(0.5)(end_ns - start_ns) / 1e9 AS median FROM step WHERE {_OF_JOB} AND {within('end_ns')}",
              "s", "stat", 4, 4),
        Panel("GPU time lost", "Of the span, by the ledger.",
              f"SELECT sum(lost_gpu_seconds) AS lost FROM {LEDGER} WHERE {_OF_JOB}", "s", "stat", 4, 4),
        Panel("GPU time that was not lost", "Share of held GPU time.",
              f"SELECT ({PRODUCTIVE}) / sum(gpu_seconds) AS share FROM {LEDGER} WHERE {_OF_JOB}", "percentunit", "stat",
              4, 4, low_is_bad=True),
        Panel("Ranks", "Ranks that told a step in the span.",
              f"SELECT uniqExact(rank) AS ranks FROM step WHERE {_OF_JOB} AND {within('end_ns')}", "short", "stat", 4, 4),
        Panel("Open incidents", "Incidents of this job that are open.",
              f"SELECT countIf(state = 'open') AS open FROM {INCIDENTS} WHERE {_OF_JOB}", "short", "stat", 4, 4),
        Panel("Where the time went", "GPUs by what they did, by the category of the ledger.",
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
        Panel("Who took the time", "Owners of lost GPU time of this job.",
              "SELECT toString(owner) AS owner, toString(category) AS category, sum(lost_gpu_seconds) AS lost "
              f"FROM {LEDGER} WHERE {_OF_JOB} AND owner != '' GROUP BY owner, category HAVING lost > 0 "
              "ORDER BY lost DESC LIMIT 20", "s", "table"),
        Panel("What happened", "Events of this job and its ranks.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(severity) AS severity, toString(kind) AS kind, "
              "toString(entity) AS entity, message FROM event "
              f"WHERE {within('time_ns')} AND (entity = concat('job:', {JOB}) "
              f"OR startsWith(ifNull(entity, ''), concat('rank:', {JOB}, '/'))) ORDER BY time_ns DESC LIMIT 100",
              "short", "table"),
    ),
    (Variable("job", "job", f"SELECT DISTINCT toString(job) AS value FROM step WHERE {within('end_ns')} ORDER BY value"),),
)  # fmt: skip

NODE = Dashboard(
    "leadline-node", "Leadline: node", "One host: CPU, memory, pressure, NICs, GPUs, what happened, what is unusual.",
    (
        Panel("CPU that is busy", "Cores, without idle time.",
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
        Panel("TCP segments sent again", "Per second.",
              rate(("node_netstat_Tcp_RetransSegs",), "toString(entity)", OF_HOST), "pps"),
        Panel("GPU clock", "SM clock by GPU; a fall under load is throttling.",
              mean("DCGM_FI_DEV_SM_CLOCK", "toString(entity)", OF_HOST, "avg(value) * 1e6"), "hertz", low_is_bad=True),
        Panel("GPU temperature", "By GPU.", mean("DCGM_FI_DEV_GPU_TEMP", "toString(entity)", OF_HOST), "celsius"),
        Panel("Unusual", "Metrics of this host and its ports outside their past or their peers.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(metric) AS metric, "
              "toString(direction) AS direction, round(score, 1) AS score, expected, seen FROM "
              + lasting("anomaly", f"start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + f" WHERE entity = concat('host:', {HOST}) OR startsWith(ifNull(entity, ''), concat('port:', {HOST}, '/')) "
              "ORDER BY score DESC LIMIT 50", "short", "table"),
        Panel("What happened", "Events of this host.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(severity) AS severity, toString(kind) AS kind, "
              f"toString(entity) AS entity, message FROM event WHERE {within('time_ns')} AND host = {HOST} "
              "ORDER BY time_ns DESC LIMIT 100", "short", "table"),
    ),
    (Variable("host", "host", "SELECT DISTINCT substring(toString(entity), 6) AS value FROM series "
              f"WHERE entity_kind = 'host' AND last_ns > {FROM_NS} - 3600000000000 ORDER BY value"),),
)  # fmt: skip

_SWPORT = "entity_kind = 'swport'"
_BUSIEST = "arraySort(groupUniqArray(8)(toString(busiest)))"
FABRIC = Dashboard(
    "leadline-fabric", "Leadline: fabric", "Switch ports, losses, who uses which link, how even load is spread.",
    (
        Panel("Switch ports: sent", "Bits per second by port.",
              rate(("ifOutOctets",), PORT, _SWPORT, 8.0), "bps", width=24),
        Panel("Switch ports: discarded", "Frames per second that found no room, both ways.",
              rate(("ifInDiscards", "ifOutDiscards", "node_qdisc_drops_total"), PORT, _SWPORT), "pps"),
        Panel("Switch ports: errors", "Frames per second that arrived broken, both ways.",
              rate(("ifInErrors", "ifOutErrors"), PORT, _SWPORT), "pps"),
        Panel("NIC ports: packets sent again or lost", "RDMA: out of sequence, time-outs, discards; by port.",
              rate(("node_infiniband_out_of_sequence_total", "node_infiniband_local_ack_timeout_err_total",
                    "node_infiniband_port_xmit_discards_total", "node_infiniband_roce_adp_retrans_total"), PORT), "pps"),
        Panel("Queues", "Bytes that wait in the queues of switch ports.", mean("node_qdisc_backlog", PORT, _SWPORT), "bytes"),
        Panel("Evenness of ECMP groups", "Share of a group's capacity that is usable before its busiest link is full; 1 is even.",
              f"SELECT {binned('end_ns')} AS t_ms, concat(toString(switch), ' ', toString(`group`)) AS who, "
              f"min(efficiency) AS value FROM {windows('ecmp_group')} GROUP BY t_ms, who ORDER BY t_ms, who",
              "percentunit", low_is_bad=True),
        Panel("Links by volume", "Bytes that traced flows carried over a link in the span; of all jobs.",
              "SELECT toString(link) AS link, sum(bytes) AS bytes, uniqExact(job) AS jobs "
              f"FROM {windows('flow_volume')} GROUP BY link ORDER BY bytes DESC LIMIT 30",
              "bytes", "table", units={"jobs": "short"}),
        Panel("Links and switches under suspicion", "Where packets vanish that nobody counts, by flows that suffer.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(kind) AS kind, "
              "round(probability, 2) AS probability FROM "
              + lasting("suspect", f"start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + " ORDER BY probability DESC LIMIT 30", "short", "table"),
        Panel("Flaps", "Links that went down or up.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(entity) AS entity, toString(kind) AS kind, message "
              f"FROM event WHERE {within('time_ns')} AND kind IN ('link-down', 'link-up') ORDER BY time_ns DESC LIMIT 100",
              "short", "table"),
        Panel("Contradictions", "Sources that disagree about what is linked to what.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(kind) AS kind, text FROM "
              + lasting("conflict", f"start_ns <= {TO_NS} AND seen_ns > {FROM_NS}")
              + " ORDER BY seen_ns DESC LIMIT 30", "short", "table"),
    ),
)  # fmt: skip

_OF = f"incident = {INCIDENT}"
_CAUSES = (
    f"(SELECT * FROM cause WHERE {_OF} AND (tenant, seen_ns, revision) IN ("
    f"SELECT tenant, max(seen_ns), argMax(revision, seen_ns) FROM cause WHERE {_OF} GROUP BY tenant))"
)


_JOB_OF = f"(SELECT job FROM incident WHERE {_OF})"
INCIDENT_DASHBOARD = Dashboard(
    "leadline-incident", "Leadline: incident", "One incident: what hurts, ranked causes with evidence, what was said.",
    (
        Panel("What hurts", "The incident as it was last told.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, intDiv(end_ns, 1000000) AS until_ms, "
              "toString(job) AS job, toString(symptom) AS symptom, toString(state) AS state, "
              "toString(verdict) AS verdict, missing, lost_gpu_seconds AS lost "
              f"FROM {lasting('incident', _OF)}", "s", "table", 24, 5),
        Panel("Causes", "The most likely first; what was considered and not chosen below.",
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
        Panel("Evidence", "What speaks for the causes, the most telling first.",
              "SELECT cause, simpleJSONExtractString(one, 'entity') AS seen_on, simpleJSONExtractString(one, 'text') AS evidence, "
              "intDiv(nullIf(simpleJSONExtractInt(one, 'time_ns'), 0), 1000000) AS at_ms FROM ("
              "SELECT toString(entity) AS cause, arrayJoin(JSONExtractArrayRaw(evidence)) AS one "
              f"FROM {_CAUSES} WHERE chosen) LIMIT 50", "short", "table"),
        Panel("Symptoms", "Who suffers, what it lost.",
              "SELECT intDiv(start_ns, 1000000) AS since_ms, toString(entity) AS entity, toString(symptom) AS symptom, "
              "lost_gpu_seconds AS lost, blamed FROM "
              + lasting("symptom", f"job IN {_JOB_OF} AND start_ns <= {TO_NS} AND (end_ns IS NULL OR end_ns > {FROM_NS})")
              + " ORDER BY start_ns LIMIT 30", "s", "table"),
        Panel("What people said", "Marks: right, wrong, dismissed, with who and why.",
              "SELECT intDiv(time_ns, 1000000) AS at_ms, toString(mark) AS mark, toString(entity) AS entity, "
              f"toString(rule) AS rule, toString(actor) AS actor, reason FROM mark WHERE {_OF} ORDER BY time_ns DESC LIMIT 30",
              "short", "table", 24, 6),
    ),
    (Variable("incident", "incident", f"SELECT toString(incident) AS value FROM {INCIDENTS} ORDER BY start_ns DESC LIMIT 200"),),
)  # fmt: skip

DASHBOARDS = (FLEET, JOB_DASHBOARD, NODE, FABRIC, INCIDENT_DASHBOARD)
