"""Who may ask. Until tokens exist, everyone on this machine is the operator, and nobody else can connect."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from leadline.model.errors import RefusedError
from leadline.model.principal import DEFAULT_CLUSTER, DEFAULT_TENANT, Principal, Role

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def authorize(headers: Mapping[str, str]) -> Principal:
    """The principal of a request from its headers.

    Without a tenant it is the operator, who reads all tenants and writes as `default`. Who names one with
    `leadline-tenant` acts as that tenant: reads and writes its rows only. `leadline-role` says another role than that:
    a tenant that only reads, or the operator who imports rows of that tenant. `leadline-cluster` is where written rows
    belong. A request that a browser sends on behalf of another site is refused: loopback alone does not keep a web page
    from posting to us. Errors: RefusedError("unauthorized").
    """
    origin = headers.get("origin", "")
    if origin and not _is_local_origin(origin):
        raise RefusedError(
            "unauthorized",
            f"requests of web pages from {origin[:100]} are not answered; send without the header Origin",
        )
    if not _is_local_host(headers.get("host", "localhost")):
        raise RefusedError(
            "unauthorized",
            f"this server answers as localhost or 127.0.0.1, not as {headers['host'][:100]}; use that name in the URL",
        )
    return Principal(
        tenant=_word(headers, "leadline-tenant", DEFAULT_TENANT),
        cluster=_word(headers, "leadline-cluster", DEFAULT_CLUSTER),
        role=_role(headers),
    )


def _role(headers: Mapping[str, str]) -> Role:
    """No more than anybody on this machine has: who leaves all headers out is the operator."""
    usual = Role.TENANT_WRITE if "leadline-tenant" in headers else Role.OPERATOR
    text = headers.get("leadline-role", usual)
    if text not in set(Role):
        raise RefusedError(
            "unauthorized", f"header leadline-role: expected {', '.join(Role)}, got {text[:80]!r}; leave it out"
        )
    return Role(text)


def _word(headers: Mapping[str, str], name: str, default: str) -> str:
    value = headers.get(name, default)
    if not _WORD.fullmatch(value):
        raise RefusedError("unauthorized", f"header {name}: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {value[:80]!r}")
    return value


def _is_local_origin(origin: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and _is_local_host(rest)


def _is_local_host(host: str) -> bool:
    """Whether `host`, with or without a port, is loopback by number or `localhost`; other names may resolve to us."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
