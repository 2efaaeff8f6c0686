"""`leadline replay`: play an incident bundle on a store of its own and serve the API over it."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Protocol

import httpx
import typer
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from leadline.cli.options import ConfigOption
from leadline.cli.output import console, when
from leadline.cli.serving import TELL_EVERY_S, CompilingTeller, served, stop_on_signals, url_of
from leadline.model.errors import UsageError, WorldError
from leadline.server.config import Flag, load
from leadline.server.settings import require_guarded
from leadline.server.supervisor import Supervisor
from leadline.store.bundle import read_bundle

LOOK_EVERY_S = 0.25


def replay(
    file: Annotated[Path, typer.Argument(help="The bundle, NAME.leadline.")],
    speed: Annotated[
        str, typer.Option(help="Recorded seconds per second, or max: as fast as the store accepts them.")
    ] = "1",
    once: Annotated[bool, typer.Option("--once", help="Exit when everything was played.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the store here, in a new or empty directory. Default: deleted at the end."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Loopback address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the API.")] = None,
    config: ConfigOption = None,
) -> None:
    """Replay a recorded incident: its rows arrive in their original order and at their original pace.

    Needs no root and no cluster. The API serves what was played so far, until Ctrl-C. No other telemetry is accepted.
    """
    play(file, speed, once, data_dir, host, port, config, lambda url: ProgressTeller())


class Teller(Protocol):
    """Shows how far a replay is."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...
    def tell(self, found: dict[str, Any]) -> None:
        """What `/api/v1/replay` says now."""


def play(
    file: Path,
    speed: str,
    once: bool,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    config: Path | None,
    teller_at: Callable[[str], Teller],
) -> None:
    """Play a bundle; `teller_at` makes what shows it, from the server's address. Ends by `typer.Exit`."""
    flags = [
        Flag("--host", "server", "host", host),
        Flag("--port", "server", "port", port),
        Flag("--speed", "runner", "replay_speed", _speed(speed)),
        Flag("FILE", "runner", "replay_file", str(file.resolve())),
        Flag("leadline replay", "store", "ttl", False),
        # For this machine alone, even where the configuration lets others connect.
        Flag("leadline replay", "server", "token_file", ""),
        Flag("leadline replay", "server", "tls_cert", ""),
        Flag("leadline replay", "server", "tls_key", ""),
        # A replay has a store of its own, even where the configuration names a ClickHouse server.
        Flag("leadline replay", "store", "url", ""),
        Flag("leadline replay", "store", "cluster", ""),
    ]
    with read_bundle(file) as bundle:  # what is wrong with it is told before anything is started
        manifest = bundle.manifest
    with ExitStack() as stack:
        stopping = stack.enter_context(stop_on_signals())
        directory = _directory(stack, data_dir)
        flags.append(Flag("--data-dir", "store", "path", str(directory)))
        settings = load(config, os.environ, flags)
        require_guarded(settings.server)
        url = url_of(settings)
        supervisor = Supervisor(config, flags, os.environ, url)

        def follow() -> int:
            supervisor.wait_ready(stopping=lambda: bool(stopping))
            if not stopping:
                out = console()
                out.print("Leadline is at", Text(url, style="bold"))
                span = f"{when(manifest.from_ns)} to {when(manifest.to_ns)}, {sum(manifest.rows().values())} rows"
                out.print(f"  plays {file.name}: {span}        stop with Ctrl-C")
                sys.stdout.flush()
            return _follow(supervisor, url, stopping, once, teller_at(url))

        code = served(supervisor, follow)
    raise typer.Exit(code)


def _speed(text: str) -> float:
    """Recorded seconds per second; 0 for `max`. Errors: UsageError."""
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0.001 <= speed <= 1e6:
        raise UsageError(f"--speed: expected a number from 0.001 to 1000000, or max; got {text!r}")
    return speed


def _directory(stack: ExitStack, data_dir: Path | None) -> Path:
    """The directory of the store. Errors: UsageError for one that has something in it already."""
    if data_dir is None:
        made = Path(tempfile.mkdtemp(prefix="leadline-replay-"))
        stack.callback(shutil.rmtree, made, ignore_errors=True)
        return made
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise UsageError(
            f"--data-dir {data_dir}: expected a new or empty directory: a recording must not be mixed with other rows"
        )
    return data_dir


def _follow(supervisor: Supervisor, url: str, stopping: list[int], once: bool, told: Teller) -> int:
    """Follow the replay until it is over and `once`, or until told to stop. Returns an exit code."""
    compiling = CompilingTeller()
    with told, httpx.Client(trust_env=False, timeout=5.0, base_url=url) as client:
        while not stopping:
            ended = supervisor.watch()
            if ended is not None:
                return ended
            found = _ask(client)
            if found is not None:
                compiling.tell(found["compiling"])
                told.tell(found)
                if found["state"] == "failed":
                    raise WorldError(f"the replay failed: {found['error']}")
                if found["state"] == "done" and once:
                    return 0
            time.sleep(LOOK_EVERY_S)
    return 0


class ProgressTeller:
    """Shows progress: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._out = console()
        self._bar: Progress | None = None
        if self._out.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), console=self._out
            )
            self._task = self._bar.add_task("replay", total=1.0, text="")
        self._told_at = 0.0
        self._done = False

    def __enter__(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, found: dict[str, Any]) -> None:
        """Show how far it is."""
        if self._done:
            return
        self._done = found["state"] == "done"
        played_s = (found["at_ns"] - found["from_ns"]) / 1e9
        whole_s = (found["to_ns"] - found["from_ns"]) / 1e9
        text = f"{played_s:.0f} of {whole_s:.0f} s, {found['rows']} of {found['rows_total']} rows"
        if self._bar is not None:
            share = 1.0 if self._done else min(played_s / max(whole_s, 1e-9), 1.0)
            self._bar.update(self._task, completed=share, text=text)
        elif self._done or time.monotonic() - self._told_at >= TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._out.print(f"  {'played' if self._done else 'playing'}: {text}")
            sys.stdout.flush()


def _ask(client: httpx.Client) -> dict[str, Any] | None:
    try:
        answer = client.get("/api/v1/replay")
    except httpx.HTTPError:
        return None  # the supervisor is starting the server again
    return answer.json() if answer.status_code == 200 else None
