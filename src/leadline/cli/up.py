"""`leadline up`: start Leadline and keep it running."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import httpx
import typer
from rich.text import Text

from leadline.cli.options import ConfigOption
from leadline.cli.output import console
from leadline.cli.pasted import pasted
from leadline.cli.serving import CompilingTeller, served, stop_on_signals, url_of
from leadline.model.errors import UsageError
from leadline.server.config import Config, Flag, load
from leadline.server.settings import require_guarded
from leadline.server.supervisor import CANNOT_START, Supervisor
from leadline.store.config import StoreConfig

if TYPE_CHECKING:
    from leadline.cli.demo.demo import Demo

LOOK_EVERY_S = 0.25
# Its switches and hosts are gone when it ends: in the store of one's own jobs each of them would be an open incident.
DEMO_STORE = "leadline-data/demo-store"


def up(
    config: ConfigOption = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of the embedded store.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces, which needs --token-file.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of web page, API and remote-write. Default: 8440.")] = None,
    otlp_grpc_port: Annotated[int | None, typer.Option(help="Port of OTLP/gRPC. Default: 4317.")] = None,
    otlp_http_port: Annotated[int | None, typer.Option(help="Port of OTLP/HTTP. Default: 4318.")] = None,
    sflow_port: Annotated[int | None, typer.Option(help="UDP port of sFlow. Default: 6343.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the tokens of those who may connect, written by `leadline token create`."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for HTTPS and gRPC over TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key (PEM) of --tls-cert.")] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Also train on an emulated cluster and break it (root), or replay a recording."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --demo: exit when the demo ends.")] = False,
) -> None:
    """Start the server: ingestion, storage, API and web page.

    Runs until Ctrl-C or SIGTERM; everything accepted is stored before it exits.
    """
    if once and not demo:
        raise UsageError("--once belongs to --demo: without its cluster nothing would arrive to be shown")
    flags = [
        Flag("--data-dir", "store", "path", str(data_dir) if data_dir else None),
        Flag("--host", "server", "host", host),
        Flag("--port", "server", "port", port),
        Flag("--otlp-grpc-port", "server", "otlp_grpc_port", otlp_grpc_port),
        Flag("--otlp-http-port", "server", "otlp_http_port", otlp_http_port),
        Flag("--sflow-port", "ingest", "sflow", None if sflow_port is None else {"port": sflow_port}),
        Flag("--token-file", "server", "token_file", _told(token_file)),
        Flag("--tls-cert", "server", "tls_cert", _told(tls_cert)),
        Flag("--tls-key", "server", "tls_key", _told(tls_key)),
    ]
    settings = load(config, os.environ, flags)
    require_guarded(settings.server)
    with ExitStack() as stack:
        story = None
        if demo:
            if settings.server.token_file or settings.server.tls_cert:
                raise UsageError(
                    "--demo is for this machine alone; leave tokens and TLS out (server.token_file, tls_cert)"
                )
            from leadline.cli.demo import demonstration  # loads the lab, which nobody else starts here

            demonstration.play_instead(config, data_dir, host, port, once)
            if settings.store.path == StoreConfig().path:
                flags.append(Flag("--demo", "store", "path", DEMO_STORE))
                settings = load(config, os.environ, flags)
            story, heard = demonstration.begun(settings)
            stack.callback(story.stop)
            flags += heard
            settings = load(config, os.environ, flags)
        supervisor = Supervisor(config, flags, os.environ, url_of(settings), settings.server.tls_cert)
        stopping = stack.enter_context(stop_on_signals())
        code = served(supervisor, lambda: _run(supervisor, story, settings, stopping, once))
    if code == CANNOT_START and _answers(url_of(settings)):
        told = (
            f"leadline: a Leadline answers at {url_of(settings)} already: use that one, or give this one another port"
        )
        print(f"{told} and another --data-dir", file=sys.stderr)
    raise typer.Exit(code)


def _answers(url: str) -> bool:
    """Whether a Leadline is there: then the port is not taken by a stranger."""
    try:
        found = httpx.get(f"{url}/health", timeout=1.0, trust_env=False, verify=False)
        return bool(found.json() == {"state": "ok"})
    except (httpx.HTTPError, ValueError):
        return False


def _run(supervisor: Supervisor, story: Demo | None, settings: Config, stopping: list[int], once: bool) -> int:
    took_s = supervisor.wait_ready(stopping=lambda: bool(stopping))
    out = console()
    if stopping:
        return 0
    out.print("Leadline is at", Text(url_of(settings), style="bold"), f"(ready after {took_s:.1f} s)")
    out.print(
        f"  takes remote-write at {url_of(settings)}/api/v1/write, OTLP gRPC at port {settings.server.otlp_grpc_port}, "
        f"OTLP HTTP at port {settings.server.otlp_http_port}"
    )
    if settings.server.socket:
        out.print("  also at", Text(f"unix:{_short(Path(settings.server.socket))}"))
    if settings.server.token_file:
        out.print("  asks for tokens:", Text(settings.server.token_file), "  leadline token create | list | revoke")
        if not (settings.server.tls_cert or settings.server.is_loopback()):
            out.print("  without TLS: whoever sees the network's packets sees the tokens; see --tls-cert")
    url = url_of(settings)
    out.print("  what is wrong     ", pasted("diagnose", url))
    out.print("  what is connected ", pasted("doctor", url))
    if settings.server.is_loopback():
        out.print("  watch this machine", f"{pasted('agent')} --server {url}")
    out.print("  stop              ", "Ctrl-C")
    sys.stdout.flush()
    show = story.show(once) if story is not None else None
    compiling = CompilingTeller()
    try:
        while not stopping:
            if supervisor.compiling is not None:
                supervisor.look()
                compiling.tell(supervisor.compiling)
            ended = supervisor.watch()
            if ended is not None:
                return ended
            verdict = next(show) if show is not None else None
            if verdict is not None:
                return verdict
            time.sleep(LOOK_EVERY_S)
    finally:
        if story is not None and show is not None:
            story.stop()
            show.close()  # the cluster is gone before the server is
    return 0


def _told(path: Path | None) -> str | None:
    return str(path) if path else None


def _short(path: Path) -> Path:
    """The path as it is said from here, where it is below here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
