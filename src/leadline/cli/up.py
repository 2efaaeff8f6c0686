"""`leadline up`: start Leadline and keep it running."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.text import Text

from leadline.cli import demo as demo_run
from leadline.cli.client import ConfigOption
from leadline.cli.output import console
from leadline.model.errors import UsageError
from leadline.server.config import Config, Flag, load
from leadline.server.settings import require_loopback
from leadline.server.supervisor import CANNOT_START, CannotStartError, Supervisor

LOOK_EVERY_S = 0.25


def up(
    config: ConfigOption = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of the embedded store.")] = None,
    host: Annotated[str | None, typer.Option(help="Loopback address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of API, remote-write and OTLP/HTTP.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Also start this machine's node_exporter and an OpenTelemetry program.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --demo: show that telemetry arrives, then end.")] = False,
) -> None:
    """Start Leadline: ways in, embedded store and API in one process under a small supervisor.

    Runs until Ctrl-C or SIGTERM; what was accepted is stored before it ends.
    """
    if once and not demo:
        raise UsageError("--once belongs to --demo: without its senders nothing would arrive to be shown")
    flags = [
        Flag("--data-dir", "store", "path", str(data_dir) if data_dir else None),
        Flag("--host", "server", "host", host),
        Flag("--port", "server", "port", port),
    ]
    settings = load(config, os.environ, flags)
    require_loopback(settings.server)
    with ExitStack() as stack:
        senders = demo_run.Senders(settings) if demo else None
        if senders is not None:
            stack.callback(senders.stop)
            flags.append(senders.start_exporter())
        supervisor = Supervisor(config, flags, os.environ, url_of(settings))
        stopping = stack.enter_context(stop_on_signals())
        supervisor.start()
        try:
            code = _run(supervisor, senders, settings, stopping, once)
        except CannotStartError as error:
            if error.code != CANNOT_START:
                raise
            code = CANNOT_START  # it has said what is wrong
        finally:
            stopped = supervisor.stop()
    # Our own SIGTERM ends it before it is ready to stop in order: nothing was accepted then.
    if code == 0 and stopped not in (0, -signal.SIGTERM):
        print(f"leadline: the server did not stop in order (exit code {stopped}); see its message", file=sys.stderr)
        code = 1
    raise typer.Exit(code)


def url_of(settings: Config) -> str:
    """Address of the API. Errors: UsageError for port 0, which nobody could be told."""
    if settings.server.port == 0:
        raise UsageError("server.port 0 (any free port) is for tests; give `leadline up` a port")
    return settings.server.url


def _run(
    supervisor: Supervisor, senders: demo_run.Senders | None, settings: Config, stopping: list[int], once: bool
) -> int:
    took_s = supervisor.wait_ready(stopping=lambda: bool(stopping))
    out = console()
    if stopping:
        return 0
    out.print("Leadline is at", Text(url_of(settings), style="bold"), f"(ready after {took_s:.1f} s)")
    out.print(
        f"  remote-write {url_of(settings)}/api/v1/write   OTLP gRPC {settings.server.otlp_grpc_port}, "
        f"HTTP {settings.server.otlp_http_port}   rows {url_of(settings)}/api/v1/rows/TABLE"
    )
    if settings.server.socket:
        out.print("  all of it also at", Text(f"unix:{settings.server.socket}"))
    out.print("  leadline doctor | show tables | show series | sql 'SELECT ...'        stop with Ctrl-C")
    sys.stdout.flush()
    show = senders.show(url_of(settings), once) if senders is not None else None
    while not stopping:
        ended = supervisor.watch()
        if ended is not None:
            return ended
        if show is not None:
            verdict = next(show, None)
            if verdict is not None:
                return verdict
        time.sleep(LOOK_EVERY_S)
    return 0


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM makes true; the handlers before are put back at the end."""
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        caught.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
