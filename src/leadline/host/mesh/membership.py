"""How a host takes part in the mesh: it says where it can be probed, and the server says whom to probe."""

from __future__ import annotations

import errno
import ipaddress
import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from leadline.host.mesh.commands import Peer
from leadline.host.post import FAILURES, Server, connection
from leadline.model.errors import DataError, WorldError

PATH = "/api/v1/mesh/members"
ANSWER_BYTES_MAX = 64 * 1024  # ten peers have 2 KB
TIMEOUT_S = 1.5  # below what the agent waits for a source
BUSY = (429, 502, 503, 504)


class AwayError(WorldError):
    """The server does not answer, or is busy. The agent's lanes tell of that; here it is only tried again."""


class Joined(NamedTuple):
    """What the server said. `clocks`: of the peers, by name."""

    number: int
    key: bytes
    every_s: float
    peers: tuple[Peer, ...]
    clocks: Mapping[str, str]


def join(server: Server, headers: Mapping[str, str], told: Mapping[str, object]) -> Joined:
    """Take part, or say that we still do.

    Errors: AwayError if the server does not answer, another WorldError if it does not want us, DataError for an answer
    that is none.
    """
    body = json.dumps(told).encode()
    try:
        asked = connection(server, TIMEOUT_S)
        try:
            sent = {**headers, **server.secret.headers(), "Content-Type": "application/json"}
            asked.request("POST", PATH, body, sent)
            answer = asked.getresponse()
            text = answer.read(ANSWER_BYTES_MAX)
        finally:
            asked.close()
    except FAILURES as error:
        raise AwayError(f"{server.text} does not say whom to probe: {type(error).__name__}: {error}") from error
    words = text[:200].decode("utf-8", "replace")
    match answer.status:
        case 200:
            return parse_joined(text)
        case status if status in BUSY:
            raise AwayError(f"{server.text} does not say whom to probe: {status} {words}")
        case 404 | 405:
            raise WorldError(f"{server.text} is older than this agent and knows no mesh; the rest goes on without it")
        case 401 | 403:
            raise WorldError(f"{server.text} does not let this agent's token join the mesh: {words}")
        case status:
            raise WorldError(f"{server.text} does not say whom to probe: {status} {words}")


def parse_joined(text: bytes) -> Joined:
    """Errors: DataError."""
    try:
        found: dict[str, Any] = json.loads(text)
        peers = tuple(
            Peer(int(each["number"]), str(each["host"]), str(each["address"]), int(each["port"]), bool(each["owned"]))
            for each in found["peers"]
        )
        clocks = {str(each["host"]): str(each["clock"]) for each in found["peers"]}
        return Joined(int(found["number"]), bytes.fromhex(found["key"]), float(found["every_s"]), peers, clocks)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(PATH, "number, key, every_s and peers", f"{text[:80]!r} ({error})") from None


def own_address(server: Server) -> str:
    """The address of this host that reaches the server. Errors: WorldError where that is none that others reach."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((server.host, server.port or 9))  # sends nothing
            found = str(asked.getsockname()[0])
    except OSError as error:
        raise WorldError(f"which address reaches {server.text}: {error.strerror}; set agent.mesh_address") from error
    if ipaddress.ip_address(found.partition("%")[0]).is_loopback:  # others would probe themselves
        raise WorldError(f"{server.text} is reached by loopback, where no other host is; set agent.mesh_address")
    return found


def bind_address(address: str, port: int, ports: int) -> str:
    """What a prober is to bind: the address that others probe, or all where that is not this host's own (behind NAT).

    Errors: WorldError where one of the ports cannot be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for place in (address, "::" if family == socket.AF_INET6 else "0.0.0.0"):
        try:
            for number in range(port, port + ports):
                with socket.socket(family, socket.SOCK_DGRAM) as tried:
                    tried.bind((place, number))
            return place
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                continue
            if error.errno == errno.EADDRINUSE:
                text = f"UDP port {number} is taken (by another agent?); set agent.mesh_port"
                raise WorldError(text) from None
            raise WorldError(f"UDP port {number} cannot be had: {error.strerror}") from None
    raise WorldError(f"{address} is no address of this host; set agent.mesh_address")
