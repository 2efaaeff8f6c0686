"""Settings of the server itself: where it listens, and what it expects."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from leadline.model.errors import ConfigError

_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the server listens. Port 0 lets the system choose a free one."""

    host: str = field(
        default="127.0.0.1",
        metadata={"doc": "address to listen on; only loopback is allowed until tokens exist"},
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
    connections_max: int = field(
        default=10_000,
        metadata={
            "doc": "connections at once, all HTTP ports together, and at most 80 % of the files that may be open; "
            "when all are taken, the sender with most loses those that do nothing",
            "min": 16,
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
        """Address of the API."""
        return f"http://{self.host_in_url}:{self.port}"


@dataclass(frozen=True, slots=True)
class SleConfig:
    """What is expected. Read when the server starts; `leadline show expectations` lists what holds."""

    expectations: str = field(
        default="",
        metadata={"doc": "YAML file of expectations, as docs/expectations.md says; empty: the defaults alone"},
    )
    disabled: tuple[str, ...] = field(
        default=(),
        metadata={"doc": "Default expectations that are not held, by name; one in the file replaces its own"},
    )


def require_loopback(config: ServerConfig) -> None:
    """Refuse to listen where others can reach us: nobody asks for a token yet.

    Errors: ConfigError. Names other than `localhost` are refused unresolved: what they resolve to can change.
    """
    if config.host == "localhost":
        return
    try:
        if ipaddress.ip_address(config.host).is_loopback:
            return
    except ValueError:
        pass
    raise ConfigError(
        f"server.host must be a loopback address (127.0.0.1, ::1 or localhost), got {config.host!r}; requests carry "
        "no token yet, so anyone who reaches the port could read and write. Use an SSH tunnel or a proxy that checks "
        "who is asking"
    )
