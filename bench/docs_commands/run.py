"""Runs the commands of pages against one server that has replayed the shipped recording."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from bench.docs_commands.blocks import commands
from bench.docs_commands.listed import answers, substituted, why_not_run
from bench.docs_commands.parse import ROOT, Failure, failure, unknown
from leadline.cli.main import main
from leadline.host.main import main as agent_main
from leadline.lab.incidents import SHOWN, incident
from leadline.model.errors import UsageError
from leadline.server.config import load

FOLDERS = ("src", "tests", "deploy", "docs")  # that pages name files of, from the root of the repository
SHELL_WORDS = ("|", "&&", ";", ">")  # that make a command the shell's
SHELL_S_MAX = 30.0  # patience with a command that is no verb of ours


def failing(pages: Sequence[Path], server: str) -> list[Failure]:
    """The commands of `pages` that fail: those in fenced blocks are run, each once, in a folder of their own. What
    `listed` says cannot be run, and what stands within text, is parsed.

    `server`: the address of one that has replayed the shipped recording; verdicts of it are marked and dismissed.
    Errors: httpx.HTTPError if it does not answer.
    """
    failures = unknown(pages)
    with _place(server) as names:
        done: set[tuple[str, ...]] = set()
        for command in (each for page in pages for each in commands(page)):
            text = substituted(command.text, names)
            words = tuple(shlex.split(text, comments=True))
            if words not in done and not why_not_run(text):
                done.add(words)
                if why := _run(text, words):
                    failures.append(failure(command, why))
    return failures


@contextlib.contextmanager
def _place(server: str) -> Iterator[Mapping[str, str]]:
    """A folder with what pages suppose to be there, as the working directory; gives the names to put in."""
    variables = {"LEADLINE_SERVER": server, "COLUMNS": "160", "TERM": "dumb"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="docs-commands-") as made:
        for name in FOLDERS:
            (Path(made) / name).symlink_to(ROOT / name)
        (Path(made) / "etc").mkdir(mode=0o700)
        shutil.copy(incident(SHOWN), Path(made) / "flap.leadline")
        with mock.patch.dict(os.environ, {**kept, **variables}, clear=True):
            os.chdir(made)
            try:
                yield _names(server)
            finally:
                os.chdir(here)


def _names(server: str) -> dict[str, str]:
    """Names of the recording that are not the same in each replay."""
    with httpx.Client(base_url=server, trust_env=False, timeout=30.0) as client:
        incidents = client.get("/api/v1/incidents").json()["incidents"]
        found = next(each for each in incidents if each["causes"])
        entities = client.get("/api/v1/entities").json()["entities"]
    cause = found["causes"][0]
    return {
        "incident": found["incident"],
        "cause": f"{cause['entity']} --rule {cause['rule']}",
        "gpu": next(each for each in entities if each.startswith("gpu:")),
    }


def _run(text: str, words: Sequence[str]) -> str:
    """Run one command; why it failed, or nothing."""
    if all(re.match(r"LEADLINE_\w+=", word) for word in words):
        return _setting(words)
    ours = words[0] == "leadline" and not any(word in SHELL_WORDS for word in words)
    code, said = _ours(words[1:]) if ours else _shell(text)
    if code not in answers(text):
        return f"ended with {code}: {said.strip()[-400:]}"
    return "" if said.strip() else "printed nothing"


def _setting(words: Sequence[str]) -> str:
    """Why variables that stand alone are no settings."""
    try:
        load(None, {name: value for name, _, value in (word.partition("=") for word in words)})
    except UsageError as error:
        return str(error)
    return ""


def _ours(words: Sequence[str]) -> tuple[int, str]:
    """A verb in this process, because to start one takes most of a second."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["leadline", *words]),
    ):
        try:
            if words[0] == "agent":  # the verb would make this process the agent's
                code = agent_main(words[1:])
            else:
                main()
        except SystemExit as ended:
            code = ended.code or 0
    return int(code), f"{out.getvalue()}\n{err.getvalue()}"


def _shell(text: str) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-euc", text]
    environ = {**os.environ, "PATH": path}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SHELL_S_MAX, env=environ, check=False)
    except subprocess.TimeoutExpired:
        return 124, f"not done after {SHELL_S_MAX:.0f} s"
    return ran.returncode, f"{ran.stdout}\n{ran.stderr}"
