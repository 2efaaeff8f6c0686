"""Who may ask. Until tokens exist, everyone on this machine is the operator, and nobody else can connect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from leadline.model.errors import RefusedError
from leadline.model.principal import DEFAULT_CLUSTER, DEFAULT_TENANT, Principal, Role

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def authorize(headers: Mapping[str, str]) -> Principal:
    """The principal of a request from its headers; `leadline-tenant` and `leadline-cluster` choose whose rows.

    A request that a browser sends on behalf of another site is refused: loopback alone does not keep a web page
    from posting to us. Errors: RefusedError("unauthorized").
    """
    origin = headers.get("origin", "")
    if origin and not _is_local_origin(origin):
        raise RefusedError("unauthorized", f"requests of web pages from {origin[:100]} are not answered")
    if not _is_local_host(headers.get("host", "localhost")):
        raise RefusedError("unauthorized", f"this server answers as localhost, not as {headers['host'][:100]}")
    return Principal(
        tenant=_word(headers, "leadline-tenant", DEFAULT_TENANT),
        cluster=_word(headers, "leadline-cluster", DEFAULT_CLUSTER),
        role=Role.OPERATOR,
    )


def _word(headers: Mapping[str, str], name: str, default: str) -> str:
    value = headers.get(name, default)
    if not _WORD.fullmatch(value):
        raise RefusedError("unauthorized", f"header {name}: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {value[:80]!r}")
    return value


def _is_local_origin(origin: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and _is_local_host(rest)


def _is_local_host(host: str) -> bool:
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name.strip("[]").lower() in _LOCAL_HOSTS or name.startswith("127.")
