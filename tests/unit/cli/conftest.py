"""A running server with some telemetry in it, and the command line called in this process.

The server is one for all modules, as its start is dear; who needs a fresh one, or analyses, starts one of its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.senders.running import RunningLeadline

from leadline.cli.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def leadline_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls `leadline ARGS...` as the shell would; gives exit code and both outputs."""

    def becomes(*arguments: object) -> None:
        raise AssertionError(f"this process would have become {arguments}, and ended the tests without a word")

    monkeypatch.setattr(os, "execv", becomes)

    def run(*args: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["leadline", *args])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture(scope="session")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with with_telemetry(tmp_path_factory.mktemp("cli")) as server:
        yield server


@contextmanager
def with_telemetry(directory: Path) -> Iterator[RunningLeadline]:
    """A server with one metric."""
    with RunningLeadline(directory) as server:
        point = {"timeUnixNano": str(time.time_ns()), "asDouble": 21.5}
        metric = {"name": "cli.temp", "gauge": {"dataPoints": [point]}}
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "[/red] :smile: <b>"}}]}
        body = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
        assert server.http.post("/v1/metrics", json=body).status_code == 200
        yield server
