"""The lines that a prober is told: options, peers, the end. Written by the driver, read by the prober in Python.

native/prober/commands.h lists them; both probers take the same.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from leadline.host.mesh.packet import KEY_BYTES, LABELS
from leadline.model.errors import UsageError

NAME_BYTES_MAX = 127
PEERS_MAX = 64


class Peer(NamedTuple):
    """Another host with a prober. The one of the two that owns their edge reports it."""

    id: int
    name: str
    address: str
    port: int
    is_owned: bool


class Options(NamedTuple):
    """What holds as long as a prober runs. `key` is shared by all probers of a mesh: who has it can move our clock.

    `ports`: source ports from `port` on, among which the pairs of an edge take turns; peers send to the first one.
    `clock`: of tests and labs, the six numbers of an injected clock; two more, if it runs from a given moment on.
    """

    name: str
    id: int
    key: bytes
    port: int
    address: str = "0.0.0.0"
    ports: int = 1
    dscp: int = 0
    rate: float = 50.0
    report_ms: float = 250.0
    window_ms: float = 2000.0
    soft: float = 0.02
    points: str = "all"
    silent_ms: float = 85.0
    batch_ms: float = 15.0
    stamps: str = "kernel"
    nic: str = ""
    record: str = ""
    boot: int = 0
    clock: tuple[float, ...] = ()


def option_lines(options: Options) -> list[str]:
    """What a prober is told before anything else. Errors: UsageError for what it would not take."""
    check_name(options.name)
    if len(options.key) != KEY_BYTES:
        raise UsageError(f"expected a key of {KEY_BYTES} bytes, got {len(options.key)}")
    if not 0 < options.id < 1 << 64:
        raise UsageError(f"expected an id of 1 to 2**64-1, got {options.id}")
    if not 1 <= options.ports <= LABELS or not 0 < options.port <= 65536 - options.ports:
        raise UsageError(f"expected 1 to {LABELS} ports below 65536, got {options.ports} from {options.port} on")
    plain = {
        name: value
        for name, value in options._asdict().items()
        if name not in ("id", "key", "boot", "clock", "record", "nic")
    }
    lines = [f"set {name} {value}" for name, value in plain.items()]
    lines += [f"set id {options.id:x}", f"set key {options.key.hex()}"]
    if options.nic:
        check_name(options.nic)
        lines.append(f"set nic {options.nic}")
    if options.boot:
        lines.append(f"set boot {options.boot:x}")
    if options.record:
        if set(options.record) & set(" \t\r\n"):
            raise UsageError(f"expected a file without blanks in its name, got {options.record!r}")
        lines.append(f"set record {options.record}")
    if options.clock:
        lines.append(
            "clock " + " ".join(format(value, "d" if isinstance(value, int) else "f") for value in options.clock)
        )
    return [*lines, "start"]


def add_line(peer: Peer) -> str:
    """Adds a peer, or changes it. Errors: UsageError."""
    check_name(peer.name)
    try:
        ipaddress.ip_address(peer.address)
    except ValueError:
        raise UsageError(f"expected an IP address of {peer.name}, got {peer.address!r}") from None
    if not 0 < peer.port < 65536 or not 0 < peer.id < 1 << 64:
        raise UsageError(
            f"expected a port of 1 to 65535 and an id of 64 bits of {peer.name}, got {peer.port}, {peer.id}"
        )
    return f"add {peer.id:x} {peer.name} {peer.address} {peer.port} {'owned' if peer.is_owned else 'answers'}"


def remove_line(peer: Peer) -> str:
    """Removes a peer."""
    return f"remove {peer.id:x}"


def trace_line(peer: Peer, label: int, hops: int) -> str:
    """Asks for the routers on the way of a label, up to so many hops; a `Trace` answers in half a second."""
    return f"trace {peer.id:x} {label} {hops}"


def check_name(name: str) -> None:
    """Names go through a line of words into JSON as they are. Errors: UsageError."""
    if not 0 < len(name) <= NAME_BYTES_MAX or any(not "!" <= each <= "~" or each in '"\\' for each in name):
        raise UsageError(f"expected a host name of up to {NAME_BYTES_MAX} printable characters of ASCII, got {name!r}")
