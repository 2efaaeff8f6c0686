"""The process that owns the store, the ways in and the API. Its parts are built here by hand.

    store <── lanes <── intake <── http (8440, 4318), grpc (4317), scraper, sflow (6343/udp)
      ├──> api (8440)         └──> runner: what was stored (which windows have late rows)
      ├──> runner ──> worker processes
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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from leadline.alerts.alerts import Alerts
from leadline.explain.explain import Explainer
from leadline.ingest.counts import Counts
from leadline.ingest.grpc_server import OtlpGrpcServer
from leadline.ingest.http import IngestApp
from leadline.ingest.intake import Intake
from leadline.ingest.scrape import Scraper
from leadline.ingest.sflow_listener import SflowListener
from leadline.ingest.sources import Sources
from leadline.model.counters import counter
from leadline.model.errors import LeadlineError, WorldError
from leadline.model.principal import Principal
from leadline.runner.run import Runner
from leadline.server.api import create_api
from leadline.server.background.keeping import Background, in_order
from leadline.server.background.kernels import Kernels
from leadline.server.changes import Changes
from leadline.server.config import Config, Flag, load
from leadline.server.connections.bodies import BoundedBodies
from leadline.server.connections.files import raise_file_limit
from leadline.server.connections.front import front
from leadline.server.connections.protocol import KEEP_ALIVE_S, Connections
from leadline.server.expectations import effective, save
from leadline.server.health import Parts
from leadline.server.memory.allocators import trim
from leadline.server.memory.limit import bytes_max
from leadline.server.memory.release import releases
from leadline.server.memory.watch import MemoryWatch
from leadline.server.metrics.http import HttpTimes
from leadline.server.metrics.verdicts import Verdicts
from leadline.server.recorded_config import config_text
from leadline.server.replay_process import ReplayProcess
from leadline.server.settings import require_guarded
from leadline.server.sockets import listening_on
from leadline.server.supervisor import CANNOT_START, CRASHED
from leadline.server.tokens.gate import gate_of
from leadline.server.tokens.listening import AtSocket, Tls, tls_of
from leadline.server.unix_socket import SocketFile
from leadline.store import Store
from leadline.store.disk.watch import DiskWatch
from leadline.wire.warm import warm

log = logging.getLogger("leadline")

MAINTAIN_EVERY_S = 300.0
TLS_GOODBYE_S = 1.0  # a peer that reads answers at once; asyncio would wait 30 s


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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, without waiting for clients to say goodbye over TLS: agents that keep a connection open need not
        notice, and would hold the server for all of server.stop_s_max."""
        cutting = asyncio.create_task(self._cut_idle())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    async def _cut_idle(self) -> None:
        while self.config.is_ssl:
            await asyncio.sleep(TLS_GOODBYE_S)
            for each in list(self.server_state.connections):
                cycle, transport = getattr(each, "cycle", None), getattr(each, "transport", None)
                if transport is not None and (cycle is None or cycle.response_complete):
                    transport.abort()


