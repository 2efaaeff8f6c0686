"""Every metric of `/metrics`: name, labels, meaning. `docs/metrics.md` is made of this, and a test holds both to it.

Names follow Prometheus' conventions (prometheus.io/docs/practices/naming): base units, the unit as a suffix, `_total`
on counters (which prometheus_client adds to the names below).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from leadline.model.counters import FAMILIES


class Kind(StrEnum):
    """Types of Prometheus that we have."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_FAMILY = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}


@dataclass(frozen=True, slots=True)
class Described:
    """One metric. `about`: which part of Leadline it is of, a heading of the reference page."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    about: str
    doc: str

    @property
    def exposed(self) -> str:
        """The name as Prometheus stores it."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    def family(self) -> Any:
        """It without samples yet; how these are added differs by kind."""
        return _FAMILY[self.kind](self.name, self.doc, labels=self.labels)

    def single(self, value: float) -> Metric:
        """It with one sample and no labels."""
        assert (self.kind, self.labels) == (Kind.GAUGE, ())
        return GaugeMetricFamily(self.name, self.doc, value=value)


# Not `job`, a label of Prometheus itself, which renames ours to `exported_job`. kube-state-metrics has `job_name`, too.
_JOB = ("tenant", "cluster", "job_name")
_HELD = ("tenant", "cluster", "expectation", "layer", "entity")
VERDICTS, SENDERS, ANALYSES, PROCESS, HTTP, COUNTED = (
    "Verdicts", "Senders and sources", "Analyses", "The server process", "HTTP", "Counters",
)  # fmt: skip
COUNTER, GAUGE, HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

_DESCRIBED = (
    # verdicts
    Described("leadline_incidents_open", GAUGE, (*_JOB, "rule", "symptom", "severity", "suppressed"), VERDICTS,
              "Open incidents. rule: the likeliest cause, unknown until one is named. severity: critical if a job "
              "stands still or crashed, else warning. suppressed: why they send no alert; empty if they do."),
    Described("leadline_job_goodput_ratio", GAUGE, _JOB, VERDICTS,
              "Share of the GPU time held by a job in the last hour that was productive, 0 to 1. Time that could not "
              "be attributed counts as not productive."),
    Described("leadline_job_goodput_ratio_max", GAUGE, _JOB, VERDICTS,
              "What leadline_job_goodput_ratio would be if all time that could not be attributed had been productive."),
    Described("leadline_job_gpu_seconds", COUNTER, _JOB, VERDICTS,
              "GPU-seconds held by a job in the windows analysed since the server started."),
    Described("leadline_job_lost_gpu_seconds", COUNTER, (*_JOB, "category"), VERDICTS,
              "GPU-seconds lost by a job in the windows analysed since the server started, by category of the ledger. "
              "A verdict that is revised downwards does not lower it."),
    Described("leadline_sle_good_ratio", GAUGE, _HELD, VERDICTS,
              "Share of known seconds of the last 30 days in which an entity met an expectation, 0 to 1."),
    Described("leadline_sle_budget_left_ratio", GAUGE, _HELD, VERDICTS,
              "Share of the 30-day error budget of an expectation that is left; below 0 when it is overspent."),
    Described("leadline_sle_burn_rate", GAUGE, (*_HELD, "window"), VERDICTS,
              "How fast the error budget of an expectation is spent over a window: 1 spends it in exactly 30 days."),
    Described("leadline_verdicts_age_seconds", GAUGE, (), VERDICTS,
              "Time since the metrics of verdicts were last read from the store. They are left out once it exceeds "
              "300 s."),
    Described("leadline_verdicts_read_seconds", GAUGE, (), VERDICTS,
              "How long the last reading of the metrics of verdicts from the store took."),
    Described("leadline_metrics_left_out", GAUGE, ("kind",), VERDICTS,
              "Series not exposed beyond the bound of their kind: incidents, jobs, expectations, sources, senders."),
    # senders
    Described("leadline_sources", GAUGE, (), SENDERS, "Known senders of telemetry."),
    Described("leadline_source_lag_seconds", GAUGE, ("tenant", "way", "source"), SENDERS,
              "Age of the newest data that a source has sent, by the time stamps of the data."),
    Described("leadline_source_silent_seconds", GAUGE, ("tenant", "way", "source"), SENDERS,
              "Time since a source last sent anything."),
    Described("leadline_sender_lag_seconds", GAUGE, ("tenant", "cluster", "host", "sender"), SENDERS,
              "How far an agent, or another sender that reports its progress, is behind: the age of the newest data of "
              "which nothing is missing. Jobs are analysed up to the data of the slowest of their hosts."),
    Described("leadline_series", GAUGE, (), SENDERS, "Known metric streams."),
    # analyses
    Described("leadline_analysis_lag_seconds", GAUGE, ("analysis",), ANALYSES,
              "Age of the newest window that an analysis has finished."),
    Described("leadline_analysis_seconds", GAUGE, ("analysis",), ANALYSES,
              "How long the last window of an analysis took."),
    Described("leadline_analysis_waiting", GAUGE, ("analysis",), ANALYSES, "Windows that wait for an analysis."),
    Described("leadline_analysis_past", GAUGE, ("analysis",), ANALYSES, "Of these, windows of the past."),
    Described("leadline_analysis_windows", COUNTER, ("analysis",), ANALYSES,
              "Windows finished by an analysis since the server started."),
    Described("leadline_analysis_failures", COUNTER, ("analysis",), ANALYSES,
              "Windows in which an analysis failed since the server started."),
    # the process
    Described("leadline_build_info", GAUGE, ("version",), PROCESS, "Version of this Leadline; the value is always 1."),
    Described("leadline_queue_rows", GAUGE, ("table",), PROCESS, "Rows that were accepted and wait to be stored."),
    Described("leadline_private_bytes", GAUGE, (), PROCESS,
              "Private anonymous memory of the server process, without the mapped library of the engine."),
    Described("leadline_memory_bytes_max", GAUGE, (), PROCESS,
              "Memory that the server process may use (server.memory_bytes_max)."),
    Described("leadline_cpu_seconds", COUNTER, ("part",), PROCESS,
              "CPU time since the start, by part: connections, decode, store, runner, analyses (their processes, and "
              "those that compile), answers, engine queries, engine merges, engine upkeep, other."),
    # HTTP
    Described("leadline_http_request_duration_seconds", HISTOGRAM, ("route", "method", "status"), HTTP,
              "Time from the arrival of an HTTP request until its answer begins, by route template, method and status "
              "class (2xx, 4xx, ...)."),
)  # fmt: skip

METRICS: Mapping[str, Described] = {
    each.name: each
    for each in (
        *_DESCRIBED,
        *(Described(f"leadline_{family}", COUNTER, ("reason",), COUNTED, doc) for family, doc in FAMILIES.items()),
    )
}
"""By name, without `_total`."""
