"""Pages over HTTP/1.1 in a loop of selectors: enough for scrapers, and 60 lines instead of a server's megabytes."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable
from functools import partial

from leadline.lab.telemetry.exposition import CONTENT_TYPE
from leadline.model.errors import WorldError

_REQUEST_BYTES_MAX = 8192
_SEND_S_MAX = 2.0  # a page is smaller than a socket's buffer; who does not read is cut off
_CONNECTIONS_MAX = 32


class PageServer:
    """Serves `/metrics` on one address. `render` makes the page anew for each request."""

    def __init__(self, loop: selectors.BaseSelector, address: str, port: int, render: Callable[[], bytes]) -> None:
        """Listens at once. Errors: WorldError if the address is taken."""
        self._loop = loop
        self._render = render
        self._open: dict[socket.socket, bytearray] = {}
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((address, port))
            self._listener.listen(16)
        except OSError as error:
            self._listener.close()
            raise WorldError(f"exporter at {address}:{port}: {error.strerror}; is another lab up?") from error
        self._listener.setblocking(False)
        loop.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Stop listening and let go of all connections."""
        for connection in (self._listener, *self._open):
            with contextlib.suppress(KeyError):
                self._loop.unregister(connection)
            connection.close()
        self._open = {}

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            if len(self._open) >= _CONNECTIONS_MAX:
                connection.close()
                return
            connection.settimeout(_SEND_S_MAX)
            self._open[connection] = bytearray()
            self._loop.register(connection, selectors.EVENT_READ, partial(self._read, connection))

    def _read(self, connection: socket.socket) -> None:
        asked = self._open[connection]
        try:
            data = connection.recv(4096)
            asked += data
            if not data or len(asked) > _REQUEST_BYTES_MAX:
                self._drop(connection)
                return
            while (end := asked.find(b"\r\n\r\n")) >= 0:
                head = bytes(asked[:end])
                del asked[: end + 4]
                connection.sendall(answer(head, self._render))
                if wants_close(head):
                    self._drop(connection)
                    return
        except OSError:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._open.pop(connection, None)
        self._loop.unregister(connection)
        connection.close()


def answer(head: bytes, render: Callable[[], bytes]) -> bytes:
    """The answer to a request, from its head without the empty line. Pure but for `render`."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", b"only GET\n", True)
    if path != b"/metrics":
        return _response("404 Not Found", b"the page is /metrics\n", method == b"GET")
    return _response("200 OK", render(), method == b"GET")


def wants_close(head: bytes) -> bool:
    """Whether the client wants the connection closed after the answer."""
    first, _, headers = head.lower().partition(b"\r\n")
    return first.endswith(b"http/1.0") or any(
        line.replace(b" ", b"") == b"connection:close" for line in headers.split(b"\r\n")
    )


def _response(status: str, body: bytes, with_body: bool) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (body if with_body else b"")
