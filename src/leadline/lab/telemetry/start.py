"""Starting and stopping the telemetry of a lab, with one call each."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.lab.realise import cgroups, process
from leadline.lab.realise.cgroups import Cgroup
from leadline.lab.telemetry import lldp
from leadline.lab.telemetry.plan import QUEUE_THRESHOLD, READY, SAMPLE_GROUP, STATUS, Plan, TelemetryConfig, make_plan
from leadline.lab.telemetry.switch_sampler import TABLE, nft_rules
from leadline.model.errors import UsageError, WorldError
from leadline.model.programs import OWN_PYTHON

if TYPE_CHECKING:
    from leadline.lab.realise.cluster import Cluster

START_S_MAX = 30.0
STOP_S_MAX = 3.0


class Telemetry:
    """The telemetry of one cluster. Built inert; `start` returns when everything speaks."""

    def __init__(self, cluster: Cluster, config: TelemetryConfig | None = None) -> None:
        self.cluster = cluster
        self.config = config or TelemetryConfig()
        self._main: subprocess.Popen[bytes] | None = None
        self._lldp: lldp.Lldp | None = None
        self._plan: Plan | None = None

    def start(self, *, detached: bool = False) -> None:
        """Start all of it; it ends with the calling thread unless `detached`. Errors: WorldError, UsageError."""
        if self._main is not None:
            raise UsageError("the lab's telemetry runs already")
        cluster, config = self.cluster, self.config
        namespaces = {node: cluster.namespace(node) for node in cluster.topology.nodes}
        self._plan = make_plan(cluster.topology, cluster.name, config, namespaces, f"{cgroups.PARENT}/{cluster.name}")
        self._plan.write(cluster.state)
        (cluster.state / READY).unlink(missing_ok=True)
        self._main = self._spawn(detached)
        try:
            self._wait_for(cluster.state / READY)
            # The rules come last: from the first packet that they log, somebody reads.
            for switch in self._plan.switches:
                ports = [port.name for port in switch.ports]
                rules = nft_rules(ports, config.sampling_rate, SAMPLE_GROUP, config.header_bytes, QUEUE_THRESHOLD)
                if config.sampling_rate:
                    cluster.command(switch.name, ["nft", "-f", "-"], rules)
            if config.lldp:
                self._lldp = lldp.start(cluster, config.lldp_every_s, config.nice, detached)
        except BaseException:
            self.stop()
            raise

    def ended(self) -> bool:
        """Whether its main process has ended by itself: no sFlow and no kernel log from then on."""
        return self._main is not None and self._main.poll() is not None

    def stop(self) -> None:
        """Stop all of it. Harmless when nothing runs; files stay until the lab goes down."""
        if self._lldp is not None:
            _end([each.popen for each in self._lldp.processes.values()])
            self._lldp = None
        if self._main is not None:
            _end([self._main])
            self._main = None
        for switch in self._plan.switches if self._plan else ():
            with contextlib.suppress(WorldError):  # never made, or the namespace is gone with its rules
                self.cluster.command(switch.name, ["nft", "delete", "table", "inet", TABLE])
        self._plan = None

    def exporter_pid(self, host: str) -> int:
        """The process that serves a host's pages. Errors: UsageError for a host that has none."""
        children = self.status().get("exporters")
        if not isinstance(children, dict) or host not in children:
            raise UsageError(f"no exporter runs for {host!r}; there is one for each host, if telemetry.exporters is on")
        return int(children[host])

    def status(self) -> dict[str, object]:
        """What the process said of itself within the last 5 s: samples, losses, CPU. Errors: UsageError."""
        try:
            found: dict[str, object] = json.loads((self.cluster.state / STATUS).read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"the lab's telemetry does not run: {error}") from error
        return found

    @property
    def senders_file(self) -> Path:
        """For Leadline's `ingest.sflow.sender_files`."""
        return self.cluster.state / "sflow_senders.json"

    @property
    def scrape_directory(self) -> Path:
        """Target lists for Leadline's `file_sd`: dcgm.json, nics.json, hosts.json, switches.json."""
        return self.cluster.state / "scrape"

    def _spawn(self, detached: bool) -> subprocess.Popen[bytes]:
        group = Cgroup(f"{cgroups.PARENT}/{self.cluster.name}/telemetry/main")
        entrances = [] if group.make() else group.entrances()
        argv = [*OWN_PYTHON, "-m", "leadline.lab.telemetry.main", "--state", str(self.cluster.state)]
        command = process.wrapped(argv, entrances, self.config.nice, bound=not detached)
        return process.start(command, {}, self._log)

    @property
    def _log(self) -> Path:
        return self.cluster.state / "log" / "telemetry.log"

    def _wait_for(self, ready: Path) -> None:
        assert self._main is not None
        deadline = time.monotonic() + START_S_MAX
        while not ready.exists():
            if self._main.poll() is not None:
                raise WorldError(f"the lab's telemetry did not start: {_last_line(self._log)}")
            if time.monotonic() > deadline:
                raise WorldError(f"the lab's telemetry was not ready within {START_S_MAX:.0f} s; see {self._log}")
            time.sleep(0.01)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else f"it said nothing ({log})"


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, and SIGKILL for what does not go."""
    for each in processes:
        if each.poll() is None:
            each.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    for each in processes:
        try:
            each.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
