"""Who may send sFlow, and which switch that is: the allow-list of the settings and of files.

UDP has no token, and a datagram says about itself what it likes. So both addresses count: the one it came from decides
whether it is taken, and where one address sends for several agents (a relay), the agent address decides for whom.
"""

from __future__ import annotations

import glob
import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.ingest.config import SflowConfig, SflowSender
from leadline.ingest.listed import read_listed
from leadline.model.errors import ConfigError
from leadline.wire.sflow.datagrams import Switch

SENDERS_MAX = 10_000  # of all files together, some kB each
UNKNOWN_MAX = 10_000  # switches called by their agent address

Say = Callable[[str, str], None]
"""Takes (file, what is wrong with it)."""


class Allowed:
    """The allow-list. `refresh` reads files that changed. Not for several threads at once.

    Errors: ConfigError for a sender of the settings that cannot be one.
    """

    def __init__(self, config: SflowConfig) -> None:
        self._config = config
        self._static = [checked(sender, "ingest.sflow.senders") for sender in config.senders]
        self._read: dict[str, tuple[tuple[int, ...], list[SflowSender]]] = {}
        self._switches: dict[tuple[str, str], Switch] = {}
        self._unknown: dict[str, Switch] = {}
        self._index()

    def refresh(self, say: Say) -> None:
        """Read what is new or changed. A file that cannot be read counts as it was; one that is gone lists nothing."""
        changed = False
        paths = {path for pattern in self._config.sender_files for path in glob.glob(pattern)}
        for gone in self._read.keys() - paths:
            del self._read[gone]
            changed = True
        for path in sorted(paths):
            had = self._read.get(path, ((), []))
            try:
                found = Path(path).stat()
                mark = (found.st_mtime_ns, found.st_size, found.st_ino)
                if mark == had[0]:
                    continue
                self._read[path] = (mark, had[1])
                self._read[path] = (mark, senders_of(Path(path)))
                changed = True
            except (OSError, ConfigError) as error:
                say(path, str(error))
        if changed:
            self._index()

    def _index(self) -> None:
        listed = [*self._static, *(sender for _, senders in self._read.values() for sender in senders)]
        self._switches = {
            (sender.address, sender.agent): Switch(sender.switch, sender.ports) for sender in listed[:SENDERS_MAX]
        }

    def switch(self, address: str, agent: str) -> Switch | None:
        """The switch that sends from `address` and calls itself `agent`; None if it may not send."""
        found = self._switches.get((address, agent)) or self._switches.get((address, ""))
        if found is None and self._config.accept_unknown and agent:
            found = self._unknown.get(agent)
            if found is None and len(self._unknown) < UNKNOWN_MAX:
                found = self._unknown[agent] = Switch(agent)
        return found


def senders_of(path: Path) -> list[SflowSender]:
    """The senders that a file lists. Errors: ConfigError, OSError."""
    listed = read_listed(path)
    if not isinstance(listed, list):
        raise ConfigError(f"{path}: expected a list of {{address, switch, ports, agent}}, got {type(listed).__name__}")
    return [_sender(each, f"{path}: sender {number}") for number, each in enumerate(listed, 1)]


def _sender(given: Any, where: str) -> SflowSender:
    known = ("address", "switch", "ports", "agent")
    if not isinstance(given, dict) or not {"address", "switch"} <= given.keys() <= set(known):
        raise ConfigError(f"{where}: expected address and switch, perhaps ports and agent, got {given!r:.200}")
    ports = given.get("ports") or {}
    if not isinstance(ports, dict):
        raise ConfigError(f"{where}: expected ports as ifIndex: name, got {ports!r:.200}")
    try:
        named = {int(index): str(name) for index, name in ports.items()}
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{where}: expected whole numbers (ifIndex) as keys of ports, got {ports!r:.200}") from None
    sender = SflowSender(str(given["address"]), str(given["switch"]), named, str(given.get("agent") or ""))
    return checked(sender, where)


def checked(sender: SflowSender, where: str) -> SflowSender:
    """The sender with its addresses in their usual spelling. Errors: ConfigError."""
    if not sender.switch or not all(sender.ports.values()):
        raise ConfigError(f"{where}: expected names of switch and ports that are not empty, got {sender}")
    return SflowSender(
        _address(sender.address, where),
        sender.switch,
        sender.ports,
        _address(sender.agent, where) if sender.agent else "",
    )


def _address(text: str, where: str) -> str:
    try:
        return plain_address(text)
    except ValueError:
        raise ConfigError(f"{where}: expected an IP address, got {text!r:.100}") from None


def plain_address(text: str) -> str:
    """An address in its one spelling; IPv4 that came through an IPv6 socket as IPv4. Errors: ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
