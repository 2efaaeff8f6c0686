"""`leadline import trace` and `leadline show whatif` against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.senders.running import RunningLeadline
from tests.unit.cli.conftest import Run

GOLDEN = Path(__file__).parents[2] / "golden"
WHATIF = GOLDEN / "straggler_whatif" / "trace-ST.csv.gz"
KINETO = GOLDEN / "kineto_traces" / "ranks2_cut.json.gz"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("traces"), {}) as running:
        yield running


def test_a_trace_is_imported_and_its_what_if_is_the_published_one(leadline_cli: Run, server: RunningLeadline) -> None:
    ran = leadline_cli("import", "trace", str(WHATIF), "--job", "st-1", "--server", server.url)
    assert ran.code == 0
    assert "what-if CSV, 6,784 operations, 8 ranks, 32 steps" in ran.out
    found = json.loads(leadline_cli("show", "whatif", "st-1", "--server", server.url, "--output", "json").out)
    assert found["slowdown"] == pytest.approx(1.1787, abs=1e-4), "as published of trace ST"
    assert (found["cause"], found["place"]["stage"]) == ("stage-imbalance", 3)
    text = leadline_cli("show", "whatif", "st-1", "--server", server.url).out
    assert "cause: a long stage: stage 3" in text
    assert "if only this worker were as it was" in text


def test_a_second_import_under_one_name_is_refused(leadline_cli: Run, server: RunningLeadline) -> None:
    first = leadline_cli("import", "trace", str(KINETO), "--job", "it's", "--server", server.url)
    assert first.code == 0, "a name may have a quote in it"
    again = leadline_cli("import", "trace", str(KINETO), "--job", "it's", "--server", server.url)
    assert again.code == 2
    assert "job it's has 81 operations already" in again.err


def test_what_the_gpus_did_is_shown_where_no_step_can_be_replayed(leadline_cli: Run, server: RunningLeadline) -> None:
    leadline_cli("import", "trace", str(KINETO), "--job", "k-1", "--server", server.url)
    text = leadline_cli("show", "whatif", "k-1", "--server", server.url).out
    assert "what is missing" in text
    assert "only communicating" in text


def test_recorded_times_must_be_there_and_not_too_old(leadline_cli: Run, server: RunningLeadline) -> None:
    kept = leadline_cli("import", "trace", str(KINETO), "--job", "k-2", "--keep-times", "--server", server.url)
    assert kept.code == 2
    assert "2024-05-23T00:15:22+00:00 is older than the table is kept" in kept.err, "these would be dropped at once"
    refused = leadline_cli("import", "trace", str(WHATIF), "--job", "st-2", "--keep-times", "--server", server.url)
    assert refused.code == 2
    assert "count from each step's begin" in refused.err


def test_unknown_names_and_files_are_told(leadline_cli: Run, server: RunningLeadline, tmp_path: Path) -> None:
    none = leadline_cli("show", "whatif", "st-9", "--server", server.url)
    assert none.code == 3
    assert "leadline import trace FILE --job st-9" in none.out
    missing = leadline_cli("import", "trace", str(tmp_path / "no.csv"), "--server", server.url)
    assert missing.code == 2
    assert "expected a trace file" in missing.err
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    odd = leadline_cli("import", "trace", str(tmp_path / "odd.csv"), "--server", server.url)
    assert odd.code != 0
    assert "begins with 'a, b'" in odd.err
