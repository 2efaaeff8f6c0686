"""What a listener needs beyond a port: a certificate, and the word that a request came over our UNIX socket."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.ingest.http import OUR_SOCKET
from leadline.model.errors import ConfigError
from leadline.server.settings import ServerConfig


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a certificate chain and its key."""

    cert: str
    key: str

    def pem(self) -> tuple[bytes, bytes]:
        """Key and chain, as gRPC takes them."""
        return Path(self.key).read_bytes(), Path(self.cert).read_bytes()


def tls_of(server: ServerConfig) -> Tls | None:
    """The files that a configuration names; None without.

    Errors: ConfigError if they are no certificate and its key.
    """
    if not server.tls_cert:
        return None
    cert, key = (str(Path(each).expanduser()) for each in (server.tls_cert, server.tls_key))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except ssl.SSLError as error:
        raise ConfigError(
            f"server.tls_cert {cert}, server.tls_key {key}: expected a certificate chain and its key, both PEM and "
            f"without a passphrase, got {error.reason or error}"
        ) from error
    except OSError as error:
        raise ConfigError(f"server.tls_cert {cert}, server.tls_key {key}: {error.strerror}") from error
    return Tls(cert, key)


class AtSocket:
    """An ASGI application at our UNIX socket: its requests say so, which nothing that comes over TCP can."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        await self._app({**scope, OUR_SOCKET: True}, receive, send)
