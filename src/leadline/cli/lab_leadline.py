"""A Leadline that listens to a lab: the settings that make it hear one, and one of its own for a single run."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.ingest.config import ScrapeJob
from leadline.lab.state import state_root
from leadline.server.config import Flag
from leadline.server.supervisor import Supervisor

SCRAPE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a Leadline is: for verbs, for agents (a socket file works across namespaces), for switches."""

    url: str
    socket: Path
    sflow: tuple[str, int]
    data_dir: Path

    @property
    def agents(self) -> str:
        """What `leadline agent --server` is given."""
        return f"unix:{self.socket}"


def hearing(lab: str, socket_path: Path, sflow_port: int, scrape: Sequence[ScrapeJob] = ()) -> list[Flag]:
    """Settings with which a Leadline hears the lab of that name: its agents, its exporters, its switches.

    The files need not exist yet: the lab writes them when it comes up. `scrape` is what is scraped already.
    """
    state = state_root() / lab
    why = "leadline lab"
    exporters = ScrapeJob(
        job="lab",
        # Not hosts.json: what it has of NICs the agents send.
        file_sd=[str(state / "scrape" / "dcgm.json"), str(state / "scrape" / "switches.json")],
        interval_s=SCRAPE_EVERY_S,
        timeout_s=4.0,
        honor_labels=True,
    )
    return [
        Flag(why, "server", "socket", str(socket_path)),
        Flag(why, "ingest", "scrape", [asdict(each) for each in (*scrape, exporters)]),
        Flag(why, "ingest", "sflow", {"sender_files": [str(state / "sflow_senders.json")], "port": sflow_port}),
    ]


@contextmanager
def own_leadline(lab: str, data_dir: Path | None = None) -> Iterator[Listening]:
    """A Leadline for one run, on free ports, with a store of its own that goes with it (unless `data_dir` is given).

    Errors: CannotStartError, WorldError.
    """
    with tempfile.TemporaryDirectory(prefix="leadline-lab-") as made:
        directory = data_dir or Path(made) / "store"
        socket_path = Path(made) / "leadline.sock"
        port, grpc, http, sflow = (free_port(kind) for kind in ("tcp", "tcp", "tcp", "udp"))
        url = f"http://127.0.0.1:{port}"
        flags = [
            Flag("leadline lab", "store", "path", str(directory)),
            Flag("leadline lab", "server", "port", port),
            Flag("leadline lab", "server", "otlp_grpc_port", grpc),
            Flag("leadline lab", "server", "otlp_http_port", http),
            *hearing(lab, socket_path, sflow),
        ]
        supervisor = Supervisor(None, flags, os.environ, url)
        supervisor.start()
        try:
            supervisor.wait_ready()
            yield Listening(url, socket_path, ("127.0.0.1", sflow), directory)
        finally:
            supervisor.stop()


def free_port(kind: str) -> int:
    """A port that is free now. Another program could take it before we use it; starting then fails openly."""
    with socket.socket(type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
