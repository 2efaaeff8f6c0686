"""What a job needs beside it: a server that answers, an agent of this host. What is there is used, the rest is started.

What was started ends with `leadline run`, however that ends, and writes to logs in a folder of the run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from leadline import __version__
from leadline.host.bound import bound_to_parent
from leadline.host.config import AgentConfig
from leadline.host.config import load as agent_config
from leadline.host.post import FAILURES, Server, connection, parse_server
from leadline.host.secret import secret_of
from leadline.model.errors import ConfigError, UsageError, WorldError
from leadline.model.programs import OWN_PYTHON

PORT = int(os.environ.get("LEADLINE_SERVER__PORT") or 8440)
DEFAULT_URL = f"http://127.0.0.1:{PORT}"
ASK_S = 5.0  # for an answer of a server that is there
STOP_S = 20.0  # the server stores what it took, the agent delivers what it has
AGENT = "leadline.host.main"
LOG_LINES = 15  # of a log that is shown when its program failed
# What else a server listens to, by its flag: another collector of this host may have the usual port.
PORTS = (
    ("--otlp-grpc-port", 4317, socket.SOCK_STREAM),
    ("--otlp-http-port", 4318, socket.SOCK_STREAM),
    ("--sflow-port", 6343, socket.SOCK_DGRAM),
)


class Asked:
    """Asks a server for JSON, by HTTP over TCP or a UNIX socket."""

    def __init__(self, url: str) -> None:
        """Errors: ConfigError for an address that is none, a file of a token or of certificates that holds none."""
        self.url = url
        self.server: Server = parse_server(url)._replace(secret=secret_of(None, os.environ))

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The answer. Errors: WorldError if nobody answers, or not with JSON; what the server refuses too."""
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items() if value)
        opened = connection(self.server, ASK_S)
        try:
            opened.request("GET", f"{path}?{query}" if query else path, headers=self.server.secret.headers())
            answer = opened.getresponse()
            found = json.loads(answer.read())
        except FAILURES as error:
            raise WorldError(f"no Leadline answers at {self.url}: {error or type(error).__name__}") from None
        finally:
            opened.close()
        if answer.status >= 400 or not isinstance(found, dict):
            said = found.get("error", {}).get("message", found) if isinstance(found, dict) else found
            raise WorldError(f"{self.url}{path}: {answer.status}: {said}")
        return found

    def is_there(self) -> bool:
        """Whether a Leadline answers."""
        try:
            return self.get("/ready").get("state") == "ready"
        except WorldError:
            return False


