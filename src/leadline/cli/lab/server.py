"""A Leadline that listens to a lab: settings with which it hears one, its inventory, and one of its own for a run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from leadline import __version__
from leadline.ingest.config import ScrapeJob
from leadline.lab.state import claims, state_root
from leadline.lab.topology import Topology
from leadline.lab.topology.relations import relations
from leadline.model.errors import WorldError
from leadline.server.config import Flag
from leadline.server.supervisor import Supervisor

POST_S_MAX = 30.0
NDJSON = "application/x-ndjson"
MADE_AS = "leadline-lab-"  # directories of a single run's store, in the directory for temporary files
STORE, LOCK = "store", "owner.lock"  # in each of them: locked as long as its owner lives


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a Leadline is: for verbs and agents, for switches; and where its store is."""

    url: str
    sflow: tuple[str, int]
    data_dir: Path
    watch: Callable[[], None] = lambda: None  # looks after a server of ours. Errors: WorldError if it is not to be had


def hearing(lab: str, sflow_port: int, scrape: Sequence[ScrapeJob] = ()) -> list[Flag]:
    """Settings with which a Leadline hears the exporters and the switches of the lab of that name.

    Its agents need none: they send over HTTP. What every user would have to say, where his exporters and switches are,
    is all that is set here; how a Leadline takes data in is as it is for everybody. The files need not exist yet: the
    lab writes them when it comes up. `scrape` is what is scraped already.
    """
    state = state_root() / lab
    why = "leadline lab"
    exporters = ScrapeJob(
        job="lab",
        # Not hosts.json: what it has of NICs the agents send.
        file_sd=[str(state / "scrape" / name) for name in ("dcgm.json", "nics.json", "switches.json")],
        honor_labels=True,
    )
    return [
        Flag(why, "ingest", "scrape", [asdict(each) for each in (*scrape, exporters)]),
        Flag(why, "ingest", "sflow", {"sender_files": [str(state / "sflow_senders.json")], "port": sflow_port}),
    ]


def tell_inventory(url: str, topology: Topology, since_ns: int) -> None:
    """Post the topology as rows of `relation`. Errors: WorldError with the server's answer."""
    body = "".join(json.dumps(row) + "\n" for row in relations(topology, since_ns))
    try:
        answer = httpx.post(
            f"{url}/api/v1/rows/relation",
            content=body,
            headers={"Content-Type": NDJSON, "User-Agent": f"leadline-inventory/{__version__}"},  # doctor names it so
            timeout=POST_S_MAX,
        )
    except httpx.HTTPError as error:
        raise WorldError(f"{url} does not take the inventory of {topology.name}: {error}") from error
    if answer.is_error:
        raise WorldError(f"{url} refused the inventory of {topology.name}: {answer.status_code} {answer.text[:300]}")


@contextmanager
def own_leadline(
    lab: str, data_dir: Path | None = None, stopping: Callable[[], bool] = lambda: False
) -> Iterator[Listening]:
    """A Leadline for one run, on free ports, with a store of its own that goes with it (unless `data_dir` is given).

    It is ready, unless `stopping` said so before. Errors: CannotStartError, WorldError.
    """
    with _own_directory() as made:
        directory = data_dir or made / STORE
        port, grpc, http, sflow = (free_port(kind) for kind in ("tcp", "tcp", "tcp", "udp"))
        url = f"http://127.0.0.1:{port}"
        flags = [
            Flag("leadline lab", "store", "path", str(directory)),
            Flag("leadline lab", "server", "token_file", ""),  # for this machine alone
            Flag("leadline lab", "server", "port", port),
            Flag("leadline lab", "server", "otlp_grpc_port", grpc),
            Flag("leadline lab", "server", "otlp_http_port", http),
            *hearing(lab, sflow),
        ]
        supervisor = Supervisor(None, flags, os.environ, url)
        supervisor.start()
        try:
            supervisor.wait_ready(stopping=stopping)
            yield Listening(url, ("127.0.0.1", sflow), directory, lambda: _watch(supervisor))
        finally:
            supervisor.stop()


def remove_leftovers() -> list[str]:
    """Remove the stores of runs that were killed; returns what was removed, one phrase each. Errors: WorldError."""
    with claims(state_root()):
        return _clear_dead()


def _clear_dead() -> list[str]:
    removed = []
    for lock in Path(tempfile.gettempdir()).glob(f"{MADE_AS}*/{LOCK}"):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its owner lives, or it is not ours to touch
            continue
        # The lock goes last: a server that is still about to end may write into its store again.
        shutil.rmtree(lock.parent / STORE, ignore_errors=True)
        if (lock.parent / STORE).exists():
            continue
        shutil.rmtree(lock.parent, ignore_errors=True)
        removed.append(f"store of a run that was killed: {lock.parent}")
    return removed


@contextmanager
def _own_directory() -> Iterator[Path]:
    """A directory that is gone at the end; after `kill -9` the next run removes it."""
    with tempfile.TemporaryDirectory(prefix=MADE_AS) as made, (Path(made) / LOCK).open("xb") as lock:
        with claims(state_root()):  # nobody may look at the lock before we have it
            fcntl.flock(lock, fcntl.LOCK_EX)
            _clear_dead()
        yield Path(made)


def _watch(supervisor: Supervisor) -> None:
    code = supervisor.watch()
    if code is not None:
        raise WorldError(f"the Leadline of this run has ended (exit code {code}); its message is above")


def free_port(kind: str) -> int:
    """A port that is free now. Another program could take it before we use it; starting then fails openly."""
    with socket.socket(type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
