"""Which metrics are read by name: gathered from the tables that name them, in expressions that Prometheus takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.analysis.sle.expectations import DEFAULTS, parse
from leadline.views.metric_use import Use, keep_expressions, used_by, uses

ROOT = Path(__file__).resolve().parents[3]
KNOWN = uses()
NAMED = re.compile(r"\b(?:node|DCGM_FI|container|transceiver)_\w+\b|\bif(?:In|Out)[A-Z]\w+")


def test_each_table_is_asked() -> None:
    assert {use.by.partition(" ")[0] for use in KNOWN} == {
        "expectation", "cause", "plot", "table", "comparing", "packets", "failures",
    }  # fmt: skip
    assert used_by("DCGM_FI_DEV_XID_ERRORS", KNOWN) == [
        "expectation gpu-health", "plot 'Last XID' of a gpu", "failures of GPUs",
    ]  # fmt: skip
    assert "expectation host-memory" in used_by("node_memory_MemTotal_bytes", KNOWN)  # a bound's divisor
    assert "expectation gpu-clock" in used_by("DCGM_FI_DEV_GPU_UTIL", KNOWN)  # a condition
    assert used_by("node_uname_info", KNOWN) == ["comparing settings"]
    assert "table of the fleet" in used_by("node_netstat_Tcp_OutSegs", KNOWN)


@pytest.mark.parametrize(
    "name", ["go_goroutines", "node_softnet_processed_total", "prometheus_tsdb_head_series", "kube_pod_status_phase"]
)
def test_what_no_table_names(name: str) -> None:
    assert used_by(name, KNOWN) == []


def test_a_bound_that_asks_whether_anything_comes_names_no_metric() -> None:
    """`DCGM_FI_*` as age would keep everything."""
    assert any(name.endswith("*") for one in DEFAULTS for bound in one.bounds for name in bound.test.indicator.names)
    assert not any(use.metric in (r"node_\*", r"DCGM_FI_\*", "node_.*") for use in KNOWN)


def test_expectations_of_the_site_are_read_too() -> None:
    own = parse("- {name: x, layer: host, of: host, bounds: [{metric: my_queue_length, above: 5}]}", "x.yaml")
    assert used_by("my_queue_length", KNOWN) == []
    assert used_by("my_queue_length", uses(own)) == ["expectation x"]


def test_expressions_are_of_both_languages() -> None:
    """RE2 has neither look-around nor references back."""
    for use in KNOWN:
        re.compile(use.metric)
        assert not re.search(r"\(\?[=!<P]|\\[1-9]", use.metric), use
        assert "(" not in use.metric or use.metric.count("(") == use.metric.count(")")


def test_a_keep_list_keeps_all_and_names_nothing_twice() -> None:
    kept = keep_expressions(KNOWN)
    assert kept == sorted(set(kept))
    whole = re.compile("|".join(kept))
    literal = [use.metric for use in KNOWN if re.fullmatch(r"\w+", use.metric)]
    assert all(whole.fullmatch(name) for name in literal)
    assert keep_expressions([Use("node_a_total", "x"), Use(r"node_\w+_total", "y"), Use("up", "z")]) == [
        r"node_\w+_total", "up",
    ]  # fmt: skip


def test_alternatives_are_told_apart_only_where_they_are_whole_names() -> None:
    parts = [use.metric for use in KNOWN]
    assert "DCGM_FI_DEV_ROW_REMAP_\\w+" in parts
    assert "ifSpeed" in parts
    assert not any(part.startswith("|") or part.endswith("|") or not part for part in parts)


def test_what_our_dashboards_draw_is_kept() -> None:
    named = set()
    for path in [*(ROOT / "deploy/grafana").rglob("*.json"), *(ROOT / "deploy/mixin").glob("*.yaml")]:
        named |= set(NAMED.findall(path.read_text()))
    assert len(named) > 20
    assert [name for name in sorted(named) if not used_by(name, KNOWN)] == []
