"""A dashboard of Leadline's metrics alone: what Prometheus has scraped, so no plug-in is needed. Units: `panels.py`."""

# ruff: noqa: E501  (a query reads better in one line)
from __future__ import annotations

from panels import METRICS, Dashboard, Panel, Variable

JOBS = 'job_name=~"${job:regex}"'
# GPU-hours of an hour ago count as much as those of now, whichever job they are of.
_HELD = f"increase(leadline_job_gpu_seconds_total{{{JOBS}}}[1h])"
_ALERTING = f'leadline_incidents_open{{{JOBS}, suppressed=""}}'
TO_JOB = "/jobs/${__field.labels.job_name}"
ROUTES = "sum by (le, route) (rate(leadline_http_request_duration_seconds_bucket[5m]))"


def shown(title: str, about: str, query: str, unit: str = "short", legend: str = "", **more: object) -> Panel:
    """A panel of PromQL."""
    return Panel(title, about, query, unit, source=METRICS, legend=legend, **more)  # type: ignore[arg-type]


STAT = {"kind": "stat", "width": 4, "height": 4}
VERDICTS = Dashboard(
    "leadline-verdicts", "Leadline: verdicts", "Incidents, goodput, lost GPU time and error budgets from Prometheus alone.",
    (
        shown("Open incidents", "Not suppressed.", f"sum({_ALERTING}) or vector(0)", **STAT),
        shown("Critical incidents", "Open incidents of jobs that stand still or crashed.",
              f'sum(leadline_incidents_open{{{JOBS}, suppressed="", severity="critical"}}) or vector(0)', **STAT),
        shown("Goodput", "Share of the GPU time held in the last hour that was productive, all jobs together.",
              f"sum(leadline_job_goodput_ratio{{{JOBS}}} * {_HELD}) / (sum({_HELD}) > 0)", "percentunit", low_is_bad=True, **STAT),
        shown("GPUs lost", "GPUs that do no useful work, mean of the last five minutes.",
              f"sum(rate(leadline_job_lost_gpu_seconds_total{{{JOBS}}}[5m]))", **STAT),
        shown("Worst error budget", "What is left of the 30-day budget that has least.",
              "min(leadline_sle_budget_left_ratio)", "percentunit", **STAT),
        shown("Age of these figures", "They are left out once it exceeds 300 s.", "max(leadline_verdicts_age_seconds)", "s", **STAT),
        shown("Open incidents by cause", "By the rule of the likeliest cause; unknown until one is named.",
              f"sum by (rule, severity) ({_ALERTING})", legend="{{rule}} ({{severity}})", kind="bars"),
        shown("Goodput by job", "Share of held GPU time that was productive, over an hour.",
              f"leadline_job_goodput_ratio{{{JOBS}}}", "percentunit", "{{job_name}}", low_is_bad=True, leads=TO_JOB),
        shown("GPUs lost by category", "Mean of five minutes, by the category of the ledger.",
              f"sum by (category) (rate(leadline_job_lost_gpu_seconds_total{{{JOBS}}}[5m])) > 0", legend="{{category}}", kind="bars"),
        shown("GPUs lost by job", "The ten jobs that lose most.",
              f"topk(10, sum by (job_name) (rate(leadline_job_lost_gpu_seconds_total{{{JOBS}}}[5m])) > 0)", legend="{{job_name}}", kind="bars", leads=TO_JOB),
        shown("Error budgets left", "The ten that have least left of 30 days.",
              "bottomk(10, leadline_sle_budget_left_ratio)", "percentunit", "{{expectation}} {{entity}}"),
        shown("Burn rates", "The ten highest over an hour; 14.4 spends 2 % of a 30-day budget in that hour.",
              'topk(10, leadline_sle_burn_rate{window="1h"})', legend="{{expectation}} {{entity}}"),
        shown("Source lag", "The ten sources whose newest data is oldest, or which were silent longest if their data has no time.",
              "topk(10, leadline_source_lag_seconds or leadline_source_silent_seconds)", "s", "{{way}} {{source}}"),
        shown("Analysis lag", "Age of the newest window that each analysis has finished.",
              "leadline_analysis_lag_seconds", "s", "{{analysis}}"),
        shown("HTTP latency, 99th percentile", "Until the answer begins, by route; of those that were asked in the last five minutes.",
              f"histogram_quantile(0.99, {ROUTES}) >= 0", "s", "{{route}}"),
        shown("HTTP requests", "Per second, by class of status.",
              "sum by (status) (rate(leadline_http_request_duration_seconds_count[5m]))", "reqps", "{{status}}"),
    ),
    (Variable("job", "Job", "label_values(leadline_job_gpu_seconds_total, job_name)", many=True, every=True, source=METRICS),),
)  # fmt: skip
