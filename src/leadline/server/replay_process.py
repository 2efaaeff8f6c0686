"""The process of `leadline replay`: a store, a bundle that feeds it, and the API. Nothing else is taken in.

    bundle ──> replay ──> store <── api (8440)
                  │         └─────> runner ──> worker processes
                  └─────> runner: what was stored

Port 8440 alone is taken, nothing is scraped, nothing ages and nothing is rolled up: what is in the store is what was
recorded, however old it is, and relative times (`-10m`) count from the recorded time that is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import uvicorn

from leadline.ingest.counts import Counts
from leadline.ingest.intake import Intake
from leadline.ingest.sources import Sources
from leadline.model.counters import counter
from leadline.model.tables import Table
from leadline.model.tables.accounts import EXPECTATION
from leadline.runner.replay import Replay
from leadline.runner.run import Runner
from leadline.server.api import create_api
from leadline.server.background.keeping import Background
from leadline.server.background.kernels import ANALYSES, Kernels
from leadline.server.changes import Changes
from leadline.server.config import Config
from leadline.server.connections.front import front
from leadline.server.connections.protocol import KEEP_ALIVE_S, Connections
from leadline.server.expectations import effective, save
from leadline.server.health import Parts
from leadline.server.metrics.verdicts import Verdicts
from leadline.server.settings import SleConfig, require_guarded
from leadline.server.sockets import listening_on
from leadline.server.tokens.gate import gate_of
from leadline.server.tokens.listening import tls_of
from leadline.store import Store

BEFORE_NS = (
    3600 * 10**9
)  # expectations configured for a replay hold since before its first window, which may begin early


class _Listener(uvicorn.Server):
    """Signals are handled by `ReplayProcess`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ReplayProcess:
    """Everything that runs in the process of a replay. Construction reads and checks the bundle, nothing more."""

    def __init__(self, config: Config) -> None:
        """Errors: DataError for a file that is no bundle, WorldError if it cannot be read, ConfigError."""
        self._config = config
        require_guarded(config.server)
        self._gate, tls = gate_of(config), tls_of(config.server)
        counts = Counts()
        self.store = Store(config.store)
        runner = config.runner
        self.replay = Replay(Path(runner.replay_file), runner.replay_speed, self.store, self._played)
        self.runner = Runner(
            runner,
            self.store,
            counts.add,
            self.replay.now_ns,
            from_ns=self.replay.manifest.from_ns,
            ended=self.replay.ended_ns,
            settle_ns=0,  # rows are in the store before they are told
        )
        # A recording is judged by what was expected there, unless something is configured here: so that somebody can
        # try expectations on it.
        self._held = effective(config.sle) if config.sle != SleConfig() else ()
        self.replay.leave_out(self.runner.concludes | ({EXPECTATION.name} if self._held else set()))
        # Never started: it answers what the API asks about senders and counts, of which there are none.
        intake = Intake(config.ingest, self.store, counts, Sources(counts))
        self.kernels = Kernels([ANALYSES])  # no telemetry comes in, so nothing is scanned
        self._background = Background(counts.add)
        self._verdicts = Verdicts(self.store, self.replay.now_ns)
        parts = Parts(
            self.store, intake, time.time_ns(), self.replay.now_ns, self.replay, self.runner, config.ledger,
            kernels=self.kernels, verdicts=self._verdicts,
        )  # fmt: skip
        self._changes = Changes(parts)
        api = create_api(parts, self._gate, lambda: [setting._asdict() for setting in config.settings()], self._changes)
        self._listener = _Listener(
            uvicorn.Config(
                front(api, parts.http),
                http=Connections(config.server.connections_max, counts.add).protocol,
                loop="asyncio",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(config.server.stop_s_max),
                ssl_certfile=tls.cert if tls else None,
                ssl_keyfile=tls.key if tls else None,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )
        self._stop = asyncio.Event()

    def _played(self, tenant: str, cluster: str, table: Table, columns: Mapping[str, object], rows: int) -> None:
        """Rows were stored."""
        self.runner.touched(tenant, cluster, table, columns, rows)

    async def run(self) -> None:
        """Start in order, serve until told to stop, stop in reverse order. Errors: LeadlineError at the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        server = self._config.server
        listening = listening_on(server.host, server.port, "server.port")
        self.store.start()
        try:
            if self._held:
                save(self.store, self._held, self.replay.manifest.from_ns - BEFORE_NS, self._config.runner.provider)
            self.runner.prepare()
            if self.kernels.missing:  # what is played meanwhile is analysed later
                self.kernels.start(self.runner.start)
            else:
                self.runner.start()
            self.replay.start()
            serving = asyncio.create_task(self._listener.serve(listening))
            stopping = asyncio.create_task(self._stop.wait())
            metrics = asyncio.create_task(
                self._background.keep(counter("background_failed", "metrics"), self._verdicts.run)
            )
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            metrics.cancel()
            self._changes.close()
            self._listener.should_exit = True
            stopping.cancel()
            await serving
        finally:
            self.kernels.stop()
            await loop.run_in_executor(None, self.replay.stop)
            await loop.run_in_executor(None, self.runner.stop)
            self.store.stop()
            self._gate.close()
