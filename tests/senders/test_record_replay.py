"""Recording a running server, playing it again, recording that: the same telemetry. Real processes, loopback only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.builders.incident import Names, truth_of
from tests.senders.running import RunningLeadline, free_ports, ndjson, wait_for

from leadline.analysis import ANALYSES
from leadline.model.tables import BY_NAME
from leadline.runner.plan import concluded
from leadline.store.bundle import Bundle, read_bundle

MAIN = [sys.executable, "-m", "leadline.cli.main"]
SPAN_S = 30  # every second of it is judged by the recorded server and by each replay
ROWS = 2 * (2 * SPAN_S + 2)  # of two tenants: a sample and a step a second, a stream and a relation


def cli(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`leadline ARGS...` in a directory."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
    return subprocess.run(
        [*MAIN, *args], cwd=directory, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def begin_ns() -> int:
    """Of a span that is over: nothing arrives in it any more."""
    return time.time_ns() // 10**9 * 10**9 - 240 * 10**9


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory, begin_ns: int) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("recorded"), {"LEADLINE_RUNNER__ENABLED": "true"}) as server:
        fill(server, begin_ns)
        yield server


def fill(server: RunningLeadline, begin_ns: int) -> None:
    """Metrics and rows of two tenants."""
    points = [{"timeUnixNano": str(begin_ns + second * 10**9), "asDouble": second / 3} for second in range(SPAN_S)]
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": "zq-host-one"}}]}
    metric = {"name": "zq.temp", "gauge": {"dataPoints": points}}
    body = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    steps = [
        {
            "job": "zq-bert-1", "rank": 0, "step": second, "start_ns": begin_ns + second * 10**9,
            "end_ns": begin_ns + second * 10**9 + 7, "metrics": {"accuracy": "0.5"}, "host": "zq-host-one",
        }
        for second in range(SPAN_S)
    ]  # fmt: skip
    edge = {
        "child": "rank:zq-bert-1/0", "parent": "host:zq-host-one", "kind": "runs-on",
        "from_ns": begin_ns - 5, "source": "torch", "confidence": 1.0,
    }  # fmt: skip
    for tenant in ("default", "zq-acme"):
        whose = {"leadline-tenant": tenant}
        assert server.http.post("/v1/metrics", json=body, headers=whose).status_code == 200
        for table, rows in (("step", steps), ("relation", [edge])):
            headers = {**whose, "content-type": "application/x-ndjson"}
            answer = server.http.post(f"/api/v1/rows/{table}", content=ndjson(rows), headers=headers)
            assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def bundle(leadline: RunningLeadline, begin_ns: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "a.leadline"
    span = ["--from", str(begin_ns), "--to", str(begin_ns + SPAN_S * 10**9)]
    ran = cli(path.parent, "record", path.name, *span, "--server", leadline.url)
    assert ran.returncode == 0, ran.stderr
    assert "a.leadline" in ran.stdout
    return path


@contextmanager
def playing(
    directory: Path, bundle: Path, *args: str, judging: bool = True
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`leadline replay` with its API; `judging`: with analyses, which take most of its time."""
    (port,) = free_ports(1)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
    process = subprocess.Popen(
        [*MAIN, "replay", str(bundle), "--port", str(port), *args],
        cwd=directory,
        env={**environ, "TMPDIR": str(directory), "LEADLINE_RUNNER__ENABLED": str(judging).lower()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30.0) as http:
        try:
            yield process, http
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(40)
            assert process.stdout
            process.stdout.close()


def state(http: httpx.Client) -> str:
    try:
        return str(http.get("/api/v1/replay").json()["state"])
    except httpx.HTTPError:
        return ""


AGAIN = concluded(ANALYSES) | {"analysis_run"}  # what a replay concludes by itself


def telemetry(path: Path) -> dict[str, object]:
    """What a bundle tells of its members (length, hash, rows), verdicts left out."""
    with read_bundle(path) as bundle:
        return {name: each for name, each in bundle.manifest.members.items() if name.partition(".")[0] not in AGAIN}


def rows_told(bundle: Bundle) -> dict[str, int]:
    """Rows by table, verdicts left out."""
    return {name: rows for name, rows in bundle.manifest.rows().items() if name not in AGAIN}


def test_a_replay_recorded_again_has_the_same_telemetry(bundle: Path, tmp_path: Path) -> None:
    with playing(tmp_path, bundle, "--speed", "max") as (process, http):
        wait_for("the replay to be done", lambda: state(http) == "done", 90)
        again = cli(tmp_path, "record", "b.leadline", "--server", str(http.base_url))
        assert again.returncode == 0, again.stderr
        assert telemetry(tmp_path / "b.leadline") == telemetry(bundle)
        assert len(telemetry(bundle)) >= 4
        (tmp_path / "mine").write_bytes(http.get("/api/v1/bundle", headers={"leadline-tenant": "zq-acme"}).content)
        with read_bundle(tmp_path / "mine") as mine:
            assert "is for the role operator" in mine.config_text
        (tmp_path / "mine").unlink()
        told = http.get("/api/v1/replay").json()
        assert told["rows"] == told["rows_total"] == ROWS
        # "Now" is the recorded time; nothing else is taken in.
        page = http.get("/api/v1/tables/step", params={"from": "-10s"}).json()
        assert {row["step"] for row in page["rows"]} == set(range(SPAN_S - 10, SPAN_S))
        assert http.post("/api/v1/rows/step", content=b"{}").status_code in (404, 405)
        assert http.get("/api/v1/doctor").json()["state"] == "ok"
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["b.leadline"], "the temporary store is gone"


def test_once_ends_by_itself_and_a_store_can_be_kept(bundle: Path, tmp_path: Path) -> None:
    with playing(tmp_path, bundle, "--speed", "max", "--once", "--data-dir", "kept", judging=False) as (process, _):
        assert process.stdout
        said = process.stdout.read()
        assert process.wait(60) == 0, said
        with read_bundle(bundle) as first:  # with the verdicts that there were when it was recorded
            rows = sum(first.manifest.rows().values())
        assert rows >= ROWS
        assert f"played: {SPAN_S} of {SPAN_S} s, {rows} of {rows} rows" in said
    refused = cli(tmp_path, "replay", str(bundle), "--once", "--data-dir", "kept")
    assert refused.returncode == 2
    assert "expected a new or empty directory" in refused.stderr
    with read_bundle(bundle) as first:
        span = ["--from", str(first.manifest.from_ns), "--to", str(first.manifest.to_ns)]
        ran = cli(tmp_path, "record", "c.leadline", *span, "--data-dir", "kept", "--tenant", "zq-acme")
        assert ran.returncode == 0, ran.stderr
        with read_bundle(tmp_path / "c.leadline") as mine:
            assert rows_told(mine) == {name: rows // 2 for name, rows in rows_told(first).items()}


def test_a_tenant_records_its_own_rows_only(leadline: RunningLeadline, bundle: Path, tmp_path: Path) -> None:
    with read_bundle(bundle) as whole:
        asked = {"from": str(whole.manifest.from_ns), "to": str(whole.manifest.to_ns), "tenant": "default"}
    headers = {"leadline-tenant": "zq-acme"}
    answer = leadline.http.get("/api/v1/bundle", params=asked, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    (tmp_path / "a.leadline").write_bytes(answer.content)
    with read_bundle(tmp_path / "a.leadline") as mine:
        assert set(mine.rows(BY_NAME["step"])["tenant"].to_pylist()) == {"zq-acme"}
        assert "operator" in mine.config_text
    leadline.http.get("/api/v1/replay").raise_for_status()
    assert leadline.http.get("/api/v1/replay").json()["state"] == "off"
    wrong = leadline.http.get("/api/v1/bundle", params={"from": "tomorrow"})
    assert wrong.status_code == 400


def test_redacted_bundles_name_nobody(leadline: RunningLeadline, bundle: Path, tmp_path: Path) -> None:
    names = Names(hosts=("zq-host-one", "zq-host-two"))
    (tmp_path / "t.json").write_text(json.dumps(truth_of(names)))
    with read_bundle(bundle) as whole:
        span = ["--from", str(whole.manifest.from_ns), "--to", str(whole.manifest.to_ns)]
    ran = cli(tmp_path, "record", "r.leadline", *span, "--redact", "--truth", "t.json", "--server", leadline.url)
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.leadline", "r.truth.json", "t.json"]
    (tmp_path / "s.truth.json").write_text("{}")  # of another bundle, with its names
    stale = cli(tmp_path, "record", "--redact", str(bundle), "s.leadline")
    assert stale.returncode in (2, 3)
    assert "s.truth.json is there, and not of this bundle" in stale.stderr
    (tmp_path / "s.truth.json").unlink()
    plain = cli(tmp_path, "record", "--redact", str(bundle), "s.leadline")
    assert plain.returncode == 0, plain.stderr
    truth = json.loads((tmp_path / "r.truth.json").read_text())
    for name in ("r.leadline", "s.leadline"):
        assert b"zq-" not in (tmp_path / name).read_bytes()
        with read_bundle(tmp_path / name) as made, read_bundle(bundle) as whole:
            assert rows_told(made) == rows_told(whole)
            assert "zq-" not in repr([made.rows(table).drop([c for c in ("batch",) if c in table.key]).to_pylist()
                                     for table in made.tables]).replace("zq.temp", "")  # fmt: skip
            host = made.rows(BY_NAME["step"])["host"].to_pylist()[0]
            if name == "r.leadline":
                assert f"link:{host}/" in truth["faults"][0]["component"][0] or f"~{host}/" in str(truth)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["record", "a.tar"], "expected a bundle called NAME.leadline"),
        (["record", "a.leadline", "b.leadline"], "--redact FROM TO"),
        (["record", "a.leadline", "--last", "5m", "--from", "3"], "instead of --from and --to"),
        (["record", "a.leadline", "--to", "3"], "--to needs --from"),
        (["record", "a.leadline", "--data-dir", "none"], "expected the directory of an embedded store"),
        (["record", "--redact", "a.leadline", "a.leadline"], "the same file"),
        (["replay", "none.leadline"], "cannot be read"),
        (["replay", "none.leadline", "--speed", "fast"], "expected a number from 0.001"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, args: list[str], text: str) -> None:
    ran = cli(tmp_path, *args)
    assert ran.returncode in (2, 3)
    assert text in ran.stderr
    assert list(tmp_path.iterdir()) == []
