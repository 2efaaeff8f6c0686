"""The verbs about analyses against a running server: what the double in `test_analyses.py` answers is its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.senders.running import RunningLeadline
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_analyses import GRAPH

from leadline.analysis import ANALYSES


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("live"), {"LEADLINE_RUNNER__ENABLED": "true"}) as server:
        yield server


def test_analyses_of_a_running_server(leadline: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "analyses", "--server", leadline.url, "-o", "json")
    found = json.loads(ran.out)["analyses"]
    assert [each["name"] for each in found] == [item.name for item in ANALYSES]
    assert all(each.keys() == GRAPH.keys() for each in found)
    ran = leadline_cli("show", "analyses", "--server", leadline.url)
    assert (ran.code, ran.err) == (0, "")
    assert all(f"{item.name} {item.version}" in ran.out for item in ANALYSES)
    told = json.loads(leadline_cli("doctor", "--server", leadline.url, "-o", "json").out)["analyses"]
    assert [each["name"] for each in told] == [item.name for item in ANALYSES]
    assert all(item.name in leadline_cli("doctor", "--server", leadline.url).out for item in ANALYSES)


def test_backfill_of_a_running_server(leadline: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("backfill", *[item.name for item in ANALYSES], "--last", "1m", "--server", leadline.url)
    assert (ran.code, ran.err) == (0, "")
    assert " are queued" in ran.out
    ran = leadline_cli("backfill", "nonsense", "--last", "1m", "--server", leadline.url)
    assert ran.code == 2
    assert "nonsense" in ran.err
