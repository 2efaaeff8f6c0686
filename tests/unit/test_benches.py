"""Every program of bench/ runs, small, and tells its figures in the agreed form, so that none of them rots."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench import web

from leadline.lab.realise import privileges

ROOT = Path(__file__).resolve().parents[2]

LAB_FIGURES = ("up_64_s", "down_64_s", "leftovers", "rate_error_ratio", "sflow_byte_error_ratio")
LAB_FIGURES = LAB_FIGURES if not privileges.missing() else ()  # they have reasons then, and no values

WEB_FIGURES = (
    "first_load_kb",
    "first_paint_ms_100k",
    "frames_per_s_100k",
    "frames_per_s_100k_tiles",
    "axe_violations",
    "sideways_views",
)
WEB_FIGURES = () if web.missing(web.PAGE) else WEB_FIGURES  # without a browser or a built page they have reasons

QUERIES = ("last_value", "average_by_minute", "quantiles_by_minute", "top_ten_by_rate", "single_series")
PEERS = {"prometheus": "prometheus", "victoriametrics": "victoria-metrics"}  # and its program; without it, a reason
QUERY_FIGURES = tuple(
    f"ratio_{query}_{peer}" for query in QUERIES for peer, program in PEERS.items() if shutil.which(program)
)

# Of the house: those that are read from the files in a second.
STANDING = "import_circles,unreached_modules,source_lines,server_files,flat_files_max,readme_words"

# Program, arguments that make it small, the figures it must tell (with a value, as it runs here).
SMALL: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "ingest",
        ("--quick", "--only", "leadline", "--series", "200", "--samples", "40000", "--million-series", "4000",
         "--body-samples", "100", "--no-settle"),
        ("samples_per_second", "peak_anonymous_mb", "judged_cpu_us_per_sample", "churn_cpu_us_per_sample",
         "million_series_peak_mb"),
    ),
    (
        "sflow",
        ("--rounds", "1", "--samples", "13000", "--rate", "20000", "--golden-samples", "2000", "--only", "leadline"),
        ("flow_samples_per_core_second", "until_rest_samples_per_core_second", "decoded_samples_per_core_second"),
    ),
    (
        "abuse",
        ("--seconds", "1", "--connections", "30", "--only", "idle,headers"),
        ("honest_lost", "private_mb_peak", "answer_p99_s", "recovered_s"),
    ),
    (
        "memory",
        ("--minutes", "0.3", "--series", "200", "--rate", "100", "--churn", "0.5"),
        ("private_mb", "growth_mb_per_hour", "workers_mb", "open_files_max", "samples_lost", "judging_lag_s_max"),
    ),
    (
        "live",
        ("--hosts", "2", "--seconds", "6", "--warm", "2", "--idle", "1", "--viewers", "1"),
        ("hosts_per_core", "idle_cpu_share", "cores_2", "lag_p95_s_2", "private_mb_of_2"),
    ),
    (
        "query",
        ("--quick", "--only", "queries"),  # the page while it is written to: as in `live`, and web does
        (*QUERY_FIGURES, "ms_single_series"),
    ),
    ("durability", ("--kills", "2"), ("acknowledged_lost", "duplicated")),
    (
        "agent_rings",
        ("--ranks", "2", "--seconds", "2", "--backlog-looks", "6"),
        ("segments_per_second", "cpu_share"),
    ),
    # Without atheris, which only `make bench` installs; tests/fuzz looks whether mutation finds a fault.
    ("fuzz", ("--replay", "--target", "netlink,sflow"), ("netlink_replayed", "sflow_replayed", "findings")),
    ("torch_hook", ("--rounds", "2", "--calls", "20"), ("collective_cost_us", "ddp_step_cost_ratio")),
    (
        "lab",
        ("--only", "up_64_s,down_64_s,leftovers,rate_error_ratio,sflow_byte_error_ratio", "--rounds", "1",
         "--kills", "2", "--rate-s", "3"),
        LAB_FIGURES,
    ),
    (
        "house",
        ("--only", f"{STANDING},kernels"),  # `ready_cpu_s` starts a server, which others do
        (*STANDING.split(","), "kernels"),
    ),
    (
        "simulator",
        ("--recorded", "--gpus", "64", "--minutes", "2"),
        ("rows_per_second", "step_time_error_ratio", "queue_error_ratio", "volume_error_ratio"),
    ),
    (
        "graph",
        ("--gpus", "512", "--rounds", "1", "--jobs", "10"),
        ("load_1m_relations_s", "build_1m_relations_s", "update_1000_relations_ms", "job_neighbourhood_ms"),
    ),
    (
        "path",
        ("--samples", "20000", "--flows", "300", "--gpus", "2048", "--rounds", "2"),
        ("seconds_10m_samples", "times_a_plain_aggregation"),
    ),
    (
        "cause",
        ("--ranks", "64", "--steps", "24", "--rounds", "1"),
        ("seconds_10240_ranks", "seconds_symptom", "seconds_cause"),
    ),
    (
        "ledger",
        ("--ranks", "64", "--steps", "12", "--rounds", "2"),
        ("seconds_per_window_10240", "seconds_per_window_shuffled", "times_a_plain_aggregation"),
    ),
    (
        "anomaly",
        ("--hosts", "20", "--rounds", "1", "--no-dense"),
        ("seconds_100k_series", "seconds_shuffled", "seconds_nsigma", "peak_memory_mb"),
    ),
    (
        "clock",
        ("--quick", "--only", "simulated,speed"),
        ("live_p99_idle_ns", "stress_p99_ns", "biased_recall", "bound_coverage", "wrong_order", "edge_fit_us"),
    ),
    ("prober", ("--hosts", "3", "--seconds", "4", "--settle", "2"), ("cpu_share", "mbit_per_s")),
    ("executors", ("--quick",), ("windows_per_second_1", "windows_per_second_2")),
    (
        "web",
        ("--gpus", "512", "--rounds", "1", "--frames", "30", "--answers", "1", "--entities", "0", "--views", "2",
         "--series", "3000", "--recording", str(ROOT / "tests" / "golden" / "lab_messages" / "rings.leadline")),
        (*WEB_FIGURES, "api_p95_ms_now", "api_p95_ms_job", "api_p95_ms_expectations", "api_written_p95_ms_fleet",
         "search_ms"),
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "small", "expected"), SMALL, ids=[name for name, _, _ in SMALL])
def test_a_bench_runs_small(name: str, small: tuple[str, ...], expected: tuple[str, ...]) -> None:
    command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--json", *small]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["name"] == name
    assert {"cores", "load", "versions", "seed"} <= set(told["conditions"])
    figures = {figure["figure"]: figure for figure in told["figures"]}
    for figure in told["figures"]:
        assert {"figure", "value", "unit", "target", "better", "met"} <= set(figure)
        assert figure["value"] is not None or figure["reason"], f"{figure['figure']} has no value and says not why"
    for wanted in expected:
        assert figures[wanted]["value"] is not None


def test_every_bench_is_listed() -> None:
    programs = {path.stem for path in (ROOT / "bench").glob("*.py") if "__main__" in path.read_text()}
    assert programs == {name for name, _, _ in SMALL} | {"first_minutes"}  # which builds and installs: minutes
