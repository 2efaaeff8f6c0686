"""Every verb in every form of output, against a running server."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.senders.running import Pages, RunningLeadline, free_ports
from tests.unit.cli.conftest import Run, with_telemetry

from leadline import __version__
from leadline.cli.main import app
from leadline.host.main import parser
from leadline.model.tables import TABLES

SQL = "SELECT name, 21.5 AS value, map('[/x]', ':smile:') AS m FROM series WHERE name = 'cli.temp'"
VERBS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "tables": ("show", "tables"),
    "table": ("show", "tables", "step"),
    "series": ("show", "series", "cli"),
    "sql": ("sql", SQL),
}


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """A fresh one, to which nothing was sent that it would complain of."""
    with with_telemetry(tmp_path_factory.mktemp("verbs")) as server:
        yield server


def load(text: str, output: str) -> Any:
    return json.loads(text) if output == "json" else yaml.safe_load(text)


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("verb", VERBS)
def test_forms_for_programs(leadline: RunningLeadline, leadline_cli: Run, verb: str, output: str) -> None:
    ran = leadline_cli(*VERBS[verb], "--server", leadline.url, "--output", output)
    assert (ran.code, ran.err) == (0, "")
    found = load(ran.out, output)
    assert found["schema"] == 1
    if verb == "tables":
        assert [each["name"] for each in found["tables"]] == [table.name for table in TABLES]
    if verb == "table":
        assert [each["name"] for each in found["tables"]] == ["step"]
    if verb == "series":
        assert [row["name"] for row in found["rows"]] == ["cli.temp"]
    if verb == "sql":
        assert found["rows"] == [{"name": "cli.temp", "value": 21.5, "m": {"[/x]": ":smile:"}}]
    if verb == "doctor":
        assert found["state"] == "ok"
        assert found["sources"][0]["tells"] == ["[/red] :smile: <b>"]


CSV_HEADS = {"doctor": "tenant,way,name,", "tables": "name,doc,", "series": "name,streams,", "sql": "name,value,m"}


@pytest.mark.parametrize("verb", CSV_HEADS)
def test_rows_for_spreadsheets(leadline: RunningLeadline, leadline_cli: Run, verb: str) -> None:
    ran = leadline_cli(*VERBS[verb], "--server", leadline.url, "--output", "csv")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(CSV_HEADS[verb])


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_an_error_is_told_in_the_form_that_was_asked_for(leadline_cli: Run, output: str) -> None:
    (port,) = free_ports(1)
    ran = leadline_cli("show", "tables", "--server", f"127.0.0.1:{port}", "--output", output)
    assert (ran.code, ran.err) == (3, "")
    error = load(ran.out, output)["error"]
    assert (error["kind"], error["exit_code"]) == ("WorldError", 3)
    assert error["message"].startswith("no Leadline answers at ")
    assert leadline_cli("show", "tables", "--server", f"127.0.0.1:{port}").out == ""


def test_what_the_lab_can_run_is_listed(leadline_cli: Run) -> None:
    found = json.loads(leadline_cli("lab", "list", "-o", "json").out)["scenarios"]
    assert {each["kind"] for each in found} == {"scenario", "fault", "harmless"}
    assert [each["name"] for each in found if not each["what"]] == []
    said = leadline_cli("lab", "list")
    assert (said.code, said.err) == (0, "")
    assert [each["name"] for each in found if each["name"] not in said.out] == []
    assert "`leadline lab list`" in leadline_cli("lab", "run", "zzz").err


@pytest.mark.parametrize(
    ("verb", "texts"),
    [
        ("doctor", ["ok", "otlp-http", "[/red] :smile: <b>", "up "]),
        ("tables", [table.name for table in TABLES]),
        ("table", ["job, step, rank", "step", "loss", "kept 90 d"]),
        ("series", ["cli.temp", "gauge"]),
        ("sql", ["cli.temp", "21.5", "[/x]=:smile:"]),
    ],
)
def test_tables_for_people(leadline: RunningLeadline, leadline_cli: Run, verb: str, texts: list[str]) -> None:
    ran = leadline_cli(*VERBS[verb], "--server", leadline.url)
    assert (ran.code, ran.err) == (0, "")
    if verb == "table":
        texts = texts[1:]
    assert [text for text in texts if text not in ran.out] == []
    assert "\x1b[" not in ran.out  # no colours in a pipe


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_config_show(leadline_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """Values and their origins, without a server."""
    file = tmp_path / "site.yaml"
    file.write_text("server:\n  port: 9000\n")
    monkeypatch.setenv("LEADLINE_INGEST__DECODERS", "3")
    ran = leadline_cli("config", "show", "--config", str(file), "--output", output)
    assert (ran.code, ran.err) == (0, "")
    if output == "table":
        plain = re.sub(r"\s+", " ", ran.out)
        assert "server.port" in plain
        assert "environment" in plain
        return
    settings = {f"{each['section']}.{each['key']}": each for each in load(ran.out, output)["settings"]}
    assert (settings["server.port"]["value"], settings["server.port"]["origin"]) == (9000, f"{file}, line 2")
    assert settings["ingest.decoders"]["origin"] == "environment LEADLINE_INGEST__DECODERS"
    assert settings["server.host"]["origin"] == "default"


def test_sql_from_standard_input(leadline: RunningLeadline, leadline_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(SQL))
    ran = leadline_cli("sql", "-", "--server", leadline.url, "-o", "json")
    assert json.loads(ran.out)["rows"][0]["name"] == "cli.temp"


def test_server_without_scheme_and_from_the_environment(
    leadline: RunningLeadline, leadline_cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leadline_cli("sql", "SELECT 1", "--server", f"127.0.0.1:{leadline.port}").code == 0
    monkeypatch.setenv("LEADLINE_SERVER", leadline.url)
    assert leadline_cli("sql", "SELECT 1").code == 0
    monkeypatch.delenv("LEADLINE_SERVER")
    monkeypatch.setenv("LEADLINE_SERVER__PORT", str(leadline.port))
    assert leadline_cli("sql", "SELECT 1").code == 0


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("sql", "DROP TABLE event"), 2, "allowed is one SELECT"),
        (("sql", "SELECT nothing FROM event"), 2, "nothing"),
        (("show", "tables", "evnt"), 3, "no table 'evnt'"),
        (("show", "series", "--entity", "x", "--limit", "0"), 2, "--limit"),
        (("up", "--once"), 2, "--once belongs to --demo"),
        (("up", "--host", "0.0.0.0"), 2, "without tokens only loopback is allowed"),
        (("up", "--port", "99999"), 2, "server.port must be <= 65535"),
        (("config", "show", "--config", "missing.yaml"), 2, "missing.yaml: cannot be read"),
        (("nonsense",), 2, "nonsense"),
        ((), 2, "Usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistakes_end_with_their_code_and_a_line(
    leadline: RunningLeadline,
    leadline_cli: Run,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", leadline.url)
    ran = leadline_cli(*args)
    assert ran.code == code
    assert text in re.sub(r"[\s│]+", " ", ran.out + ran.err)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_doctor_without_a_server_says_what_to_do(leadline_cli: Run, output: str) -> None:
    (port,) = free_ports(1)
    ran = leadline_cli("doctor", "--server", f"http://127.0.0.1:{port}", "--output", output)
    assert ran.code == 2
    if output == "table":
        assert "start it with `leadline up`" in re.sub(r"\s+", " ", ran.err)
        return
    found = load(ran.out, output)
    assert found["state"] == "critical"
    assert "leadline up" in found["findings"][0]["do"]


def test_verbs_without_a_server_end_with_3(leadline_cli: Run) -> None:
    (port,) = free_ports(1)
    for args in (("sql", "SELECT 1"), ("show", "tables"), ("show", "series")):
        ran = leadline_cli(*args, "--server", f"127.0.0.1:{port}")
        assert ran.code == 3
        assert ran.err.startswith("leadline: no Leadline answers at ")


def test_what_is_no_leadline_is_said(leadline_cli: Run) -> None:
    with Pages() as pages:
        pages.answers["/api/v1/tables"] = (200, {}, b"<html>")
        ran = leadline_cli("show", "tables", "--server", pages.address)
        assert (ran.code, "is it Leadline?" in ran.err) == (3, True)
        pages.answers["/api/v1/tables"] = (200, {}, b"[1]")
        assert "is it Leadline?" in leadline_cli("show", "tables", "--server", pages.address).err
    for wrong in ("http://[", "ftp://x", "http://a b", "host:port", "http://"):
        ran = leadline_cli("show", "tables", "--server", wrong)
        assert (ran.code, "http://HOST:PORT" in ran.err) == (2, True), ran


def test_a_server_of_another_version_is_told_once(leadline_cli: Run, leadline: RunningLeadline) -> None:
    with Pages() as pages:
        answer = {"doctor": leadline.http.get("/api/v1/doctor"), "diagnosis": leadline.http.get("/api/v1/diagnosis")}
        assert answer["doctor"].headers["leadline-version"] == __version__
        for name, each in answer.items():
            pages.answers[f"/api/v1/{name}"] = (200, {"leadline-version": "9.8.7"}, each.content)
        said = leadline_cli("status", "--server", pages.address).err
        assert said.count("9.8.7") == said.count(__version__) == 1
        missing = {"error": {"reason": "not_found", "message": "nothing"}}
        pages.answers["/api/v1/tables"] = (404, {}, json.dumps(missing).encode())
        ran = leadline_cli("show", "tables", "--server", pages.address)
        assert (ran.code, "of another version" in ran.err) == (2, True)


def test_doctor_with_a_refusal_ends_with_1(leadline: RunningLeadline, leadline_cli: Run) -> None:
    """Last against this server: it stays in warning for ten minutes."""
    leadline.http.post("/v1/metrics", content=b"\xff", headers={"content-type": "application/x-protobuf"})
    ran = leadline_cli("doctor", "--server", leadline.url)
    assert ran.code == 1
    assert "refused or dropped since the start" in ran.out
    assert ran.out.index("  do: ") < ran.out.index("\nsenders\n"), "what is wrong comes before the tables"
    assert leadline_cli("doctor", "--server", leadline.url, "-o", "json").code == 1


def names_in(command: Any) -> list[str]:
    """The verbs of a group, without those that scripts alone call; none of a verb."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    return [name for name in names if not command.get_command(None, name).hidden]