class Program:
    """A program that was started beside the job."""

    def __init__(self, name: str, command: list[str], log: Path, environ: Mapping[str, str]) -> None:
        self.name, self._log = name, log
        with log.open("wb") as out:
            self._child = subprocess.Popen(
                bound_to_parent(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(environ),
                start_new_session=True,  # Ctrl-C is for the job
            )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._child.poll() is not None

    def said(self) -> str:
        """The end of its log, each line moved in."""
        lines = self._log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
        return "\n".join(f"    {line}" for line in lines)

    def stop(self) -> None:
        """Ask it to stop, wait, and kill it where it does not."""
        if self.ended:
            return
        self._child.terminate()
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


class Found(NamedTuple):
    """The server and, where it was started here, its program."""

    asked: Asked
    program: Program | None


def server_for(given: str, agent_sends_to: str, data_dir: Path | None, folder: Path) -> Found:
    """The server that was named, one that is there, or one that is started.

    `agent_sends_to`: the address that an agent of this host was started with; empty: none.
    Errors: WorldError if the named one does not answer; UsageError if none can be started here.
    """
    url = given or agent_sends_to or DEFAULT_URL
    asked = Asked(url)
    if asked.is_there():
        return Found(asked, None)
    if given:
        asked.get("/ready")  # says why
    if importlib.util.find_spec("uvicorn") is None:
        raise UsageError(
            f"no Leadline answers at {url}, and none can be started: this is the agent's installation. Name a server "
            "with --server http://HOST:8440, or install one here: pip install 'leadline[server]'"
        )
    port = _free_port(socket.SOCK_STREAM) if _is_taken(PORT, socket.SOCK_STREAM) else PORT
    command = [*OWN_PYTHON, "-m", "leadline.cli.main", "up", "--port", str(port), *_other_ports()]
    if data_dir is None and "LEADLINE_STORE__PATH" not in os.environ and not os.access(Path.cwd(), os.W_OK | os.X_OK):
        data_dir = folder / "store"  # nothing can be kept here: it is gone with the run
    command += ["--data-dir", str(data_dir)] if data_dir else []
    program = Program("server", command, folder / "server.log", os.environ)
    return Found(Asked(f"http://127.0.0.1:{port}"), program)


def _other_ports() -> list[str]:
    """Flags with free ports in place of those that are taken."""
    return [word for flag, port, kind in PORTS if _is_taken(port, kind) for word in (flag, str(_free_port(kind)))]


def _is_taken(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as each:
        if kind is socket.SOCK_STREAM:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            each.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


OF_A_RUN = "leadline-run-"  # the begin of a folder of rings that one `leadline run` has for itself


class Agent(NamedTuple):
    """An agent of this host that runs already: where its rings are and where it sends."""

    rings: Path
    server: str


def agent_here(server: str, proc: Path = Path("/proc")) -> Agent | None:
    """The agent of this host, if one runs that takes rings from this user; not one of another `leadline run`.

    `server`: where it has to send, unless that is empty.
    """
    wanted = parse_server(server)[:4] if server else None
    for path in proc.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, ConfigError):
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            if AGENT in words and "--once" not in words:
                config = _settings_of(words, path.parent)
                if config.ring_dir.name.startswith(OF_A_RUN):
                    continue
                sends_there = wanted is None or parse_server(config.server)[:4] == wanted
                if sends_there and config.ring_dir.is_dir() and os.access(config.ring_dir, os.W_OK | os.X_OK):
                    return Agent(config.ring_dir, config.server)
    return None


def _settings_of(words: list[str], process: Path) -> AgentConfig:
    """What an agent was started with, as far as this user may look: its environment is its owner's to see."""
    environ: dict[str, str] = {}
    file = _option(words, "--config") or _option(words, "-c")
    with contextlib.suppress(OSError):
        pairs = (process / "environ").read_bytes().decode("utf-8", "replace").split("\0")
        environ = dict(each.split("=", 1) for each in pairs if "=" in each)
    path = process / "cwd" / file if file else None
    flags = {"server": _option(words, "--server") or None, "ring_dir": _option(words, "--ring-dir") or None}
    return agent_config(path if path and path.is_file() else None, environ, flags)


def _option(words: list[str], name: str) -> str:
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def start_agent(url: str, rings: Path, folder: Path) -> Program:
    """An agent of our own, for the rings of this run alone."""
    command = [
        *OWN_PYTHON, "-m", AGENT, "--server", url, "--ring-dir", str(rings), "--spool", str(folder / "spool"),
    ]  # fmt: skip
    return Program("agent", command, folder / "agent.log", os.environ)


def rings_folder(step: str) -> Path:
    """A folder in memory for the rings of this run; the tasks of one step share it."""
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK | os.X_OK) else Path(os.environ.get("TMPDIR", "/tmp"))
    for gone in _left(memory):
        with contextlib.suppress(OSError):
            for each in gone.iterdir():
                each.unlink()
            gone.rmdir()
    path = memory / f"{OF_A_RUN}{os.getuid()}-{step or os.getpid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _left(memory: Path) -> Iterator[Path]:
    """Folders of runs of this user that were killed."""
    for path in memory.glob(f"{OF_A_RUN}{os.getuid()}-*"):
        number = re.fullmatch(rf"{OF_A_RUN}{os.getuid()}-(\d+)", path.name)
        if number and not Path("/proc", number[1]).exists():
            yield path


def version_note(asked: Asked) -> str:
    """What to say of a server of another version; empty: it is of ours, or does not say."""
    try:
        theirs = asked.get("/api/v1/doctor").get("version", "")
    except WorldError:
        return ""  # a token may not let us ask
    if theirs and theirs != __version__:
        return f"the server at {asked.url} is Leadline {theirs}, this is {__version__}; upgrade the older one"
    return ""