class ServerProcess:
    """Everything that runs in the server process. Construction is inert."""

    def __init__(self, config: Config) -> None:
        self._config = config
        server = config.server
        require_guarded(server)
        self._gate, tls = gate_of(config), tls_of(server)
        self.counts = Counts()
        self.sources = Sources(self.counts)
        self.store = Store(config.store)
        self.runner = Runner(config.runner, self.store, self.counts.add)
        self.intake = Intake(
            config.ingest, self.store, self.counts, self.sources, stored=self.runner.touched,
            provider=config.runner.provider,
        )  # fmt: skip
        self._decoders = ThreadPoolExecutor(config.ingest.decoders, thread_name_prefix="decode")
        agents = self.runner.watermarks
        ingest = IngestApp(self.intake, self._decoders, self._gate, lambda: agents.hosts(time.time_ns()))
        self.alerts = Alerts(config.alerts, self.store, self.counts.add, server.url, late_jobs=self.runner.late_jobs)
        explainer = Explainer(config.explain, Path(config.store.path), self.counts.add)
        self.background = Background(self.counts.add)
        self.disk = DiskWatch(self.store, self.counts.add)
        self.memory = MemoryWatch(
            bytes_max(server.memory_bytes_max), self.intake.room, releases(self.store, self.runner), self.counts.add,
            trim=trim,
        )  # fmt: skip
        self.verdicts, http = Verdicts(self.store), HttpTimes()
        self.ready = False
        self.kernels = Kernels()
        self._compiled = asyncio.Event()
        parts = Parts(
            self.store, self.intake, time.time_ns(), runner=self.runner, ledger=config.ledger,
            alerts=self.alerts, explainer=explainer, background=self.background,
            disk=self.disk, memory=self.memory, kernels=self.kernels, verdicts=self.verdicts, http=http,
        )  # fmt: skip
        self._changes = Changes(parts)
        self.api = create_api(
            parts, self._gate, lambda: [setting._asdict() for setting in config.settings()], self._changes,
            config_text(config),
        )  # fmt: skip
        self._connections = Connections(server.connections_max, self.counts.add)
        root = front(Root(ingest, self.api, lambda: self._connections.count("body_too_large")), http)
        self._listeners = [
            self._listener(root, server.port, tls),
            self._listener(front(ingest, http), server.otlp_http_port, tls),
        ]
        if server.socket:
            self._listeners.append(self._listener(AtSocket(root), 0))
        self._grpc = OtlpGrpcServer(
            self.intake, self._gate, f"{server.host_in_url}:{server.otlp_grpc_port}", tls.pem() if tls else None
        )
        self._scraper = Scraper(config.ingest.scrape, self.intake, self._decoders, Principal())
        self._sflow = SflowListener(config.ingest.sflow, server.host, self.intake)
        self._stop = asyncio.Event()

    def _listener(self, app: Any, port: int, tls: Tls | None = None) -> _Listener:
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
                ssl_certfile=tls.cert if tls else None,
                ssl_keyfile=tls.key if tls else None,
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
            listening.append([at_path.listener])
        self._sflow.open()
        self.store.start()
        try:
            self.disk.start()
            self.memory.start()
            save(self.store, held, time.time_ns(), self._config.runner.provider)
            self.alerts.open()
            self.intake.start()
            self._load_kernels(loop)
            self._grpc.start()
            await self._serve(listening)
        finally:
            await in_order([
                ("kernels", self.kernels.stop), ("gRPC", self._grpc.stop), ("intake", self.intake.stop),
                ("decoders", self._decoders.shutdown), ("runner", self.runner.stop), ("alerts", self.alerts.close),
                ("memory", self.memory.stop), ("disk", self.disk.stop), ("store", self.store.stop),
                ("gate", self._gate.close), *([("socket", at_path.remove)] if at_path is not None else []),
            ])  # fmt: skip

    def _load_kernels(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load what is compiled and begin to analyse; or have it compiled first, beside what the server does."""

        def begin() -> None:
            try:
                warm()
            except Exception:
                log.exception("scanners could not be loaded; each is loaded by the first request that needs it")
            self.intake.scanners_missing = False
            self.runner.start()
            loop.call_soon_threadsafe(self._compiled.set)

        if not self.kernels.missing:
            begin()
            return
        self.intake.scanners_missing = True
        self.runner.prepare()  # what is stored meanwhile is analysed later
        self.kernels.start(begin)

    async def _scan(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run what needs scanners, once they are there."""
        await self._compiled.wait()
        await run()

    async def _serve(self, listening: list[list[socket.socket]]) -> None:
        serving = [
            asyncio.create_task(listener.serve(sockets))
            for listener, sockets in zip(self._listeners, listening, strict=True)
        ]
        keep = self.background.keep
        behind = [
            asyncio.create_task(keep(counter("background_failed", "scraper"), partial(self._scan, self._scraper.run))),
            asyncio.create_task(keep(counter("background_failed", "sflow"), partial(self._scan, self._sflow.run))),
            asyncio.create_task(keep(counter("background_failed", "alerts"), self.alerts.run)),
            asyncio.create_task(keep(counter("background_failed", "maintenance"), self._maintain)),
            asyncio.create_task(keep(counter("background_failed", "metrics"), self.verdicts.run)),
        ]
        self.ready = True
        stopping: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        await asyncio.wait([*serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        asked = self._stop.is_set()
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
        if not asked:
            raise WorldError("a listener of the server ended unexpectedly")

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            await self._maintained()

    async def _maintained(self) -> None:
        """One round. Each step fails for itself: series that cannot be read do not keep raw samples from being rolled
        up before they are dropped."""
        await self.background.step(counter("store_failed", "streams"), self.intake.save_streams)
        await self.background.step(counter("store_failed", "rollup"), lambda: self.store.maintain(time.time_ns()))


def run_server(path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag]) -> int:
    """Load the configuration and run the server process; returns its exit code.

    0: it was asked to stop. CANNOT_START: it could not start, and would not if it were started again. 1: it had been
    ready and then failed, so whoever looks after it starts it again.
    """
    raise_file_limit()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    process: ServerProcess | None = None
    try:
        config = load(path, environ, flags)
        if config.runner.replay_file:
            asyncio.run(ReplayProcess(config).run())
        else:
            process = ServerProcess(config)
            asyncio.run(process.run())
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)
        return CRASHED if process is not None and process.ready else CANNOT_START
    return 0
