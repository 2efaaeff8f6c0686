"""Listening sockets of the server's processes."""

from __future__ import annotations

import socket

from leadline.model.errors import WorldError

PORT_FLAGS = {
    "server.port": "--port", "server.otlp_http_port": "--otlp-http-port", "server.otlp_grpc_port": "--otlp-grpc-port",
}  # fmt: skip
"""The flag of `leadline up` for each setting."""
BACKLOG = 2048  # connections that wait to be accepted; the kernel's own limit (somaxconn) is 4096


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
            f"choose another with {PORT_FLAGS[setting]} N"
        ) from error
    return made
