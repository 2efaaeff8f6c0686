"""The process of `leadline agent`: builds its parts by hand. `python -m leadline.host.main` takes the same flags."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from leadline.host.agent import Agent
from leadline.host.config import AgentConfig, load
from leadline.host.counts import AgentCounts
from leadline.host.permissions import answer
from leadline.host.sources import SOURCES
from leadline.host.sources.site import Site, read_if_there
from leadline.model.errors import ConfigError, LeadlineError, UsageError

DEFAULT_FILE = Path("leadline.yaml")
EXIT_REFUSED, EXIT_USAGE, EXIT_WORLD = 1, 2, 3
FORCE_AFTER_S = 1.0  # an orderly stop that takes all of stop_s_max ends in this time


def parser() -> argparse.ArgumentParser:
    """The flags; each sets the setting of its name."""
    flags = argparse.ArgumentParser(
        prog="leadline agent",
        description="Reads this host's counters, links, kernel log and event rings, and sends them to Leadline. "
        "All settings are in the section `agent` of leadline.yaml; these flags win.",
    )
    flags.add_argument("--config", "-c", type=Path, help="Configuration file; by default ./leadline.yaml.")
    flags.add_argument("--server", help="Server: http://HOST:PORT, https://HOST:PORT, or unix:PATH (LEADLINE_SERVER).")
    flags.add_argument("--token-file", help="File with the token, if the server needs one (LEADLINE_TOKEN_FILE).")
    flags.add_argument("--ca-file", help="CA certificates (PEM) to verify an https server (LEADLINE_CA_FILE).")
    flags.add_argument("--host", help="Name of this host.")
    flags.add_argument("--spool", help="Directory for data that is not delivered yet.")
    flags.add_argument("--ring-dir", help="Directory of the jobs' event rings.")
    flags.add_argument("--sys-root", help="Root of sysfs, or a tree like it.")
    flags.add_argument("--kmsg", help="Kernel log, or a file of its records.")
    flags.add_argument("--lldp-socket", help="Control socket of lldpd.")
    flags.add_argument("--interval", dest="interval_s", type=float, metavar="S", help="Seconds between readings.")
    flags.add_argument("--sources", help="Names of sources, separated by commas; by default all.")
    flags.add_argument(
        "--mesh",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="Probe other hosts of the cluster, and be probed by them; on unless --no-mesh is given.",
    )
    flags.add_argument("--once", action="store_true", help="Print one reading as JSON, and send nothing.")
    flags.add_argument(
        "--permissions",
        action="store_true",
        help="Print as JSON what each source can read here and why not, and send nothing.",
    )
    return flags


class Wanted(Enum):
    """What the process is to do."""

    RUN = "run"
    ONCE = "once"
    PERMISSIONS = "permissions"


def settings(arguments: Sequence[str]) -> tuple[AgentConfig, Wanted]:
    """The effective settings, and what is wanted. Errors: ConfigError."""
    given = vars(parser().parse_args(arguments))
    path = given.pop("config")
    wanted = [each for each in (Wanted.PERMISSIONS, Wanted.ONCE) if given.pop(each.value)]
    if given["sources"] is not None:
        given["sources"] = [name for name in given["sources"].split(",") if name]
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    config = load(path, os.environ, given)
    names = [source.name for source in SOURCES]
    unknown = [name for name in config.sources if name not in names]
    if unknown:
        raise ConfigError(f"there is no source {unknown[0]!r}; there are: {', '.join(names)}")
    return config, wanted[0] if wanted else Wanted.RUN


def site_of(config: AgentConfig) -> Site:
    """This host: its name, its boot, its clock."""
    host = config.host or socket.gethostname()
    boot_id = read_if_there(config.proc_root / "sys" / "kernel" / "random" / "boot_id").decode().strip()
    clock = f"{host}/{boot_id.replace('-', '')[:8]}" if boot_id else host
    return Site(config, host, clock, boot_id, AgentCounts())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or Ctrl-C. Returns the exit code."""
    logging.basicConfig(format="leadline agent: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        config, wanted = settings(sys.argv[1:] if arguments is None else arguments)
        return {Wanted.RUN: _run, Wanted.ONCE: _once, Wanted.PERMISSIONS: _permissions}[wanted](config)
    except LeadlineError as error:
        print(f"leadline agent: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_WORLD


def _run(config: AgentConfig) -> int:
    os.nice(config.nice)
    agent = Agent(config, site_of(config))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    _end_by_force(agent)
    agent.open(SOURCES)
    agent.start()
    logging.info("%s sends to %s every %g s", agent.site.host, config.server, config.interval_s)
    try:
        agent.run()
    finally:
        agent.close()
    return 0


def _end_by_force(agent: Agent) -> None:
    """End the process a little after `stop_s_max` from the first signal on, wherever it hangs then.

    The signal comes by a pipe: where the main thread hangs in the kernel (a disk that does not answer), Python calls no
    handler. What is not delivered by then is in the spool.
    """
    told, tells = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)

    def wait() -> None:
        while not set(os.read(told, 1)) & {signal.SIGTERM, signal.SIGINT}:
            pass
        time.sleep(agent.config.stop_s_max + FORCE_AFTER_S)
        logging.error("did not stop in time and was killed; undelivered data is in the spool")
        os._exit(EXIT_WORLD)

    threading.Thread(target=wait, name="stop", daemon=True).start()


def _permissions(config: AgentConfig) -> int:
    """Print what can be read here. Returns 1 if something is refused that could be granted."""
    found = answer(site_of(config), SOURCES)
    print(json.dumps(found, indent=1))
    return EXIT_REFUSED if found["state"] != "ok" else 0


def _once(config: AgentConfig) -> int:
    """Print one reading. The spool of an agent that runs is left alone."""
    import dataclasses
    import tempfile

    with tempfile.TemporaryDirectory(prefix="leadline-agent-") as spool:
        site = site_of(config)
        site.looks_only = True
        agent = Agent(dataclasses.replace(config, spool=Path(spool)), site)
        agent.open(SOURCES)
        print(json.dumps(agent.once(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
