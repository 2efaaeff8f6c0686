"""Settings of the server itself: where it listens, and what it expects."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from leadline.model.errors import ConfigError

_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the server listens. Port 0 lets the system choose a free one."""

    host: str = field(
        default="127.0.0.1",
        metadata={"doc": "address to listen on, 0.0.0.0 for all; other than loopback only with `token_file`"},
    )
    port: int = field(
        default=8440,
        metadata={"doc": "HTTP: API, remote-write, OTLP/HTTP, rows", "min": 0, "max": _PORT_MAX},
    )
    otlp_http_port: int = field(
        default=4318,
        metadata={"doc": "OTLP over HTTP, on the port that OpenTelemetry expects", "min": 0, "max": _PORT_MAX},
    )
    otlp_grpc_port: int = field(
        default=4317,
        metadata={"doc": "OTLP over gRPC, on the port that OpenTelemetry expects", "min": 0, "max": _PORT_MAX},
    )
    socket: str = field(
        default="",
        metadata={"doc": "path of a UNIX socket that serves the same as `port`, for its owner only; empty: none"},
    )
    token_file: str = field(
        default="",
        metadata={"doc": "file of `leadline token create`: who may connect; empty: this machine only, without tokens"},
    )
    tls_cert: str = field(
        default="", metadata={"doc": "certificate chain (PEM) of HTTPS and gRPC over TLS; empty: in the clear"}
    )
    tls_key: str = field(default="", metadata={"doc": "key (PEM) of `tls_cert`"})
    connections_max: int = field(
        default=10_000,
        metadata={
            "doc": "connections at once, all HTTP ports together, and at most 80 % of the files that may be open; "
            "when all are taken, the sender with most loses those that do nothing",
            "min": 16,
        },
    )
    memory_bytes_max: int = field(
        default=0,
        metadata={
            "doc": "private memory that the server process may hold, its workers not counted; from 85 % on caches are "
            "let go, at all of it bodies are answered 429 (remote-write: 503) and queries 429; 0: half of the memory "
            "of the machine or of its control group, at least 1 GiB",
            "unit": "bytes",
            "min": 0,
        },
    )
    stop_s_max: float = field(
        default=20.0,
        metadata={
            "doc": "longest wait at stop for what was accepted to be stored",
            "unit": "s",
            "min": 1.0,
            "max": 600.0,
        },
    )

    @property
    def host_in_url(self) -> str:
        """The host as it stands before a `:port`: IPv6 addresses in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        """Address of the API, as programs of this machine reach it: all addresses are none to connect to."""
        here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host_in_url)
        return f"{'https' if self.tls_cert else 'http'}://{here}:{self.port}"

    @property
    def token_path(self) -> Path:
        """Where the token file is; `~` is our user's home."""
        return Path(self.token_file).expanduser()

    def is_loopback(self) -> bool:
        """Whether only this machine can connect. Names other than `localhost` are not resolved: what they resolve to
        can change."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class SleConfig:
    """What is expected. Read when the server starts; `leadline show expectations` lists what holds."""

    expectations: str = field(
        default="",
        metadata={"doc": "YAML file of expectations, see docs/expectations.md; empty: only the defaults"},
    )
    disabled: tuple[str, ...] = field(
        default=(),
        metadata={"doc": "Default expectations that are not held, by name; one in the file replaces its own"},
    )


def require_guarded(config: ServerConfig) -> None:
    """Refuse to listen where others can reach us unless tokens say who may.

    Errors: ConfigError, for that and for half of what TLS needs.
    """
    if bool(config.tls_cert) != bool(config.tls_key):
        raise ConfigError("server.tls_cert and server.tls_key belong together; give both or neither")
    if config.token_file or config.is_loopback():
        return
    raise ConfigError(
        f"server.host is {config.host!r}, where others can connect, and no tokens say who may: make one with "
        "`leadline token create me --role admin --token-file FILE`, then start with `--token-file FILE` "
        "(server.token_file); without tokens only loopback is allowed (127.0.0.1, ::1 or localhost)"
    )
