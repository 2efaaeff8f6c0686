"""Exit codes agree over all verbs: a name that nobody knows ends with 3 and what may have been meant, anywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.senders.running import RunningLeadline, wait_for
from tests.unit.cli.conftest import Run
from tests.unit.views.incidents.incident_rows import FLAP, NOW, ROWS, WORKER, S
from tests.unit.views.paths.path_rows import filled

from leadline.cli.client import Client
from leadline.cli.exits import exit_of
from leadline.model.errors import BusyError, ConfigError, DataError, RefusedError, UnknownNameError, UsageError
from leadline.model.errors import WorldError as World

# Verbs that take a name, with one that nobody knows; and what is near to it, of what the store has.
VERBS = [
    (["diagnose", "bert-7"], "bert-1"), (["diagnose", "bert-1-slow-7"], WORKER),
    (["diagnose", "gpu:GPU-5"], "gpu:GPU-6"),
    (["show", "ledger", "bert-7"], "bert-1"), (["show", "flows", "bert-7"], "bert-1"),
    (["show", "messages", "bert-7"], "bert-1"), (["show", "graph", "bert-7"], "bert-1"),
    (["show", "graph", "--of", "gpu:GPU-5"], "gpu:GPU-6"), (["show", "path", "bert-1/0", "bert-1/88"], "bert-1/"),
    (["show", "incidents", "bert-7"], "bert-1"), (["show", "symptoms", "bert-7"], "bert-1"),
    (["show", "anomalies", "gpu:GPU-5"], "gpu:GPU-6"), (["show", "sle", "--entity", "gpu:GPU-5"], "gpu:GPU-6"),
    (["show", "series", "--entity", "gpu:GPU-5"], "gpu:GPU-6"), (["show", "tables", "stepp"], "step"),
    (["compare", "bert-7", "bert-1"], "bert-1"), (["compare", "gpu:GPU-5"], "gpu:GPU-6"),
    (["explain", "bert-1-slow-7"], WORKER), (["mark", "bert-1-slow-7", "right"], WORKER),
]  # fmt: skip
KNOWN = [
    ["show", "ledger", "bert-1"], ["show", "flows", "bert-1"], ["show", "messages", "bert-1"],
    ["show", "incidents", "calm-4"], ["show", "symptoms", "calm-4"], ["show", "graph", "bert-1"],
    ["show", "anomalies", "gpu:GPU-6"], ["show", "path", "bert-1/0", "bert-1/1"], ["show", "sle"],
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """A Leadline whose store has the incidents of `incident_rows`."""
    directory = tmp_path_factory.mktemp("exits")
    later_ns = time.time_ns() - NOW  # a running server drops rows of last year
    rows = {
        table: [{name: value + later_ns if _is_time(value) else value for name, value in row.items()} for row in some]
        for table, some in ROWS.items()
    }
    with filled(directory / "store", rows):
        pass
    with RunningLeadline(directory) as running:
        wait_for("an answer", lambda: running.http.get("/api/v1/incidents").status_code == httpx.codes.OK)
        yield running


def _is_time(value: object) -> bool:
    return isinstance(value, int) and abs(value - NOW) < 24 * 3600 * S


@pytest.mark.parametrize(("verb", "near"), VERBS, ids=[" ".join(verb) for verb, _ in VERBS])
def test_an_unknown_name_ends_with_3_and_a_suggestion(
    server: RunningLeadline, leadline_cli: Run, verb: list[str], near: str
) -> None:
    ran = leadline_cli(*verb, "--server", server.url)
    assert ran.code == 3, ran
    told = " ".join((ran.out + ran.err).split())
    assert near in told.partition("did you mean")[2], told
    assert "GET /api" not in told


@pytest.mark.parametrize("verb", KNOWN, ids=" ".join)
def test_a_known_name_with_nothing_to_tell_of_is_no_error(
    server: RunningLeadline, leadline_cli: Run, verb: list[str]
) -> None:
    assert leadline_cli(*verb, "--server", server.url).code == 0


@pytest.mark.parametrize("verb", [VERBS[0][0], VERBS[3][0], VERBS[12][0], VERBS[16][0]], ids=" ".join)
def test_in_an_empty_store_every_name_is_unknown(leadline: RunningLeadline, leadline_cli: Run, verb: list[str]) -> None:
    assert leadline_cli(*verb, "--server", leadline.url).code == 3


@pytest.mark.parametrize("more", [(), ("--at", "-20s")], ids=["now", "at"])
@pytest.mark.parametrize(("name", "code"), [(FLAP, 2), (WORKER, 0), ("port:h3/eth0", 2)])
def test_every_incident_that_is_named_can_be_asked_for(
    server: RunningLeadline, leadline_cli: Run, tmp_path: Path, name: str, code: int, more: tuple[str, ...]
) -> None:
    asked = ["diagnose", name, "--server", server.url, *more]
    picture = tmp_path / "diagnosis.svg"
    ran = leadline_cli(*asked, "--svg", str(picture))
    assert ran.code == code, ran
    assert "cannot tell" not in ran.out
    assert "UNKNOWN" not in ran.out + picture.read_text(encoding="utf-8")
    found = json.loads(leadline_cli(*asked, "-o", "json").out)
    assert found["incidents"][0]["incident"] in (FLAP, WORKER)
    assert found["about_kind"] == ("entity" if ":" in name else "incident")


def test_one_place_decides_how_errors_end() -> None:
    codes = {UsageError("x"): 2, ConfigError("x"): 2, UnknownNameError("x"): 3, World("x"): 3, BusyError("x"): 3,
             RefusedError("x", "y"): 3, DataError("a", "b", "c"): 3}  # fmt: skip
    assert {type(error): exit_of(error) for error in codes} == {type(error): code for error, code in codes.items()}


@pytest.mark.parametrize(("status", "reason"), [(404, "not_found"), (405, "method")])
def test_a_server_of_another_version_is_told_without_routes(status: int, reason: str) -> None:
    answer = httpx.Response(status, json={"error": {"reason": reason, "message": "nothing is served at /api/v1/x"}})
    with pytest.raises(UsageError, match="another version") as told:
        Client("http://127.0.0.1:1")._json("/api/v1/x", answer)
    assert "/api/" not in str(told.value)
    assert "leadline status" in str(told.value)
