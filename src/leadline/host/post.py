"""One HTTP connection to the server, over TCP or a UNIX socket, kept open between requests.

The standard library's client: httpx would take 18 MB and 0.2 s of each agent, for one kind of request.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from leadline import __version__
from leadline.host.config import AgentConfig
from leadline.host.delivery import Outcome
from leadline.host.frames import Item
from leadline.host.secret import Secret, certificates, secret_of
from leadline.model.errors import ConfigError
from leadline.wire.ring.pace import LOOK_HEADER, told_look_s

Post = Callable[[Item], Outcome]
WORDS_MAX = 500  # characters of the server's answer that are kept
ANSWER_BYTES_MAX = 64 * 1024
# ValueError: a host name or a header that cannot be sent; ConfigError: a token file that holds none any more. Told with
# each try, because they may not end the lane.
FAILURES = (OSError, http.client.HTTPException, ValueError, ConfigError)


class Server(NamedTuple):
    """Where the server listens: a host and port, or the path of a socket."""

    host: str
    port: int
    socket: str
    tls: bool
    text: str
    secret: Secret = Secret()
    ca_file: Path | None = None


def parse_server(text: str) -> Server:
    """`http://HOST:PORT`, `https://HOST:PORT`, `HOST:PORT` or `unix:PATH`. Errors: ConfigError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if path.startswith("/"):
            return Server("localhost", 0, path, False, text)
    else:
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            if parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/"):
                return Server(parts.hostname, parts.port or 8440, "", parts.scheme == "https", text)
        except ValueError:
            pass
    raise ConfigError(f"agent.server: expected http://HOST:PORT or unix:/PATH, got {text!r}")


def server_of(config: AgentConfig) -> Server:
    """Where to send, with what is needed to be let in.

    Errors: ConfigError for an address that is none, or a file of a token or of certificates that holds none.
    """
    token_file, ca_file = (Path(each) if each else None for each in (config.token_file, config.ca_file))
    server = parse_server(config.server)._replace(secret=secret_of(token_file, os.environ), ca_file=ca_file)
    server.secret.headers()
    if server.tls:
        certificates(ca_file, os.environ)
    return server


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except BaseException:
            self.close()
            raise


def connection(server: Server, timeout_s: float) -> http.client.HTTPConnection:
    """A connection that is opened by its first request. Errors: ConfigError for certificates that are none."""
    if server.socket:
        return _UnixConnection(server.socket, timeout_s)
    if not server.tls:
        return http.client.HTTPConnection(server.host, server.port, timeout=timeout_s)
    context = certificates(server.ca_file, os.environ)
    return http.client.HTTPSConnection(server.host, server.port, timeout=timeout_s, context=context)


class Poster:
    """Sends items, one at a time. Not thread-safe: each lane has its own."""

    def __init__(
        self,
        server: Server,
        headers: Mapping[str, str],
        timeout_s: float,
        asked_to_look: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`asked_to_look` hears how often the server needs a look into the rings, seconds."""
        self._server = server
        self._asked_to_look = asked_to_look
        self._headers = {"User-Agent": f"leadline-agent/{__version__}", **headers}
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def __call__(self, item: Item) -> Outcome:
        """One try. A connection that the server closed while it was idle is opened again at once."""
        reused = self._connection is not None
        try:
            return self._try(item)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self.close()
            if not reused:
                return Outcome(0, f"{self._server.text}: {type(error).__name__}")
        except FAILURES as error:
            return self._failed(error)
        try:
            return self._try(item)
        except FAILURES as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> Outcome:
        self.close()
        return Outcome(0, f"{self._server.text}: {type(error).__name__}: {error}"[:WORDS_MAX])

    def close(self) -> None:
        """Close the connection; the next try opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, item: Item) -> Outcome:
        if self._connection is None:
            self._connection = connection(self._server, self._timeout_s)
        headers = {
            **self._headers,
            **self._server.secret.headers(),
            "Content-Type": item.content_type,
            "Leadline-Batch": item.batch.hex(),
        }
        self._connection.request("POST", item.path, item.body, headers)
        answer = self._connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX)
        if not answer.isclosed():  # more than anybody would say; do not read on
            self.close()
        if 200 <= answer.status < 300:
            self._asked_to_look(told_look_s(answer.getheader(LOOK_HEADER)))
            return Outcome(answer.status)
        return Outcome(answer.status, _words(answer.status, body), _seconds(answer.getheader("retry-after")))


def _words(status: int, body: bytes) -> str:
    """What the server said, in a line."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        text = f"{error['reason']}: {error['message']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return f"{status} {' '.join(text.split())}"[:WORDS_MAX]


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else 0.0