def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Every verb with its click command."""
    found: list[tuple[tuple[str, ...], Any]] = []

    def walk(path: tuple[str, ...], command: Any) -> None:
        found.append((path, command))
        for name in names_in(command):
            walk((*path, name), command.get_command(None, name))

    walk((), typer.main.get_command(app))
    return found


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_help_mentions_every_option(
    leadline_cli: Run, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], command: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERMINAL_WIDTH", "160")
    for flag in ("--help", "-h"):
        ran = leadline_cli(*path, flag)
        assert ran.code == 0
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            assert any(name in ran.out or name.upper() in ran.out for name in names), names
        assert all(name in ran.out for name in names_in(command))


def test_help_of_the_agent_lists_its_flags(leadline_cli: Run) -> None:
    ran = leadline_cli("agent", "--server", "unix:/s", "--help")
    assert ran.code == 0
    assert all(flag in ran.out for flag in ("--server", "--spool", "--ring-dir", "--sources", "--once"))


def test_the_agent_becomes_a_process_with_the_flags_it_was_given(
    leadline_cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: became.append(arguments))
    leadline_cli("agent", "--server", "unix:/s", "-c", "x.yaml", "--interval", "0.5", "--sources", "", "--once")
    assert became[0][1:4] == ["-P", "-m", "leadline.host.main"]
    given = parser().parse_args(became[0][4:])
    assert (given.server, given.config, given.interval_s, given.sources) == ("unix:/s", Path("x.yaml"), 0.5, "")
    assert given.once
    assert given.token_file is None


def test_version(leadline_cli: Run) -> None:
    assert leadline_cli("--version") == (0, f"leadline {__version__}\n", "")


def test_a_verb_loads_none_of_the_others() -> None:
    """All of them take more than a second."""
    program = "import sys; from leadline.cli.main import main; sys.argv[1:] = ['--version']; main()"
    watched = f"import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); {program}"
    ran = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == f"leadline {__version__}\nFalse\n"
