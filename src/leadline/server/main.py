"""The process that owns the store, the ways in and the API. Its parts are built here by hand.

    store <── lanes <── intake <── http (8440, 4318), grpc (4317), scraper, sflow (6343/udp)
      ├──> api (8440)         ├──> live tables: what was accepted
      ├──> runner ──> worker processes   └──> runner: what was stored (which windows have late rows)
      └──> alerts ──> receivers

Stopping runs in reverse: listeners first, then the lanes (what was accepted is stored), then the runner and the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn

from leadline.ingest.counts import Counts
from leadline.ingest.grpc_server import OtlpGrpcServer
from leadline.ingest.http import IngestApp
from leadline.ingest.intake import Intake
from leadline.ingest.scrape import Scraper
from leadline.ingest.sflow_listener import SflowListener
from leadline.ingest.sources import Sources
from leadline.model.counters import counter
from leadline.model.errors import LeadlineError, StoreError, WorldError
from leadline.model.principal import Principal
from leadline.runner.live import LiveTables
from leadline.runner.run import Runner
from leadline.server.access import authorize
from leadline.server.alerts import Alerts
from leadline.server.api import create_api
from leadline.server.changes import Changes
from leadline.server.config import Config, Flag, load
from leadline.server.connections.bodies import BoundedBodies
from leadline.server.connections.files import raise_file_limit
from leadline.server.connections.protocol import KEEP_ALIVE_S, Connections
from leadline.server.expectations import effective, save
from leadline.server.explain import Explainer
from leadline.server.health import Parts
from leadline.server.recorded_config import config_text
from leadline.server.settings import require_loopback
from leadline.server.unix_socket import SocketFile
from leadline.store import Store
from leadline.wire.warm import warm

log = logging.getLogger("leadline")

MAINTAIN_EVERY_S = 300.0
BACKLOG = 2048  # connections that wait to be accepted; the kernel's own limit (somaxconn) is 4096


class Root:
    """The ASGI application of port 8440: the hot ways in by path, everything else to the API."""

    def __init__(self, ingest: IngestApp, api: Any, refused: Callable[[], None]) -> None:
        self._ingest = ingest
        self._api = BoundedBodies(api, refused)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and self._ingest.serves(scope["path"]):
            await self._ingest(scope, receive, send)
        else:
            await self._api(scope, receive, send)


class _Listener(uvicorn.Server):
    """One uvicorn server; signals are handled once, by `ServerProcess`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ServerProcess:
    """Everything that runs in the server process. Construction is inert."""

    def __init__(self, config: Config) -> None:
        self._config = config
        server = config.server
        require_loopback(server)
        self.counts = Counts()
        self.sources = Sources(self.counts)
        self.live = LiveTables(lambda rows: self.counts.add(counter("live_dropped", "full"), rows))
        self.store = Store(config.store)
        self.runner = Runner(config.runner, self.store, self.counts.add)
        self.intake = Intake(
            config.ingest, self.store, self.counts, self.sources, self.live.add, stored=self.runner.touched
        )
        self._decoders = ThreadPoolExecutor(config.ingest.decoders, thread_name_prefix="decode")
        ingest = IngestApp(self.intake, self._decoders, authorize)
        self.alerts = Alerts(config.alerts, self.store, self.counts.add, server.url, late_jobs=self.runner.late_jobs)
        explainer = Explainer(config.explain, Path(config.store.path), self.counts.add)
        parts = Parts(
            self.store, self.intake, self.live, time.time_ns(), runner=self.runner, ledger=config.ledger,
            alerts=self.alerts, explainer=explainer,
        )  # fmt: skip
        self._changes = Changes(parts)
        self.api = create_api(
            parts, authorize, lambda: [setting._asdict() for setting in config.settings()], self._changes,
            config_text(config),
        )  # fmt: skip
        self._connections = Connections(server.connections_max, self.counts.add)
        self._listeners = [
            self._listener(Root(ingest, self.api, lambda: self._connections.count("body_too_large")), server.port),
            self._listener(ingest, server.otlp_http_port),
        ]
        self._grpc = OtlpGrpcServer(self.intake, authorize, f"{server.host_in_url}:{server.otlp_grpc_port}")
        self._scraper = Scraper(config.ingest.scrape, self.intake, self._decoders, Principal())
        self._sflow = SflowListener(config.ingest.sflow, server.host, self.intake)
        self._stop = asyncio.Event()

    def _listener(self, app: Any, port: int) -> _Listener:
        return _Listener(
            uvicorn.Config(
                app,
                host=self._config.server.host,
                port=port,
                http=self._connections.protocol,
                loop="asyncio",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(self._config.server.stop_s_max),
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )

    def stop(self) -> None:
        """Ask the process to stop; safe from a signal handler."""
        self._stop.set()

    async def run(self) -> None:
        """Start in order, serve until told to stop, stop in reverse order. Errors: LeadlineError at the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        # First of all, so that a taken port is told before anything is opened; who connects meanwhile waits.
        server = self._config.server
        held = effective(self._config.sle)
        listening = [
            listening_on(server.host, server.port, "server.port"),
            listening_on(server.host, server.otlp_http_port, "server.otlp_http_port"),
        ]
        for probe in listening_on(server.host, server.otlp_grpc_port, "server.otlp_grpc_port"):
            probe.close()  # gRPC takes no socket of ours
        at_path = SocketFile(Path(server.socket)) if server.socket else None
        if at_path is not None:
            listening[0].append(at_path.listener)
        self._sflow.open()
        warm()
        self.store.start()
        try:
            save(self.store, held, time.time_ns(), self._config.runner.provider)
            self.alerts.open()
            self.runner.start()
            self.intake.start()
            self._grpc.start()
            await self._serve(loop, listening)
        finally:
            self._grpc.stop()
            await loop.run_in_executor(None, self.intake.stop)
            self._decoders.shutdown()
            await loop.run_in_executor(None, self.runner.stop)
            self.alerts.close()
            self.store.stop()
            if at_path is not None:
                at_path.remove()

    async def _serve(self, loop: asyncio.AbstractEventLoop, listening: list[list[socket.socket]]) -> None:
        serving = [
            asyncio.create_task(listener.serve(sockets))
            for listener, sockets in zip(self._listeners, listening, strict=True)
        ]
        parts = (self._scraper.run(), self._sflow.run(), self.alerts.run(), self._maintain(loop))
        behind = [asyncio.create_task(part) for part in parts]
        stopping: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        await asyncio.wait([*serving, *behind, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in behind:
            task.cancel()
        await asyncio.gather(*behind, return_exceptions=True)
        self._changes.close()
        for listener in self._listeners:
            listener.should_exit = True
        ended = await asyncio.gather(*serving, return_exceptions=True)
        stopping.cancel()
        for result in ended:
            if isinstance(result, BaseException):
                raise result
        for task in behind:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                raise WorldError(f"a background part of the server stopped: {error!r}") from error

    async def _maintain(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            try:
                await loop.run_in_executor(None, self.intake.save_streams)
                await loop.run_in_executor(None, self.store.maintain, time.time_ns())
            except StoreError as error:
                self.counts.add(counter("store_failed", "rollup"))
                log.error("maintenance of the store failed and is tried again: %s", error)


def listening_on(host: str, port: int, setting: str) -> list[socket.socket]:
    """Sockets that listen on every address of `host` (`localhost` may have two).

    Errors: WorldError, naming the address, the cause and the setting that chooses another port.
    """
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in dict.fromkeys(found):
            # TCP by name: asyncio switches Nagle's delay off only where a socket says so, and without that the body of
            # each answer waits 40 ms for the acknowledgement of its header.
            made.append(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made[-1].bind(address)
            made[-1].listen(BACKLOG)
    except OSError as error:
        for each in made:
            each.close()
        raise WorldError(
            f"cannot listen on {host}:{port} ({setting}): {error.strerror}; stop the program that has the port, or "
            f"choose another with {setting}"
        ) from error
    return made


def run_server(path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag]) -> int:
    """Load the configuration and run the server process; returns its exit code."""
    raise_file_limit()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = load(path, environ, flags)
        if config.runner.replay_file:
            from leadline.server.replay_process import ReplayProcess  # it needs `listening_on` of this module

            asyncio.run(ReplayProcess(config).run())
        else:
            asyncio.run(ServerProcess(config).run())
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)
        return 2
    return 0
