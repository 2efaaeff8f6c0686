"""Who may ask without a token: everyone on this machine is the operator, and nobody else can connect.

And what holds with and without tokens: a browser asks for the page itself, not for the pages of other sites.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from leadline.model.errors import RefusedError
from leadline.model.principal import DEFAULT_CLUSTER, DEFAULT_TENANT, Caller, Principal, Role

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PORTS = {"http": 80, "https": 443}
SAFE_METHODS = ("GET", "HEAD")


def authorize(caller: Caller) -> Principal:
    """The principal of a request from its headers.

    Without a tenant it is the operator, who reads all tenants and writes as `default`. Who names one with
    `leadline-tenant` acts as that tenant: reads and writes its rows only. `leadline-role` says another role than that:
    a tenant that only reads, or the operator who imports rows of that tenant. `leadline-cluster` is where written rows
    belong. A request that a browser sends on behalf of another site is refused: loopback alone does not keep a web page
    from posting to us. Errors: RefusedError("unauthorized").
    """
    headers = caller.headers
    host = headers.get("host", "localhost")
    if not _is_local(_host_of(f"//{host}")):
        raise RefusedError(
            "unauthorized",
            f"this server answers as localhost or 127.0.0.1, not as {host[:100]}; use that name in the URL",
        )
    refuse_other_sites(caller)
    return Principal(
        tenant=word(headers, "leadline-tenant", DEFAULT_TENANT),
        cluster=word(headers, "leadline-cluster", DEFAULT_CLUSTER),
        role=_role(headers),
    )


def refuse_other_sites(caller: Caller) -> None:
    """Refuse what a browser sends because another site told it to. Errors: RefusedError("unauthorized").

    A browser says who asks in `Origin` (whenever something may change) and, to https and localhost, in
    `Sec-Fetch-Site`; other programs send neither. Another port of the same host is another site: cookies know no
    ports, and anybody on this machine may serve a page on one. To follow a link to a report is let through.
    """
    headers = caller.headers
    origin = headers.get("origin", "")
    if origin and not _is_same(origin, headers.get("host")):
        raise RefusedError(
            "unauthorized",
            f"requests of web pages from {origin[:100]} are not answered; send without the header Origin",
        )
    site = headers.get("sec-fetch-site", "none")
    if site not in ("none", "same-origin") and not _follows_a_link(caller):
        raise RefusedError("unauthorized", f"a page of another site asked this ({site[:20]}); ask it from our own page")


def _follows_a_link(caller: Caller) -> bool:
    """Whether a person went from another site to a report, which costs and changes nothing."""
    headers = caller.headers
    went = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return went and caller.method in SAFE_METHODS and caller.path.endswith("/report")


def _role(headers: Mapping[str, str]) -> Role:
    """No more than anybody on this machine has: who leaves all headers out is the operator."""
    usual = Role.TENANT_WRITE if "leadline-tenant" in headers else Role.OPERATOR
    return said_role(headers, usual)


def said_role(headers: Mapping[str, str], usual: Role) -> Role:
    """The role of `leadline-role`, or the usual one. Errors: RefusedError("unauthorized") for none."""
    text = headers.get("leadline-role", usual)
    if text not in set(Role):
        raise RefusedError(
            "unauthorized", f"header leadline-role: expected {', '.join(Role)}, got {text[:80]!r}; leave it out"
        )
    return Role(text)


def word(headers: Mapping[str, str], name: str, default: str) -> str:
    """A header that is a name. Errors: RefusedError("unauthorized")."""
    value = headers.get(name, default)
    if not _WORD.fullmatch(value):
        raise RefusedError("unauthorized", f"header {name}: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {value[:80]!r}")
    return value


def _is_same(origin: str, host: str | None) -> bool:
    """Whether an origin is the site that `host` names: same name, same port. Without a host: whether it is local."""
    scheme = origin.partition("://")[0].lower()
    found = _host_of(origin, _PORTS.get(scheme, 0))
    if scheme not in _PORTS or found is None:
        return False
    return found == _host_of(f"//{host}", _PORTS[scheme]) if host is not None else _is_local(found)


def _host_of(url: str, port: int = 0) -> tuple[str, int] | None:
    """Name and port of `//HOST[:PORT]` and nothing else; None for what has a user, a path, or no name."""
    try:
        parts = urlsplit(url)
        if parts.path or parts.query or parts.fragment or "@" in parts.netloc or not parts.hostname:
            return None
        return parts.hostname.lower(), parts.port or port
    except ValueError:
        return None


def _is_local(found: tuple[str, int] | None) -> bool:
    """Whether it is loopback by number or `localhost`; other names may resolve to us."""
    if found is None:
        return False
    if found[0] == "localhost":
        return True
    try:
        return ipaddress.ip_address(found[0]).is_loopback
    except ValueError:
        return False
