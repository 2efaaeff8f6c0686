"""Completion, by shells that run: verbs, flags, their values, and what the server that the line names knows."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run

from leadline.cli.manual import bash, fish, zsh
from leadline.cli.manual.commands import Command, Kind
from leadline.cli.manual.known import known
from leadline.cli.verbs import GROUPS

TOKEN = "a-secret"
ANSWERS = {
    "/api/v1/jobs": {"jobs": [{"job": "bert-7"}, {"job": "llama/2"}, {"job": "$(touch it)"}, {"job": "bert-7"}]},
    "/api/v1/incidents": {"incidents": [{"incident": "bert-7-slow-1"}]},
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Answers as the API does, to whoever has the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["authorization"] == f"Bearer {TOKEN}"
            self.send_response(200 if allowed else 401)
            self.end_headers()
            self.wfile.write(json.dumps(ANSWERS[self.path] if allowed else {"error": {}}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With `leadline`, a token and a file that might be meant."""
    program = tmp_path / "leadline"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m leadline.cli.main "$@"\n')
    program.chmod(0o700)
    (tmp_path / "me.token").write_text(TOKEN)
    return tmp_path


def in_bash(whole: Command, folder: Path, *lines: str) -> list[list[str]]:
    """What bash offers at the end of each line; `FILES` where it is left to name files."""
    (folder / "completion.bash").write_text(bash.script(whole))
    (folder / "ask.bash").write_text(
        """set -u
        source ./completion.bash
        compopt() { COMPREPLY+=(FILES); }
        ask() { COMP_WORDS=(./leadline "$@"); COMP_CWORD=$#; _leadline; echo "${COMPREPLY[*]-}"; }
        """
        + "\n".join(f"ask {line}" for line in lines)
    )
    ran = subprocess.run(["bash", "ask.bash"], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr == ""
    return [line.split() for line in ran.stdout.splitlines()]


def test_bash_offers_every_verb_and_every_flag(whole: Command, folder: Path) -> None:
    paths = [" ".join(each.path) for each in whole.all()]
    offered = in_bash(whole, folder, *(f"{path} --" for path in paths), *(f"{path} ''" for path in paths))
    half = len(paths)
    for command, flags, words in zip(whole.all(), offered[:half], offered[half:], strict=True):
        long = {name for flag in command.flags for name in flag.names if name.startswith("--")}
        assert set(flags) == long, command.path
        if command.commands:
            assert words == [each.path[-1] for each in command.commands]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sho", ["show"]),
        (
            "nonsense ''",
            [name for names in GROUPS.values() for name in names],
        ),  # and all other verbs: the line is wrong, and nothing is lost by helping
        ("show inc", ["incidents"]),
        ("show incidents --output ''", ["table", "json", "yaml", "csv"]),
        ("show incidents --output = y", ["yaml"]),
        ("show incidents -o j", ["json"]),
        ("show incidents --last 2h --outp", ["--output"]),
        ("mark --server show x w", ["wrong"]),
        ("mark x right ''", []),
        ("up --port ''", []),
        ("up --config ''", ["FILES"]),
        ("record a.leadline ''", ["FILES"]),
        ("record a.leadline b.leadline ''", ["FILES"]),
        ("doctor ''", []),
        ("completion ''", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_knows_what_may_stand_where(whole: Command, folder: Path, line: str, offered: list[str]) -> None:
    assert in_bash(whole, folder, line)[0][: len(offered) or None] == offered


def test_bash_asks_the_server_that_the_line_names(whole: Command, folder: Path, server: str) -> None:
    asked = f"--server {server} --token-file me.token"
    lines = f"show ledger {asked} ''", f"mark {asked} b", f"show incidents {asked} l", f"explain --server {server} ''"
    offered = in_bash(whole, folder, *lines)
    assert offered == [["bert-7", "llama/2"], ["bert-7-slow-1"], ["llama/2"], []]
    assert not (folder / "it").exists()


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish (Debian: fish)")
def test_fish_offers_the_same(whole: Command, folder: Path, server: str) -> None:
    (folder / "completion.fish").write_text(fish.script(whole))
    lines = {
        "leadline sho": ["show"],
        "leadline show inc": ["incidents"],
        "leadline show incidents --outp": ["--output"],
        "leadline show incidents -o ": ["csv", "json", "table", "yaml"],
        "leadline mark x w": ["wrong"],
        "leadline record --last ": [],
        "leadline up --token-file me": ["me.token"],
        f"./leadline show ledger --server {server} --token-file me.token be": ["bert-7"],
    }
    ask = "; ".join(f"echo == ; complete -C {shlex.quote(line)}" for line in lines)
    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"source completion.fish; {ask}"],
        cwd=folder, env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    offered = [[line.split("\t")[0] for line in part.splitlines() if line] for part in ran.stdout.split("==")[1:]]
    assert dict(zip(lines, offered, strict=True)) == lines


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh (Debian: zsh)")
def test_zsh_reads_its_script_and_finds_its_place(whole: Command, folder: Path) -> None:
    """Its line editor wants a terminal, so what would be offered is printed in its place."""
    (folder / "_leadline").write_text(zsh.script(whole))
    (folder / "ask.zsh").write_text(
        """compdef() { :; }
        source ./_leadline
        _describe() { print -r -- ${${(P)@[-1]}%%:*}; }
        _files() { print FILES; }
        compadd() { print -r -- ${(P)2}; }
        ask() { words=(leadline "$@"); CURRENT=$(( $# + 1 )); _leadline; }
        """
        + "\n".join(("ask show ''", "ask mark x ''", "ask show incidents -o ''", "ask record a b ''", "ask doctor --"))
    )
    ran = subprocess.run(["zsh", "-f", "ask.zsh"], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr == ""
    verbs, marks, forms, files, flags = (line.split() for line in ran.stdout.splitlines())
    assert "incidents" in verbs
    assert marks == ["right", "wrong", "dismissed", "comment", "assigned"]
    assert forms == ["table", "json", "yaml", "csv"]
    assert files == ["FILES"]
    assert "--server" in flags


def test_names_come_from_where_it_was_told(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = folder / "me.token"
    assert known("jobs", server, token, None) == ["bert-7", "llama/2"]
    assert known("jobs", server, None, None) == [], "refused"
    assert known("jobs", "http://127.0.0.1:1", token, None) == [], "nobody there"
    assert known("jobs", "no address at all", token, None) == []
    monkeypatch.setenv("LEADLINE_TOKEN_FILE", str(token))
    assert known("incidents", server, None, None) == ["bert-7-slow-1"]


def test_each_shell_has_its_script(leadline_cli: Run) -> None:
    for shell, begin in (("bash", "# Completion"), ("zsh", "#compdef leadline\n"), ("fish", "# Completion")):
        ran = leadline_cli("completion", shell)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(begin)
    wrong = leadline_cli("completion", "names", "hosts")
    assert wrong.code == 2
    assert "jobs, incidents" in wrong.err


def test_what_is_asked_at_each_tab_loads_little() -> None:
    """Half a second is what one waits for; each of these takes most of it."""
    heavy = ("httpx", "numpy", "pyarrow", "fastapi", "rich.console", "leadline.server", "leadline.cli.up")
    code = (
        "import sys; sys.argv = ['leadline', 'completion', 'names', 'jobs', '--server', '127.0.0.1:1']\n"
        "import leadline.cli.main as it\n"
        "try: it.main()\n"
        f"finally: print([name for name in {heavy} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == "[]\n", ran.stderr


def test_jobs_and_incidents_are_known_by_the_names_of_operands(whole: Command) -> None:
    by_path = {" ".join(each.path): each for each in whole.all()}
    assert [each.kind for each in by_path["explain"].operands] == [Kind.INCIDENTS]
    assert [each.kind for each in by_path["show ledger"].operands] == [Kind.JOBS]
    assert "completion names" not in by_path, "hidden"
